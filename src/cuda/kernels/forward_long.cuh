// SPDX-License-Identifier: Apache-2.0
// Forward, rows too long for registers: they are read a second time, from L2 where they fit there.
#pragma once

#include "device/parameters.cuh"
#include "device/row_moments.cuh"
#include "device/row_output.cuh"
#include "plan/sizes.h"

namespace fusednorm::cuda {

/// One segment of a row that is not kept: its moments, or its normalised values.
template <typename Tile>
struct Segment {
  using C = typename Tile::C;
  const ForwardArguments& a;
  int lane;

  __device__ __forceinline__ std::int64_t first(std::int64_t segment) const {
    return segment * Tile::cols + first_column<Tile>(lane, a.access);
  }
  __device__ __forceinline__ Extent extent(std::int64_t segment) const {
    return Extent::of<Tile>(a.cols - segment * Tile::cols, lane, a.access);
  }
  __device__ __forceinline__ SegmentCols<std::int64_t> cols_of() const {
    return {0, Tile::cols, a.cols};
  }
  __device__ __forceinline__ SegmentMoments<C> moments_of(typename Tile::Values& values,
                                                          std::int64_t segment, Extent here) const {
    const int cols = cols_of()(segment);
    const RowLanes<warp_lanes> lanes(0);
    return tile_moments<Tile, false>(values, here, lanes, a.operation, C(1) / static_cast<C>(cols),
                                     Pivot<Tile>(here, lanes));
  }

  __device__ __forceinline__ SegmentMoments<C> load(std::int64_t row, std::int64_t segment) const {
    typename Tile::Values values;
    const Extent here = extent(segment);
    const auto where = [&](auto) { return row_address(a.x, a.map, row, first(segment)); };
    load_row<Tile, false>(values, FromMemory<Tile, false>{here}, a, where, row, first(segment),
                          here);
    return moments_of(values, segment, here);
  }

  __device__ __forceinline__ void finish(std::int64_t row, std::int64_t segment,
                                         const RowStatistics<C>& statistics) const {
    typename Tile::Values values, gamma, beta;
    const Extent here = extent(segment);
    const std::int64_t column = first(segment);
    reload_row<Tile>(values, a, row, column, here);
    const SegmentMoments<C> own = moments_of(values, segment, here);
    load_parameters<Tile, true>(gamma, a.parameters, a.map.group_of(row) * a.cols + column, here,
                                [&](const auto& loaded) {
#pragma unroll
                                  for (int p = 0; p < Tile::pairs; ++p) beta[p] = loaded[p];
                                });
    store_y<Tile, false>(values, a, row_address(a.y, a.map, row, column), here, gamma, beta,
                         statistics.rstd,
                         statistics.shift(own.centre, norms::has_mean(a.operation)));
  }
};

/// A block a row, its segments' moments in shared memory, the row read again from L2.
template <typename S, int vectors>
__global__ void __launch_bounds__(long_threads, 1)
    forward_reread(const __grid_constant__ ForwardArguments a) {
  using T = Tile<S, warp_lanes, vectors>;
  using C = typename T::C;
  extern __shared__ uint4 dynamic_shared[];
  SegmentMoments<C>* slots = reinterpret_cast<SegmentMoments<C>*>(dynamic_shared);
  const int lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes,
            warps = blockDim.x / warp_lanes;
  const Segment<T> work{a, lane};
  for (std::int64_t row = blockIdx.x; row < a.map.rows; row += gridDim.x) {
    for (std::int64_t s = warp; s < a.segments; s += warps) {
      const SegmentMoments<C> own = work.load(row, s);
      if (lane == 0) slots[s] = own;
    }
    __syncthreads();
    const RowStatistics<C> statistics =
        merge_moments(slots, static_cast<int>(a.segments), work.cols_of(),
                      a.reciprocal_cols.as<C>(), a.eps.as<C>(), lane);
    if (threadIdx.x == 0) store_statistics(a, row, statistics.mean, statistics.rstd);
    for (std::int64_t s = warp; s < a.segments; s += warps) work.finish(row, s, statistics);
    __syncthreads();  // before the next row's moments take the slots
  }
}

/// A split row, first launch: moments of every segment, a warp each. A warp's work item is (row,
/// segment).
template <typename S, int vectors>
__global__ void __launch_bounds__(long_threads, 1)
    forward_split_moments(const __grid_constant__ ForwardArguments a) {
  using T = Tile<S, warp_lanes, vectors>;
  using C = typename T::C;
  const int lane = threadIdx.x % warp_lanes;
  const std::int64_t items = a.map.rows * a.segments;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * (blockDim.x / warp_lanes);
  std::int64_t item =
      static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / warp_lanes) + threadIdx.x / warp_lanes;
  const Segment<T> work{a, lane};
  for (; item < items; item += step) {
    const SegmentMoments<C> own = work.load(item / a.segments, item % a.segments);
    if (lane == 0) static_cast<SegmentMoments<C>*>(a.moments)[item] = own;
  }
}

/// A split row, second launch: blocks_per_row blocks share a row; one warp of each merges, all
/// normalise.
template <typename S, int vectors>
__global__ void __launch_bounds__(long_threads, 1)
    forward_split_finish(const __grid_constant__ ForwardArguments a) {
  using T = Tile<S, warp_lanes, vectors>;
  using C = typename T::C;
  __shared__ RowStatistics<C> merged;
  const int lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes,
            warps = blockDim.x / warp_lanes;
  const std::int64_t part = blockIdx.x % a.blocks_per_row;
  const Segment<T> work{a, lane};
  for (std::int64_t row = blockIdx.x / a.blocks_per_row; row < a.map.rows;
       row += gridDim.x / a.blocks_per_row) {
    if (warp == 0) {
      const auto statistics =
          merge_moments(static_cast<const SegmentMoments<C>*>(a.moments) + row * a.segments,
                        static_cast<int>(a.segments), work.cols_of(), a.reciprocal_cols.as<C>(),
                        a.eps.as<C>(), lane);
      if (lane == 0) {
        merged = statistics;
        if (part == 0) store_statistics(a, row, statistics.mean, statistics.rstd);
      }
    }
    __syncthreads();
    for (std::int64_t s = part * warps + warp; s < a.segments; s += a.blocks_per_row * warps) {
      work.finish(row, s, merged);
    }
    __syncthreads();  // before the next row's statistics replace these
  }
}

}  // namespace fusednorm::cuda
