// SPDX-License-Identifier: Apache-2.0
// Backward, rows that no cluster holds: the columns are cut into strips, and x and dy are read
// twice, the second time for dx, which needs sums over the whole row. Two launches.
#pragma once

#include "device/column_partials.cuh"
#include "device/row_gradient.cuh"
#include "kernels/columns.cuh"

namespace fusednorm::cuda {

template <typename Tile, bool from_y>
__device__ __forceinline__ void load_row_of_strip(BackwardRow<Tile, from_y>& here,
                                                  const BackwardArguments& a, std::int64_t row,
                                                  std::int64_t first, Extent extent) {
  here.template load<false>(a, row_address(a.dy, a.map, row, first),
                            row_address(a.source, a.map, row, first),
                            row * static_cast<int>(sizeof(typename Tile::C)), extent, true);
}

/// First launch: for rows_per_partial rows of a parameter group and one strip, the rows' sums over
/// each segment and the column sums. Work items are (group, chunk of rows, strip).
template <typename S, int vectors, bool from_y>
__global__ void __launch_bounds__(strip_threads, 1)
    backward_strip_sums(const __grid_constant__ BackwardArguments a) {
  using T = Tile<S, warp_lanes, vectors>;
  using C = typename T::C;
  extern __shared__ uint4 dynamic_shared[];
  const BackwardShared<T, from_y, false> shared(dynamic_shared);
  const int lane = threadIdx.x % warp_lanes;
  const std::int64_t strips = divide_up(a.segments, strip_warps);
  const std::int64_t items = a.map.groups * a.chunks * strips;
  for (std::int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const std::int64_t partial = item / strips, group = partial / a.chunks;
    const std::int64_t segment = item % strips * strip_warps + threadIdx.x / warp_lanes;
    if (segment >= a.segments) continue;
    const std::int64_t first = segment * T::cols + first_column<T>(lane, a.access);
    const Extent extent = Extent::of<T>(a.cols - segment * T::cols, lane, a.access);
    typename T::Values gamma, dgamma, dbeta;
    shared.load(a, gamma, group * a.cols + first, extent);
    fill(dgamma, both(C(0)));
    fill(dbeta, both(C(0)));
    const std::int64_t begin = (partial - group * a.chunks) * rows_per_partial;
    const std::int64_t count = a.map.rows_of(group);
    const std::int64_t end = begin + rows_per_partial < count ? begin + rows_per_partial : count;
    for (std::int64_t index = begin; index < end; ++index) {
      const std::int64_t row = a.map.row_of(group, index);
      BackwardRow<T, from_y> here;
      load_row_of_strip<T, from_y>(here, a, row, first, extent);
      norms::GradientSums<C> total =
          shared.template sum_row<false>(here, extent, gamma, dgamma, dbeta);
      RowLanes<warp_lanes>(0).sum_both(total.g, total.g_xhat);
      if (lane == 0) {
        static_cast<norms::GradientSums<C>*>(a.row_sums)[row * a.segments + segment] = total;
      }
    }
    if (a.partials) {
      leave_partials<T>(
          a, nullptr, dgamma, dbeta, [&] { return partial; }, 0, 1, 0, 1, first, extent);
    }
  }
}

/// Second launch: the first `column_blocks` blocks add up dgamma and dbeta, the others yield dx.
/// Work items of those are (row, strip_segments segments).
template <typename S, int vectors, bool from_y>
__global__ void __launch_bounds__(strip_threads, 1)
    backward_strip_dx(BackwardArguments a, ColumnArguments columns, int column_blocks) {
  using T = Tile<S, warp_lanes, vectors>;
  using C = typename T::C;
  static_assert(strip_threads == column_threads);
  if (blockIdx.x < column_blocks) return sum_columns<C>(columns, blockIdx.x, column_blocks);
  extern __shared__ uint4 dynamic_shared[];
  __shared__ norms::GradientSums<C> merged;
  const BackwardShared<T, from_y, false> shared(dynamic_shared);
  const int lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes;
  const std::int64_t parts = divide_up(a.segments, strip_segments);
  for (std::int64_t item = blockIdx.x - column_blocks; item < a.map.rows * parts;
       item += gridDim.x - column_blocks) {
    const std::int64_t row = item / parts;
    if (warp == 0) {
      const auto total =
          sum_segments(static_cast<const norms::GradientSums<C>*>(a.row_sums) + row * a.segments,
                       a.segments, lane);
      if (lane == 0) merged = total;
    }
    __syncthreads();
    const std::int64_t begin = item % parts * strip_segments;
    for (int s = warp; s < strip_segments && begin + s < a.segments; s += strip_warps) {
      const std::int64_t first = (begin + s) * T::cols + first_column<T>(lane, a.access);
      const Extent extent = Extent::of<T>(a.cols - (begin + s) * T::cols, lane, a.access);
      typename T::Values gamma, unused;
      shared.load(a, gamma, a.map.group_of(row) * a.cols + first, extent);
      BackwardRow<T, from_y> here;
      load_row_of_strip<T, from_y>(here, a, row, first, extent);
      shared.template sum_row<false, false>(here, extent, gamma, unused, unused);
      here.template store<false>(
          a, FromMemory<T, false>{extent}, row_address(a.dx, a.map, row, first), extent, merged,
          a.reciprocal_cols.as<C>(), [&] { return row; }, first);
    }
    __syncthreads();  // before the next row's sums replace these
  }
}

}  // namespace fusednorm::cuda
