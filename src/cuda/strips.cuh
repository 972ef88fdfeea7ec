// LayerNorm backward for rows that no cluster holds: the columns are cut into strips, and x and dy
// are read twice, the second time for dx, which needs sums over the whole row. Two launches.
#pragma once

#include "backward.cuh"

namespace fusednorm::cuda {

/// First launch: for rows_per_partial rows and one strip, the rows' sums over each segment and the
/// column sums. Work items are (chunk of rows, strip).
template <typename TX, typename TY, int vectors, bool from_y>
__global__ void __launch_bounds__(strip_threads, 1) backward_strip_sums(BackwardArguments a) {
  using T = Tile<TX, warp_lanes, vectors>;
  using C = typename T::C;
  extern __shared__ uint4 dynamic_shared[];
  const BackwardShared<T, from_y, false> shared(dynamic_shared);
  const int lane = threadIdx.x % warp_lanes;
  const std::int64_t strips = divide_up(a.segments, strip_warps);
  const std::int64_t items = divide_up(a.rows, rows_per_partial) * strips;
  for (std::int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const std::int64_t chunk = item / strips;
    const std::int64_t segment = item % strips * strip_warps + threadIdx.x / warp_lanes;
    if (segment >= a.segments) continue;
    const std::int64_t first = segment * T::cols + lane * T::vector;
    const Extent extent = Extent::of<T>(a.cols - segment * T::cols, lane, a.vectorised != 0);
    typename T::Values gamma, dgamma, dbeta;
    shared.template load_parameters_of<TX>(a, gamma, first, extent);
    fill(dgamma, both(C(0)));
    fill(dbeta, both(C(0)));
    const std::int64_t begin = chunk * rows_per_partial;
    const std::int64_t end = begin + rows_per_partial < a.rows ? begin + rows_per_partial : a.rows;
    for (std::int64_t row = begin; row < end; ++row) {
      BackwardRow<TX, TY, T, from_y> here;
      RowSums<C> total = here.template load<false, true>({a, row, first}, extent, true, gamma,
                                                         shared.beta, dgamma, dbeta);
      lanes_sum_both<warp_lanes>(total.g, total.g_xhat);
      if (lane == 0) static_cast<RowSums<C>*>(a.row_sums)[row * a.segments + segment] = total;
    }
    if (a.partials) {
      leave_partials<T>(a, nullptr, dgamma, dbeta, chunk, 0, 1, 0, 1, first, extent);
    }
  }
}

/// Second launch: the first `column_blocks` blocks add up dgamma and dbeta, the others yield dx.
/// Work items of those are (row, strip_segments segments).
template <typename TX, typename TY, typename TP, int vectors, bool from_y>
__global__ void __launch_bounds__(strip_threads, 1)
    backward_strip_dx(BackwardArguments a, ColumnArguments columns, int column_blocks) {
  using T = Tile<TX, warp_lanes, vectors>;
  using C = typename T::C;
  static_assert(strip_threads == column_threads);
  if (blockIdx.x < column_blocks) return sum_columns<TP, C>(columns, blockIdx.x, column_blocks);
  extern __shared__ uint4 dynamic_shared[];
  __shared__ RowSums<C> merged;
  const BackwardShared<T, from_y, false> shared(dynamic_shared);
  const int lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes;
  const std::int64_t parts = divide_up(a.segments, strip_segments);
  const C factor = static_cast<C>(-a.reciprocal_cols);
  for (std::int64_t item = blockIdx.x - column_blocks; item < a.rows * parts;
       item += gridDim.x - column_blocks) {
    const std::int64_t row = item / parts;
    if (warp == 0) {
      const RowSums<C> total =
          sum_rows(static_cast<const RowSums<C>*>(a.row_sums) + row * a.segments, a.segments, lane);
      if (lane == 0) merged = total;
    }
    __syncthreads();
    const std::int64_t begin = item % parts * strip_segments;
    for (int s = warp; s < strip_segments && begin + s < a.segments; s += strip_warps) {
      const std::int64_t first = (begin + s) * T::cols + lane * T::vector;
      const Extent extent = Extent::of<T>(a.cols - (begin + s) * T::cols, lane, a.vectorised != 0);
      typename T::Values gamma, unused;
      shared.template load_parameters_of<TX>(a, gamma, first, extent);
      BackwardRow<TX, TY, T, from_y> here;
      const BackwardPlace<TX, TY, from_y> place(a, row, first);
      here.template load<false, false>(place, extent, true, gamma, shared.beta, unused, unused);
      const C scale = here.rstd * factor;
      here.template store_dx<false>(place, extent, {scale * merged.g, scale * merged.g_xhat});
    }
    __syncthreads();  // before the next row's sums replace these
  }
}

}  // namespace fusednorm::cuda
