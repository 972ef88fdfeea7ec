// SPDX-License-Identifier: Apache-2.0
// Backward, rows of several warps: x and dy are read once. Blocks stay for many rows of a parameter
// group and keep gamma and both column sums in registers.
#pragma once

#include "device/block_exchange.cuh"
#include "kernels/backward_narrow.cuh"

namespace fusednorm::cuda {

/// Several warps, a group, a row; a segment a warp. A block has as many groups as it has room for.
/// clustered: a cluster of blocks a row instead, one group each.
template <typename S, int vectors, bool from_y, bool clustered, bool whole, bool roomy>
__global__ void __launch_bounds__(clustered ? cluster_threads
                                  : from_y  ? stretched_threads
                                            : backward_threads(Tile<S, 32, vectors>::registers),
                                  clustered&& whole ? 2 : 1)
    backward_wide(const __grid_constant__ BackwardArguments a) {
  if (clustered && !clusters_exist) return no_clusters_here();
  if (a.partials != nullptr) let_next_launch_start();
  using T = WideTile<S, vectors, roomy, whole>;
  using C = typename T::C;
  using Sums = SharedSums<C, clustered, !whole>;
  __shared__ typename Sums::Slots slots;
  static_assert(sizeof slots <= most_static_bytes);
  extern __shared__ uint4 dynamic_shared[];
  const int lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes;
  const int segments = static_cast<int>(a.segments);
  const int warps = clustered ? blockDim.x / warp_lanes : segments;
  const int row_group = clustered ? 0 : warp / warps;
  const int rank = clustered ? static_cast<int>(blockIdx.x % a.blocks_per_row) : 0;
  const int segment = rank * warps + warp - row_group * warps;
  const WidePlace<T, whole> own(a, segment, lane);
  // Rows that are not whole segments need more registers to find their way.
  const BackwardShared<T, from_y, !whole> shared(behind_ring<T, from_y>(dynamic_shared, a.ring));
  Sums::start(slots, a.blocks_per_row, blockDim.x / warp_lanes);
  Sums sums(slots, segments, segment, row_group, warps);
  const C reciprocal_cols = a.reciprocal_cols.as<C>();
  const unsigned writers = static_cast<unsigned>(a.writers);
  const unsigned cluster = clustered ? blockIdx.x / a.blocks_per_row : blockIdx.x;
  const unsigned clusters = clustered ? gridDim.x / a.blocks_per_row : gridDim.x;
  const unsigned writer = cluster % writers;
  // Rows that are left over at the end go to the first groups of all blocks.
  const unsigned index = row_group * writers + writer;
  BackwardRing<T, from_y, whole> ring(a, dynamic_shared);
  for (std::int64_t group = cluster / writers; group < a.map.groups; group += clusters / writers) {
    const int own_rows = ring.ringed ? rows_of_thread(index, a.map.rows_of(group), a) : 0;
    const auto row_of = [&](int i) { return a.map.row_of(group, index + i * a.index_step); };
    ring.begin(a, own_rows, row_of, own.first, own.extent);
    typename T::Values gamma, dgamma, dbeta;
    if constexpr (!shared.once_a_chunk)
      shared.load(a, gamma, group * a.cols + own.first, own.extent);
    fill(dgamma, both(C(0)));
    fill(dbeta, both(C(0)));
    for (int chunk = 0; chunk < a.chunks; ++chunk) {
      if constexpr (shared.once_a_chunk)
        shared.load(a, gamma, group * a.cols + own.first, own.extent);
      // Without a ring the number of rows is found anew rather than kept in a register.
      const int own_now =
          ring.ringed ? own_rows : rows_of_thread(index, a.map.rows_of(found_anew(group)), a);
      const int end = kept(min(own_now, ring.taken + rows_per_partial));
      BackwardRow<T, from_y> here;
      while (ring.taken < end) {
        ring.template take<whole>(here, a, ring.ringed ? own_rows : end, row_of, own.first,
                                  own.extent, true, own.extent);
        norms::GradientSums<C> total =
            shared.template sum_row<whole>(here, own.extent, gamma, dgamma, dbeta);
        if (wants_rows(a)) {
          sums.sum(total.g, total.g_xhat, a.blocks_per_row);
          ring.template finish<whole>(here, a, row_of, own.first, own.extent, total,
                                      reciprocal_cols);
        }
        ring.template move_on<whole>(a, own_rows, row_of, own.first, own.extent);
      }
      if (a.partials) {
        shared.give_way();
        const int thread = static_cast<int>(found_anew(threadIdx.x));
        const int row_threads = clustered ? blockDim.x : static_cast<int>(a.segments) * warp_lanes;
        const auto partial = [&] {
          return found_anew(group) * a.partial_count + chunk * a.writers + writer;
        };
        leave_partials<T>(a, shared.sums, dgamma, dbeta, partial, thread / row_threads,
                          blockDim.x / row_threads, thread % row_threads, row_threads, own.first,
                          own.extent);
      }
    }
  }
  // No block may leave while another still writes to its slots.
  if constexpr (clustered) cluster_barrier();
}

}  // namespace fusednorm::cuda
