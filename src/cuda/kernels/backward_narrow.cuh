// SPDX-License-Identifier: Apache-2.0
// Backward, rows of one warp or less. Blocks stay for many rows of a parameter group and keep gamma
// and both column sums in registers; each leaves rows of partial column sums for columns.cuh.
#pragma once

#include "device/backward_ring.cuh"
#include "device/column_partials.cuh"
#include "plan/sizes.h"

namespace fusednorm::cuda {

/// How many rows of a group of `count` a thread takes that begins with the `index`-th.
__device__ __forceinline__ int rows_of_thread(std::int64_t index, std::int64_t count,
                                              const BackwardArguments& a) {
  return index < count ? static_cast<int>(a.per_step.quotient(count - 1 - index)) + 1 : 0;
}

/// The rows of a warp hold the same columns in lanes that lie `lanes` apart: all of them get the
/// sum.
template <typename Tile, typename Lanes>
__device__ __forceinline__ void sum_over_rows_of_warp(typename Tile::Values& dgamma,
                                                      typename Tile::Values& dbeta,
                                                      const Lanes& lanes) {
#pragma unroll 1
  for (int apart = lanes.count; apart < warp_lanes; apart *= 2) {
#pragma unroll
    for (int p = 0; p < Tile::pairs; ++p) {
      dgamma[p].x += __shfl_xor_sync(every_lane, dgamma[p].x, apart);
      dgamma[p].y += __shfl_xor_sync(every_lane, dgamma[p].y, apart);
      dbeta[p].x += __shfl_xor_sync(every_lane, dbeta[p].x, apart);
      dbeta[p].y += __shfl_xor_sync(every_lane, dbeta[p].y, apart);
    }
  }
}

/// `lanes` lanes a row; 0: as many as a.lanes_log2 says, up to 16. One block a multiprocessor: as
/// few partial sums as there can be.
template <typename S, int lanes_, int vectors, bool from_y, bool roomy>
__global__ void __launch_bounds__(backward_threads(Tile<S, 32, vectors>::registers), 1)
    backward_narrow(const __grid_constant__ BackwardArguments a) {
  using T = Tile<S, lanes_ == 0 ? warp_lanes / 2 : lanes_, vectors,
                 lanes_ == warp_lanes && !roomy ? vectors - 1 : 0, lanes_ == 0>;
  using C = typename T::C;
  if (a.partials != nullptr) let_next_launch_start();
  extern __shared__ uint4 dynamic_shared[];
  const BackwardShared<T, from_y, backward_keeps_gamma(T::registers)> shared(
      behind_ring<T, from_y>(dynamic_shared, a.ring));
  const RowLanes<lanes_> lanes(a.lanes_log2);
  const int lane = lanes.lane(), in_warp = lanes.row_in_warp(),
            rows_per_warp = lanes.rows_per_warp();
  const int first = first_column<T>(lane, a.access);
  const Extent every =
      Extent::of<T>(a.cols, lanes.count * T::elements, lanes.count, lane, a.access);
  const bool whole = !from_y && a.whole != 0;
  const C reciprocal_cols = a.reciprocal_cols.as<C>();
  const unsigned writer = blockIdx.x % static_cast<unsigned>(a.writers);
  // Each warp takes rows_per_warp neighbouring rows; rows that are left over at the end go to the
  // first warps of all blocks.
  const unsigned block_index = writer * rows_per_warp;
  const unsigned warp_index =
      (threadIdx.x / warp_lanes * static_cast<unsigned>(a.writers) + writer) * rows_per_warp;
  const unsigned index = warp_index + in_warp;
  BackwardRing<T, from_y, false> ring(a, dynamic_shared);
  BackwardRow<T, from_y> here;
  for (std::int64_t group = blockIdx.x / static_cast<unsigned>(a.writers); group < a.map.groups;
       group += gridDim.x / static_cast<unsigned>(a.writers)) {
    const std::int64_t count = a.map.rows_of(group);
    // Rows that the lane has, that any lane of the warp may have, and that all of its lanes have.
    const int own_rows = rows_of_thread(index, count, a);
    const int most_rows = lanes_ == warp_lanes ? own_rows : rows_of_thread(block_index, count, a);
    const int least_rows =
        lanes_ == warp_lanes ? own_rows : rows_of_thread(warp_index + rows_per_warp - 1, count, a);
    const auto row_of = [&](int i) { return a.map.row_of(group, index + i * a.index_step); };
    ring.begin(a, own_rows, row_of, first, every);
    typename T::Values gamma, dgamma, dbeta;
    if constexpr (!shared.once_a_chunk) shared.load(a, gamma, group * a.cols + first, every);
    fill(dgamma, both(C(0)));
    fill(dbeta, both(C(0)));
    const auto work = [&](auto full, Extent extent, bool exists) {
      ring.template take<full.value>(here, a, own_rows, row_of, first, extent, exists, every);
      norms::GradientSums<C> total =
          shared.template sum_row<full.value>(here, extent, gamma, dgamma, dbeta);
      if (wants_rows(a)) {
        lanes.sum_both(total.g, total.g_xhat);
        ring.template finish<full.value>(here, a, row_of, first, extent, total, reciprocal_cols);
      }
      ring.template move_on<full.value>(a, own_rows, row_of, first, every);
    };
    // A partial's rows begin with `begin`, which is the only count of them that takes a register.
    for (int begin = 0; begin < a.chunks * rows_per_partial;
         begin = kept(begin + rows_per_partial)) {
      if constexpr (shared.once_a_chunk) shared.load(a, gamma, group * a.cols + first, every);
      const int end = min(most_rows, begin + rows_per_partial);
      const int whole_end = lanes_ == warp_lanes ? end : min(end, least_rows);
      if constexpr (!from_y) {
        while (whole && ring.taken < whole_end) work(std::true_type(), every, true);
      }
      while (ring.taken < end) {
        const bool exists = lanes_ == warp_lanes || ring.taken < own_rows;
        work(std::false_type(), exists ? every : every.none(), exists);
      }
      if (!a.partials) continue;
      sum_over_rows_of_warp<T>(dgamma, dbeta, lanes);
      shared.give_way();
      // Then by warps; lanes of further rows hold the same sums and do no harm.
      const auto partial = [&] {
        return found_anew(group) * a.partial_count + begin / rows_per_partial * a.writers +
               static_cast<unsigned>(found_anew(blockIdx.x)) % static_cast<unsigned>(a.writers);
      };
      leave_partials<T>(a, shared.sums, dgamma, dbeta, partial, threadIdx.x / warp_lanes,
                        blockDim.x / warp_lanes, threadIdx.x % warp_lanes, warp_lanes, first,
                        in_warp == 0 ? every : every.none());
    }
  }
  ring.drain(a);
}

}  // namespace fusednorm::cuda
