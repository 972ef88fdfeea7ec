// The policy table: which kernel a problem gets on a device, and in what numbers. Pure functions of
// both; each number with the arithmetic behind it. docs/cuda.md draws the kernels.
//
//   columns (f32)         forward                                backward
//   1 … 1024 / 512        narrow: 1 to 32 lanes a row            narrow
//   … 16384 / 8192        wide: a warp a segment, a block a row  wide: as many rows a block as fit
//   … 65536 / 32768       cluster of 2 to 8 blocks a row, sm_90+ cluster
//   beyond, or before 90  reread: through L2; split: few rows    strips: two passes over x and dy
//   (also where a block has too little shared memory: 16384 / 8192 ragged columns on sm_75)
//   few rows, wide        cluster, sm_90+                        cluster
#pragma once

#include <algorithm>

#include "fusednorm/cuda.h"
#include "geometry.h"
#include "kernel_sizes.h"
#include "layout.h"

namespace fusednorm::cuda::policy {

inline bool has_clusters(const Device& device) {
  return device.compute_capability >= 90 && device.clusters;
}

/// Blocks of `threads` threads that fit a multiprocessor at 128 registers a thread: 512 threads in
/// all.
constexpr int resident_blocks(int threads) {
  return std::max(1, wide_threads / threads);
}

/// The smallest cluster whose blocks of up to 8 warps hold `segments`.
constexpr int least_cluster(std::int64_t segments) {
  int blocks = 2;
  while (blocks * (cluster_threads / warp_lanes) < segments) blocks *= 2;
  return blocks;
}

/// Blocks a row when rows alone do not fill the device: the largest cluster that leaves each block
/// two warps and does not ask for more blocks than there are multiprocessors. 1: no cluster.
inline int filling_cluster(std::int64_t rows, std::int64_t segments, const Device& device) {
  int blocks = 1;
  while (blocks < max_cluster_blocks && segments >= 4 * blocks &&
         rows * 2 * blocks <= device.multiprocessors) {
    blocks *= 2;
  }
  return blocks;
}

/// Blocks a row of a cluster launch, or 1 where a block holds the row and rows fill the device, or
/// 0 where no cluster can hold it.
inline int blocks_per_row(std::int64_t rows, std::int64_t segments, const Device& device) {
  const bool fits_block = segments <= max_block_segments;
  if (!has_clusters(device)) return fits_block ? 1 : 0;
  if (segments > max_cluster_segments) return 0;
  const int filling = filling_cluster(rows, segments, device);
  return fits_block ? filling : std::max(filling, least_cluster(segments));
}

/// Backward, with fewer rows than multiprocessors: the largest cluster, for each cluster leaves a
/// row of partials and few of them must do.
inline int backward_blocks_per_row(std::int64_t rows, std::int64_t segments, const Device& device) {
  int blocks = blocks_per_row(rows, segments, device);
  if (!has_clusters(device) || blocks == 0 || rows >= device.multiprocessors) return blocks;
  while (blocks < max_cluster_blocks && segments >= 4 * blocks) blocks *= 2;
  return blocks;
}

/// Groups of `row_threads` threads in a backward block: as many as fit, but no more than it takes
/// to give every multiprocessor a block.
inline int row_groups(std::int64_t rows, int row_threads, const Device& device) {
  return static_cast<int>(std::clamp<std::int64_t>(divide_up(rows, device.multiprocessors), 1,
                                                   wide_threads / row_threads));
}

/// Whether a block gets `bytes` of dynamic shared memory. sm_75 has 64 KiB, others 99 and more.
inline bool fits(std::size_t bytes, const Device& device) {
  return static_cast<std::int64_t>(bytes) + most_static_bytes <= device.shared_bytes_per_block;
}

/// A long row is re-read by one block while rows fill half the device; with fewer, many blocks
/// split it.
inline bool splits(std::int64_t rows, std::int64_t segments, std::int64_t slot_bytes,
                   const Device& device) {
  return rows * 2 < device.multiprocessors ||
         !fits(static_cast<std::size_t>(segments * slot_bytes), device);
}

inline Launch forward(const ForwardProblem& p, const Device& device) {
  Launch launch;
  if (p.rows == 0 || p.cols == 0) return launch;

  const Geometry g = forward_geometry(p);
  const std::int64_t many = device.multiprocessors;
  launch.vectors_per_thread = g.vectors;
  launch.lanes_per_row = g.lanes;
  launch.blocks_per_row = 1;
  if (g.segments == 1) {
    const int tile_registers = tile_bytes_of(g, p.x_dtype) / 4;
    launch.kernel = Kernel::warp;
    launch.threads_per_block = narrow_threads;
    launch.blocks =
        std::min(divide_up(p.rows, narrow_threads / g.lanes), many * narrow_blocks(tile_registers));
    return launch;
  }
  const int cluster = blocks_per_row(p.rows, g.segments, device);
  // 0: no block holds the row, which may have more warps' worth of columns than an int counts.
  const int warps = cluster > 0 ? static_cast<int>(divide_up(g.segments, cluster)) : 0;
  // Whether rows are aligned is not known before run(): room for the worse case.
  const std::size_t wide_shared = forward_wide_shared(p, warps * warp_lanes, false);
  if (cluster > 0 && fits(wide_shared, device)) {
    launch.kernel = cluster > 1 ? Kernel::cluster : Kernel::block;
    launch.threads_per_block = warps * warp_lanes;
    launch.blocks_per_row = cluster;
    launch.lanes_per_row = cluster * launch.threads_per_block;
    const std::int64_t fit = std::max<std::int64_t>(
        1,
        many * resident_blocks(cluster > 1 ? cluster_threads : launch.threads_per_block) / cluster);
    launch.blocks = std::min(p.rows, fit) * cluster;
    launch.shared_bytes = wide_shared;
    return launch;
  }
  const int slot_bytes = 4 * static_cast<int>(size_of(compute_dtype(p.x_dtype)));
  launch.threads_per_block = wide_threads;
  launch.lanes_per_row = wide_threads;
  if (splits(p.rows, g.segments, slot_bytes, device)) {
    launch.kernel = Kernel::split;
    launch.blocks_per_row = static_cast<int>(
        std::min(divide_up(g.segments, max_block_segments), divide_up(many, p.rows)));
    launch.blocks = std::min(p.rows, many) * launch.blocks_per_row;
  } else {
    launch.kernel = Kernel::reread;
    launch.blocks = std::min(p.rows, many);
    launch.shared_bytes = static_cast<std::size_t>(g.segments) * slot_bytes;
  }
  return launch;
}

struct BackwardChoice {
  Launch launch;
  std::int64_t partials;
};

inline BackwardChoice backward(const BackwardProblem& p, const Device& device) {
  Launch launch;
  const bool want_sums = p.want_dgamma || p.want_dbeta;
  if (p.rows == 0 || p.cols == 0 || (!p.want_dx && !want_sums)) return {launch, 0};
  const Geometry g = backward_geometry(p);
  const std::int64_t many = device.multiprocessors;
  std::int64_t writers = 0, rows_per_turn = 1;
  launch.vectors_per_thread = g.vectors;
  launch.lanes_per_row = g.lanes;
  launch.blocks_per_row = 1;
  const int cluster = backward_blocks_per_row(p.rows, g.segments, device);
  const int row_threads = cluster == 1 ? static_cast<int>(g.segments) * warp_lanes : 0;
  // Whether rows are aligned is not known before run(): the worse case must fit.
  const auto shared_of = [&](int groups) {
    return backward_shared(p, groups * row_threads, groups, false);
  };
  if (g.segments == 1) {
    int threads = stretched(g, p.x_dtype) ? stretched_threads : wide_threads;
    const auto shared = [&] { return backward_shared(p, threads, threads / warp_lanes, false); };
    while (!fits(shared(), device)) threads /= 2;
    launch.kernel = Kernel::warp;
    launch.threads_per_block = threads;
    rows_per_turn = threads / g.lanes;
    launch.blocks = writers = std::min(divide_up(p.rows, rows_per_turn), many);
    launch.shared_bytes = shared();
  } else if (cluster == 1 && fits(shared_of(1), device)) {
    int groups = row_groups(p.rows, row_threads, device);
    while (!fits(shared_of(groups), device)) --groups;
    rows_per_turn = groups;
    launch.kernel = Kernel::block;
    launch.threads_per_block = groups * row_threads;
    launch.lanes_per_row = row_threads;
    launch.blocks = writers = std::min(divide_up(p.rows, rows_per_turn),
                                       many * resident_blocks(launch.threads_per_block));
    launch.shared_bytes = shared_of(groups);
  } else if (cluster > 1) {
    launch.kernel = Kernel::cluster;
    launch.threads_per_block = static_cast<int>(divide_up(g.segments, cluster)) * warp_lanes;
    launch.blocks_per_row = cluster;
    launch.lanes_per_row = cluster * launch.threads_per_block;
    writers = std::min(p.rows, std::max<std::int64_t>(1, many / cluster));
    launch.blocks = writers * cluster;
    launch.shared_bytes = backward_shared(p, launch.threads_per_block, 1, false);
  } else {
    launch.kernel = Kernel::split;
    launch.threads_per_block = strip_threads;
    launch.lanes_per_row = strip_threads;
    const std::int64_t chunks = divide_up(p.rows, rows_per_partial);
    launch.blocks = std::min(chunks * divide_up(g.segments, strip_warps),
                             many * resident_blocks(strip_threads));
    launch.shared_bytes = p.source == Source::y ? static_cast<std::size_t>(strip_threads) *
                                                      tile_bytes_of(g, p.x_dtype)
                                                : 0;
    return {launch, want_sums ? chunks : 0};
  }
  const std::int64_t turns = divide_up(p.rows, writers * rows_per_turn);
  return {launch, want_sums ? writers * divide_up(turns, rows_per_partial) : 0};
}

}  // namespace fusednorm::cuda::policy
