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
  extern __shared__ __align__(32) unsigned char dynamic_shared[];
  const Kept<T> beta{reinterpret_cast<uint4*>(dynamic_shared) + threadIdx.x};
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
    if constexpr (from_y) {
      load_parameters<T, TX>(gamma, a.beta, a.beta_kind, first, extent.count, C(0));
      beta.store(gamma);
    }
    load_parameters<T, TX>(gamma, a.gamma, a.gamma_kind, first, extent.count, C(1));
    fill(dgamma, both(C(0)));
    fill(dbeta, both(C(0)));
    const std::int64_t begin = chunk * rows_per_partial;
    const std::int64_t end = begin + rows_per_partial < a.rows ? begin + rows_per_partial : a.rows;
    for (std::int64_t row = begin; row < end; ++row) {
      BackwardRow<TX, TY, T, from_y> here;
      RowSums<C> total =
          here.template load<false, true>(a, row, first, extent, true, gamma, beta, dgamma, dbeta);
      lanes_sum<warp_lanes>(total.g, total.g_xhat);
      if (lane == 0) static_cast<RowSums<C>*>(a.row_sums)[row * a.segments + segment] = total;
    }
    if (a.partials) {
      leave_partials<T>(a, static_cast<C*>(nullptr), 0, dgamma, dbeta, chunk, 0, 1, 0, first,
                        extent, true);
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
  extern __shared__ __align__(32) unsigned char dynamic_shared[];
  __shared__ RowSums<C> merged;
  const Kept<T> beta{reinterpret_cast<uint4*>(dynamic_shared) + threadIdx.x};
  const int lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes;
  const std::int64_t parts = divide_up(a.segments, strip_segments);
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
      if constexpr (from_y) {
        load_parameters<T, TX>(gamma, a.beta, a.beta_kind, first, extent.count, C(0));
        beta.store(gamma);
      }
      load_parameters<T, TX>(gamma, a.gamma, a.gamma_kind, first, extent.count, C(1));
      BackwardRow<TX, TY, T, from_y> here;
      here.template load<false, false>(a, row, first, extent, true, gamma, beta, unused, unused);
      here.template store_dx<false>(a, row, first, extent, merged);
    }
    __syncthreads();  // before the next row's sums replace these
  }
}

}  // namespace fusednorm::cuda
