// The policy table: which kernel a problem gets on a device, and in what numbers. Pure functions of
// both; each number with the arithmetic behind it. docs/cuda.md draws the kernels.
//
//   columns (f32)         forward                                backward
//   1 … 1024 / 512        narrow: 1 to 32 lanes a row            narrow
//   … 16384 / 8192        wide: a warp a segment, a block a row  wide: as many rows a block as fit
//   … 65536 / 32768       cluster of 2 to 8 blocks a row, sm_90+ cluster
//   beyond, or before 90  reread: through L2; split: few rows    strips: two passes over x and dy
//   few rows, wide        cluster, sm_90+                        cluster
#pragma once

#include <algorithm>

#include "fusednorm/cuda.h"
#include "geometry.h"
#include "kernel_sizes.h"

namespace fusednorm::cuda::policy {

inline bool has_clusters(const Device& device) {
  return device.compute_capability >= 90;
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

/// Groups of `segments` warps in a backward block: as many as fit, but no more than it takes to
/// give every multiprocessor a block.
inline int row_groups(std::int64_t rows, std::int64_t segments, const Device& device) {
  const auto fit = static_cast<std::int64_t>(max_block_segments / segments);
  return static_cast<int>(
      std::clamp<std::int64_t>(divide_up(rows, device.multiprocessors), 1, fit));
}

/// A long row is re-read by one block while rows fill half the device; with fewer, many blocks
/// split it.
inline bool splits(std::int64_t rows, std::int64_t segments, std::int64_t slot_bytes,
                   const Device& device) {
  return rows * 2 < device.multiprocessors || segments * slot_bytes > device.shared_bytes_per_block;
}

inline Launch forward(const ForwardProblem& p, const Device& device) {
  Launch launch;
  if (p.rows == 0 || p.cols == 0) return launch;
  const int element = static_cast<int>(size_of(p.x_dtype));
  const int compute = static_cast<int>(size_of(compute_dtype(p.x_dtype)));
  const Geometry g = geometry_of(p.cols, element, forward_lane_registers);
  const std::int64_t many = device.multiprocessors;
  launch.vectors_per_thread = g.vectors;
  launch.lanes_per_row = g.lanes;
  launch.blocks_per_row = 1;
  if (g.segments == 1) {
    const int tile_registers = g.vectors * g.vector_elements * compute / 4;
    launch.kernel = Kernel::warp;
    launch.threads_per_block = narrow_threads;
    launch.blocks =
        std::min(divide_up(p.rows, narrow_threads / g.lanes), many * narrow_blocks(tile_registers));
    return launch;
  }
  if (const int cluster = blocks_per_row(p.rows, g.segments, device); cluster > 0) {
    const auto warps = static_cast<int>(divide_up(g.segments, cluster));
    launch.kernel = cluster > 1 ? Kernel::cluster : Kernel::block;
    launch.threads_per_block = warps * warp_lanes;
    launch.blocks_per_row = cluster;
    launch.lanes_per_row = cluster * launch.threads_per_block;
    const std::int64_t fit = std::max<std::int64_t>(
        1,
        many * resident_blocks(cluster > 1 ? cluster_threads : launch.threads_per_block) / cluster);
    launch.blocks = std::min(p.rows, fit) * cluster;
    // Where rows are not whole segments, beta waits in shared memory; room for it in any case, for
    // whether rows are aligned is not known before run().
    launch.shared_bytes = static_cast<std::size_t>(launch.threads_per_block) * g.vectors *
                          g.vector_elements * compute;
    return launch;
  }
  const int slot_bytes = 4 * compute;
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
  const int element = static_cast<int>(size_of(p.x_dtype));
  const int compute = static_cast<int>(size_of(compute_dtype(p.x_dtype)));
  const Geometry g = geometry_of(p.cols, element, backward_lane_registers);
  const std::int64_t many = device.multiprocessors;
  const int tile_bytes = g.vectors * g.vector_elements * compute;
  const int kept_bytes = p.source == Source::y ? tile_bytes : 0;
  std::int64_t writers = 0, rows_per_turn = 1;
  launch.vectors_per_thread = g.vectors;
  launch.lanes_per_row = g.lanes;
  launch.blocks_per_row = 1;
  const int cluster = blocks_per_row(p.rows, g.segments, device);
  if (g.segments == 1) {
    launch.kernel = Kernel::warp;
    launch.threads_per_block = wide_threads;
    rows_per_turn = wide_threads / g.lanes;
    launch.blocks = writers = std::min(divide_up(p.rows, rows_per_turn), many);
    launch.shared_bytes = static_cast<std::size_t>(wide_threads) * kept_bytes;
  } else if (cluster == 1) {
    rows_per_turn = row_groups(p.rows, g.segments, device);
    launch.kernel = Kernel::block;
    launch.threads_per_block = static_cast<int>(rows_per_turn * g.segments) * warp_lanes;
    launch.lanes_per_row = static_cast<int>(g.segments) * warp_lanes;
    launch.blocks = writers = std::min(divide_up(p.rows, rows_per_turn),
                                       many * resident_blocks(launch.threads_per_block));
    const int sums_bytes =
        rows_per_turn > 1 ? 2 * g.segment_cols() * static_cast<int>(g.segments) * compute : 0;
    launch.shared_bytes =
        static_cast<std::size_t>(launch.threads_per_block) * kept_bytes + sums_bytes;
  } else if (cluster > 1) {
    launch.kernel = Kernel::cluster;
    launch.threads_per_block = static_cast<int>(divide_up(g.segments, cluster)) * warp_lanes;
    launch.blocks_per_row = cluster;
    launch.lanes_per_row = cluster * launch.threads_per_block;
    writers = std::min(p.rows, std::max<std::int64_t>(1, many / cluster));
    launch.blocks = writers * cluster;
    launch.shared_bytes = static_cast<std::size_t>(launch.threads_per_block) * kept_bytes;
  } else {
    launch.kernel = Kernel::split;
    launch.threads_per_block = strip_threads;
    launch.lanes_per_row = strip_threads;
    const std::int64_t chunks = divide_up(p.rows, rows_per_partial);
    launch.blocks = std::min(chunks * divide_up(g.segments, strip_warps),
                             many * resident_blocks(strip_threads));
    launch.shared_bytes = static_cast<std::size_t>(strip_threads) * kept_bytes;
    return {launch, want_sums ? chunks : 0};
  }
  const std::int64_t turns = divide_up(p.rows, writers * rows_per_turn);
  return {launch, want_sums ? writers * divide_up(turns, rows_per_partial) : 0};
}

}  // namespace fusednorm::cuda::policy
