// SPDX-License-Identifier: Apache-2.0
// The policy table: which kernel a problem gets on a device, and in what numbers. Pure functions of
// both; each number with the arithmetic behind it. docs/cuda.md draws the kernels.
//
//   columns (f32)         forward                                backward
//   1 … 1280 / 768        narrow: 1 to 32 lanes a row            narrow (from y: to 512)
//   … 16384 / 8192        wide: a warp a segment, a block a row  wide: as many rows a block as fit
//   … 65536 / 32768       cluster of 2 to 8 blocks a row, sm_90+ cluster
//   … 131072 / 65536      cluster of 16, where the device has it cluster
//   beyond, or before 90  reread: through L2; split: few rows    strips: x and dy read twice
//   (also where a block has too little shared memory: 16384 / 8192 ragged columns on sm_75)
//   few rows, wide        cluster, sm_90+                        cluster
#pragma once

#include <algorithm>
#include <numeric>

#include "device/rows.h"
#include "fusednorm/cuda.h"
#include "plan/clusters.h"
#include "plan/rings.h"
#include "plan/shared_memory.h"

namespace fusednorm::cuda::policy {

/// Blocks of `threads` threads that fit a multiprocessor at 128 registers a thread: 512 threads in
/// all.
constexpr int resident_blocks(int threads) {
  return std::max(1, wide_threads / threads);
}

/// Backward, with fewer rows than multiprocessors: the largest cluster, for each cluster leaves a
/// row of partials and few of them must do.
inline int backward_blocks_per_row(const BackwardProblem& p, std::int64_t segments,
                                   const Device& device) {
  const std::int64_t rows = p.rows;
  const int most = p.source == Source::y ? stretched_threads : wide_threads;
  int blocks = blocks_per_row(rows, segments, element_of(row_dtype(p)), device, most / warp_lanes);
  if (!has_clusters(device) || blocks == 0 || rows >= usable(device) || segments < 16)
    return blocks;
  const int largest =
      std::min(most_cluster_blocks(element_of(row_dtype(p)), device), portable_cluster_blocks);
  while (blocks < largest && segments >= 4 * blocks) blocks *= 2;
  return blocks;
}

/// The most threads of a backward block: fewer where lanes hold more than usual.
inline int most_backward_threads(const BackwardProblem& p) {
  return backward_threads(backward_tile_bytes(p, false, false) / 4);
}

/// Backward blocks of `threads` threads that a multiprocessor holds: its registers, and its named
/// barriers, of which a block takes all 16, for they are named at run time. There are 64 of them,
/// 32 on sm_75, 24 where a multiprocessor has 1536 threads (CUDA's occupancy calculator).
inline int resident_backward_blocks(const BackwardProblem& p, int threads, const Device& device) {
  const int most = p.source == Source::y ? stretched_threads : most_backward_threads(p);
  const int capability = device.compute_capability;
  const bool small = (capability > 80 && capability < 90) || capability >= 120;
  return std::clamp(most / threads, 1, small ? 1 : capability < 80 ? 2 : 4);
}

/// Groups of `row_threads` threads in a backward block: as many as fit, but no more than it takes
/// to give every multiprocessor a block.
inline int row_groups(const BackwardProblem& p, int row_threads, const Device& device) {
  const int most = p.source == Source::y ? stretched_threads : most_backward_threads(p);
  return static_cast<int>(
      std::clamp<std::int64_t>(divide_up(p.rows, usable(device)), 1, most / row_threads));
}

/// Whether a block gets `bytes` of dynamic shared memory. sm_75 has 64 KiB, others 99 and more.
inline bool fits(std::size_t bytes, const Device& device) {
  return static_cast<std::int64_t>(bytes) + most_static_bytes <= block_shared_bytes(device);
}

/// A long row is re-read by one block while rows fill half the device; with fewer, many blocks
/// split it.
inline bool splits(std::int64_t rows, std::int64_t segments, std::int64_t slot_bytes,
                   const Device& device) {
  return rows * 2 < usable(device) ||
         !fits(static_cast<std::size_t>(segments * slot_bytes), device);
}

/// The nearest number of blocks, `rows_per_block` rows each, that takes a multiple of `unit` rows
/// at once, if that leaves at least 7/8 of them: then a thread's rows are evenly spaced in memory,
/// or all of one parameter group, and neither has to be found anew for each row.
inline std::int64_t even_blocks(std::int64_t blocks, std::int64_t rows_per_block,
                                std::int64_t unit) {
  if (unit <= 1) return blocks;
  const std::int64_t least = unit / std::gcd(unit, rows_per_block);
  const std::int64_t even = blocks / least * least;
  return even * 8 >= blocks * 7 && even > 0 ? even : blocks;
}

/// Rows after which strides and parameter groups repeat; 1 where they are the same for all rows, or
/// repeat too late to matter.
template <typename Problem>
std::int64_t period(const Problem& p) {
  constexpr std::int64_t most = 1 << 16;
  const std::int64_t inner = std::max<std::int64_t>(1, p.inner_rows);
  const std::int64_t cycle = p.param_groups > 1 && p.rows_per_group < most && p.param_groups < most
                                 ? p.param_groups * p.rows_per_group
                                 : 1;
  if (inner > most || cycle > most) return 1;
  return std::lcm(inner, cycle);
}

/// Blocks with `shared_bytes` of shared memory that a multiprocessor holds, of `resident` that its
/// registers would: a grid of more has a last wave of few blocks.
inline int resident_with(std::size_t shared_bytes, int resident, const Device& device) {
  const std::int64_t all = block_shared_bytes(device) + system_shared_bytes;
  const auto each = static_cast<std::int64_t>(shared_bytes) + system_shared_bytes;
  return static_cast<int>(std::clamp<std::int64_t>(all / each, 1, resident));
}

/// Every warp of every block has a segment, and every segment all its columns.
inline bool whole_segments(std::int64_t cols, const Geometry& g, int blocks_per_row) {
  return cols == g.segments * g.segment_cols() && g.segments % blocks_per_row == 0;
}

/// Whether rows that all start on a boundary of 16 bytes get another kernel than others.
inline bool has_aligned_kernel(const ForwardProblem& p, const Launch& l) {
  return is_plain(p) && whole_segments(p.cols, forward_geometry(p), l.blocks_per_row);
}
inline bool has_aligned_kernel(const BackwardProblem& p, const Launch& l) {
  return is_plain(p) && whole_segments(p.cols, backward_geometry(p), l.blocks_per_row);
}

/// The ring of a block of several warps, of the kernel for `whole` rows or of the other.
inline Ring forward_wide_ring(const ForwardProblem& p, const Launch& l, bool whole,
                              const Device& device) {
  const bool clustered = l.kernel == Kernel::cluster;
  return ring_of(forward_planes(p, forward_wide_vectors(p, clustered, whole)),
                 plane_bytes_of(p, l.lanes_per_row, whole, !whole && has_aligned_kernel(p, l)),
                 l.threads_per_block,
                 forward_wide_shared(p, l.threads_per_block, clustered, whole) + most_static_bytes,
                 clustered ? (whole ? 2 : 1) : resident_blocks(l.threads_per_block),
                 divide_up(p.rows, l.blocks / l.blocks_per_row), device);
}

/// Clusters that the device runs at once. Only the kernels for whole rows leave registers for a
/// second block on a multiprocessor. `whole`: every warp of every block has a whole segment of a
/// plain row; most such rows are aligned, and take those kernels.
inline std::int64_t fitting_clusters(int blocks_per_row, bool whole, const Device& device) {
  const std::int64_t two = resident_clusters(blocks_per_row, device);
  return std::max<std::int64_t>(1, whole ? two : two / 2);
}

/// The ring of a backward block: `groups` groups of threads, each with a row at a time.
inline Ring backward_ring(const BackwardProblem& p, const Launch& l, int groups, bool whole,
                          std::int64_t most_rows, const Device& device) {
  const bool clustered = l.kernel == Kernel::cluster;
  return ring_of(
      backward_planes(p, backward_vectors(p, clustered, whole)),
      plane_bytes_of(p, l.lanes_per_row, whole,
                     !whole && l.kernel != Kernel::narrow && has_aligned_kernel(p, l)),
      l.threads_per_block,
      backward_shared(p, l.threads_per_block, groups, clustered, whole) + most_static_bytes,
      clustered ? (whole ? 2 : 1) : resident_backward_blocks(p, l.threads_per_block, device),
      most_rows, device);
}

inline Launch forward(const ForwardProblem& p, const Device& device) {
  Launch launch;
  if (p.rows == 0 || p.cols == 0) return launch;

  const Geometry g = forward_geometry(p);
  const std::int64_t many = usable(device);
  launch.vectors_per_thread = g.vectors;
  launch.lanes_per_row = g.lanes;
  launch.blocks_per_row = 1;
  if (g.segments == 1) {
    const int rows_per_block = narrow_threads / g.lanes;
    const int registers = tile_bytes(forward_narrow_vectors(p), row_dtype(p)) / 4;
    const int resident = narrow_blocks(registers, size_of(row_dtype(p)));
    launch.kernel = Kernel::narrow;
    launch.threads_per_block = narrow_threads;
    launch.blocks = std::min(divide_up(p.rows, rows_per_block), many * resident);
    launch.blocks = even_blocks(launch.blocks, rows_per_block, period(p));
    const std::size_t other = forward_narrow_shared(p);
    const Ring ring = ring_of(forward_planes(p, forward_narrow_vectors(p)),
                              plane_bytes_of(p, g.lanes, false, false), narrow_threads, other,
                              resident, divide_up(p.rows, launch.blocks * rows_per_block), device);
    set_ring(launch, other, ring);
    const std::int64_t fit = many * resident_with(launch.shared_bytes, resident, device);
    if (launch.blocks > fit) launch.blocks = even_blocks(fit, rows_per_block, period(p));
    return launch;
  }
  const bool long_lanes =
      g.vectors > widest_vectors(element_of(row_dtype(p)), forward_lane_registers);
  int cluster =
      long_lanes ? 1 : blocks_per_row(p.rows, g.segments, element_of(row_dtype(p)), device);
  // Rows that clusters of half the size could hold get them whatever their number: other kernels
  // sum in another order.
  if (cluster == 1 && !long_lanes && has_clusters(device) &&
      !fits(forward_wide_shared(p, static_cast<int>(g.segments) * warp_lanes, false, false),
            device))
    cluster = least_cluster(g.segments);
  // 0: no block holds the row, which may have more warps' worth of columns than an int counts.
  const int warps = cluster > 0 ? static_cast<int>(divide_up(g.segments, cluster)) : 0;
  // Whether rows are aligned is not known before run(): room for the worse case.
  const std::size_t wide_shared = forward_wide_shared(p, warps * warp_lanes, cluster > 1, false);
  if (cluster > 0 && fits(wide_shared, device)) {
    launch.kernel = cluster > 1 ? Kernel::cluster : Kernel::wide;
    launch.threads_per_block = warps * warp_lanes;
    launch.blocks_per_row = cluster;
    launch.lanes_per_row = cluster * launch.threads_per_block;
    const int resident = resident_blocks(launch.threads_per_block);
    const bool whole = is_plain(p) && whole_segments(p.cols, g, cluster);
    const std::int64_t fit =
        cluster > 1 ? fitting_clusters(cluster, whole, device) : many * resident;
    launch.blocks = even_blocks(std::min(p.rows, fit), 1, period(p)) * cluster;
    set_ring(launch, wide_shared, forward_wide_ring(p, launch, false, device));
    if (cluster == 1) {
      // Most rows of whole segments are aligned, and have the kernel for such rows.
      const std::size_t shared =
          whole ? forward_wide_shared(p, launch.threads_per_block, false, true) +
                      static_cast<std::size_t>(forward_wide_ring(p, launch, true, device).bytes)
                : launch.shared_bytes;
      const int compute_bytes = element_of(compute_dtype(p.x_dtype));
      const std::int64_t held =
          many * resident_with(shared + wide_static_bytes(compute_bytes), resident, device);
      if (launch.blocks > held) launch.blocks = even_blocks(held, 1, period(p));
    }
    return launch;
  }
  const int slot_bytes = 4 * element_of(compute_dtype(p.x_dtype));
  launch.threads_per_block = long_threads;
  launch.lanes_per_row = long_threads;
  if (splits(p.rows, g.segments, slot_bytes, device)) {
    launch.kernel = Kernel::split;
    launch.blocks_per_row = static_cast<int>(
        std::min(divide_up(g.segments, long_threads / warp_lanes), divide_up(many, p.rows)));
    launch.blocks = std::min(p.rows, many) * launch.blocks_per_row;
  } else {
    launch.kernel = Kernel::reread;
    launch.blocks = std::min(p.rows, many);
    launch.shared_bytes = static_cast<std::size_t>(g.segments) * slot_bytes;
  }
  return launch;
}

/// Blocks of a split row's first launch: a warp for each of `items` segments.
inline std::int64_t split_moments_blocks(std::int64_t items, const Device& device) {
  return std::min(divide_up(items, long_threads / warp_lanes), usable(device));
}

/// A backward's main launch, and how its blocks share rows.
struct BackwardChoice {
  Launch launch;
  std::int64_t writers = 0;
  std::int64_t chunks = 0;
  std::int64_t most_rows = 0;
};

/// Blocks (clusters) for each parameter group, `rows_at_once` rows each, when `fit` of them run at
/// once; then their number in all.
struct Writers {
  std::int64_t per_group;
  std::int64_t all;
  std::int64_t most_rows;  ///< that a thread takes of a group

  Writers(const BackwardProblem& p, std::int64_t group_rows, std::int64_t rows_at_once,
          std::int64_t fit) {
    per_group =
        std::clamp<std::int64_t>(fit / p.param_groups, 1, divide_up(group_rows, rows_at_once));
    if (p.param_groups == 1) {
      per_group = even_blocks(per_group, rows_at_once, period(p));
    }
    all = per_group * std::clamp<std::int64_t>(fit / per_group, 1, p.param_groups);
    most_rows = divide_up(group_rows, per_group * rows_at_once);
  }
};

/// The narrow backward kernel. Where parameter groups have few rows, blocks are smaller and more.
inline BackwardChoice backward_narrow(const BackwardProblem& p, const Device& device,
                                      Launch launch) {
  const Geometry g = backward_geometry(p);
  const std::int64_t group_rows = RowMap::of(p).rows_of(0);  // the most
  int threads = most_backward_threads(p);
  const auto shared = [&] {
    return backward_shared(p, threads, threads / warp_lanes, false, false);
  };
  const int most = threads;
  while (!fits(shared(), device)) threads /= 2;
  while (p.param_groups > 1 && threads % 64 == 0 && threads / g.lanes / 2 >= group_rows)
    threads /= 2;
  const int rows_at_once = threads / g.lanes;
  const Writers writers(p, group_rows, rows_at_once,
                        usable(device) * std::int64_t{p.param_groups > 1 ? most / threads : 1});
  launch.kernel = Kernel::narrow;
  launch.threads_per_block = threads;
  launch.blocks = writers.all;
  set_ring(launch, shared(),
           backward_ring(p, launch, threads / warp_lanes, false, writers.most_rows, device));
  return {launch, writers.per_group, divide_up(writers.most_rows, rows_per_partial),
          writers.most_rows};
}

/// Whether rows have to be summed for dgamma or dbeta. Without dy these are zeros.
inline bool wants_sums(const BackwardProblem& p) {
  return p.has_dy && (p.want_dgamma || p.want_dbeta);
}

inline BackwardChoice backward(const BackwardProblem& p, const Device& device) {
  Launch launch;
  if (p.rows == 0 || p.cols == 0 || (!p.want_dx && !p.want_dresidual && !wants_sums(p))) return {};
  const Geometry g = backward_geometry(p);
  const std::int64_t many = usable(device), group_rows = RowMap::of(p).rows_of(0);
  if (!p.has_dy) {
    launch.kernel = Kernel::copy;
    launch.lanes_per_row = launch.threads_per_block = copy_threads;
    launch.blocks = std::min(divide_up(p.rows * p.cols, copy_threads), 8 * many);
    return {launch, 1, 1};
  }
  launch.vectors_per_thread = g.vectors;
  launch.lanes_per_row = g.lanes;
  launch.blocks_per_row = 1;
  if (g.segments == 1) return backward_narrow(p, device, launch);
  const int cluster = backward_blocks_per_row(p, g.segments, device);
  const int row_threads = cluster == 1 ? static_cast<int>(g.segments) * warp_lanes : 0;
  // Whether rows are aligned is not known before run(): the worse case must fit.
  const auto shared_of = [&](int groups) {
    return backward_shared(p, groups * row_threads, groups, false, false);
  };
  if (cluster == 1 && fits(shared_of(1), device)) {
    int groups =
        static_cast<int>(std::min<std::int64_t>(row_groups(p, row_threads, device), group_rows));
    while (!fits(shared_of(groups), device)) --groups;
    launch.kernel = Kernel::wide;
    launch.threads_per_block = groups * row_threads;
    launch.lanes_per_row = row_threads;
    const Writers writers(p, group_rows, groups,
                          many * resident_backward_blocks(p, launch.threads_per_block, device));
    launch.blocks = writers.all;
    set_ring(launch, shared_of(groups),
             backward_ring(p, launch, groups, false, writers.most_rows, device));
    return {launch, writers.per_group, divide_up(writers.most_rows, rows_per_partial),
            writers.most_rows};
  }
  if (cluster > 1) {
    launch.kernel = Kernel::cluster;
    launch.threads_per_block = static_cast<int>(divide_up(g.segments, cluster)) * warp_lanes;
    launch.blocks_per_row = cluster;
    launch.lanes_per_row = cluster * launch.threads_per_block;
    // With few rows each, a second block would cost more in partial sums than it saves.
    const bool whole = p.source == Source::x && is_plain(p) && whole_segments(p.cols, g, cluster) &&
                       p.rows >= 4 * fitting_clusters(cluster, true, device);
    const Writers writers(p, group_rows, 1, fitting_clusters(cluster, whole, device));
    launch.blocks = writers.all * cluster;
    set_ring(launch, backward_shared(p, launch.threads_per_block, 1, true, false),
             backward_ring(p, launch, 1, false, writers.most_rows, device));
    return {launch, writers.per_group, divide_up(writers.most_rows, rows_per_partial),
            writers.most_rows};
  }
  launch.kernel = Kernel::strips;
  launch.threads_per_block = strip_threads;
  launch.lanes_per_row = strip_threads;
  const std::int64_t chunks = divide_up(group_rows, rows_per_partial);
  // Groups that have rows: of all of them there may be more than can be counted.
  const std::int64_t groups = std::min(p.param_groups, divide_up(p.rows, p.rows_per_group));
  launch.blocks = std::min(groups * chunks * divide_up(g.segments, strip_warps),
                           many * resident_blocks(strip_threads));
  if (p.source == Source::y) {
    launch.shared_bytes = std::size_t{strip_threads} * tile_bytes(g.vectors, row_dtype(p));
  }
  return {launch, 1, chunks};
}

/// The launch that sums `partials` partials a column. A warp for every 16 of them: with fewer each,
/// adding up the warps would cost more than it saves.
inline Launch columns(const BackwardProblem& p, std::int64_t partials, const Device& device) {
  Launch launch;
  const auto warps = static_cast<int>(
      std::clamp<std::int64_t>(divide_up(partials, partials_per_warp), 1, column_warps));
  const std::int64_t fit = 4 * usable(device) * (column_warps / warps);
  launch.kernel = Kernel::columns;
  launch.dependent = device.compute_capability >= 90;
  launch.threads_per_block = warps * warp_lanes;
  launch.blocks_per_row = 1;
  launch.blocks = std::min(divide_up(p.cols, warp_lanes) * p.param_groups, fit);
  return launch;
}

/// The second launch of strips, `column_blocks` blocks of which sum columns.
inline Launch strip_dx(const BackwardProblem& p, Launch launch, std::int64_t column_blocks,
                       const Device& device) {
  const std::int64_t segments = backward_geometry(p).segments;
  launch.blocks =
      column_blocks + std::min(p.rows * divide_up(segments, strip_segments), 2 * usable(device));
  return launch;
}

}  // namespace fusednorm::cuda::policy
