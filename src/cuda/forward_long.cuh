// LayerNorm forward kernels for rows too long for registers, which are read a second time, from L2
// where they fit there.
#pragma once

#include "forward.cuh"

namespace fusednorm::cuda {

/// One segment of a row that is not kept: its moments, or its normalised values.
template <typename TX, typename TY, typename Tile>
struct Segment {
  using C = typename Tile::C;
  const ForwardArguments& a;
  int lane;

  __device__ __forceinline__ std::int64_t first(std::int64_t segment) const {
    return segment * Tile::cols + lane * Tile::vector;
  }
  __device__ __forceinline__ Extent extent(std::int64_t segment) const {
    return Extent::of<Tile>(a.cols - segment * Tile::cols, lane, a.vectorised != 0);
  }
  __device__ __forceinline__ SegmentCols<std::int64_t> cols_of() const {
    return {0, Tile::cols, a.cols};
  }

  __device__ __forceinline__ Moments<C> load(typename Tile::Values& values, std::int64_t row,
                                             std::int64_t segment) const {
    const Extent here = extent(segment);
    const int cols = here.count + lane * Tile::vector;
    const TX* x = static_cast<const TX*>(a.x) + (row * a.x_stride + first(segment));
    load_tile<Tile, false>(values, x, here);
    return tile_moments<Tile, false>(values, here, C(1) / static_cast<C>(cols),
                                     lane_share<Tile>(cols));
  }

  __device__ __forceinline__ void finish(std::int64_t row, std::int64_t segment,
                                         const RowStatistics<C>& statistics) const {
    typename Tile::Values values, gamma, beta;
    const Moments<C> own = load(values, row, segment);
    const Extent here = extent(segment);
    Extent parameters = here;
    parameters.vectorised = a.params_vectorised != 0;
    load_parameters<Tile, TX>(gamma, a.gamma, a.gamma_kind, first(segment), parameters, C(1));
    load_parameters<Tile, TX>(beta, a.beta, a.beta_kind, first(segment), parameters, C(0));
    normalize<Tile, false>(values, here, gamma, beta, statistics.rstd,
                           statistics.shift(own.centre));
    store_tile<Tile, false>(static_cast<TY*>(a.y) + (row * a.y_stride + first(segment)), values,
                            here);
  }
};

/// A block a row, its segments' moments in shared memory, the row read again from L2.
template <typename TX, typename TY, int vectors>
__global__ void __launch_bounds__(wide_threads, 1) forward_reread(ForwardArguments a) {
  using T = Tile<TX, warp_lanes, vectors>;
  using C = typename T::C;
  extern __shared__ uint4 dynamic_shared[];
  Moments<C>* slots = reinterpret_cast<Moments<C>*>(dynamic_shared);
  const int lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes,
            warps = blockDim.x / warp_lanes;
  const Segment<TX, TY, T> work{a, lane};
  for (std::int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    for (std::int64_t s = warp; s < a.segments; s += warps) {
      typename T::Values values;
      const Moments<C> own = work.load(values, row, s);
      if (lane == 0) slots[s] = own.settled();
    }
    __syncthreads();
    const RowStatistics<C> statistics =
        merge_moments(slots, static_cast<int>(a.segments), work.cols_of(),
                      static_cast<C>(a.reciprocal_cols), static_cast<C>(a.eps), lane);
    if (threadIdx.x == 0) store_statistics(a, row, statistics.mean, statistics.rstd);
    for (std::int64_t s = warp; s < a.segments; s += warps) work.finish(row, s, statistics);
    __syncthreads();  // before the next row's moments take the slots
  }
}

/// A split row, first launch: moments of every segment, a warp each. A warp's work item is (row,
/// segment).
template <typename TX, typename TY, int vectors>
__global__ void __launch_bounds__(wide_threads, 1) forward_split_moments(ForwardArguments a) {
  using T = Tile<TX, warp_lanes, vectors>;
  using C = typename T::C;
  const int lane = threadIdx.x % warp_lanes;
  const std::int64_t items = a.rows * a.segments;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * (blockDim.x / warp_lanes);
  std::int64_t item =
      static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / warp_lanes) + threadIdx.x / warp_lanes;
  const Segment<TX, TY, T> work{a, lane};
  for (; item < items; item += step) {
    typename T::Values values;
    const Moments<C> own = work.load(values, item / a.segments, item % a.segments);
    if (lane == 0) static_cast<Moments<C>*>(a.moments)[item] = own.settled();
  }
}

/// A split row, second launch: blocks_per_row blocks share a row; one warp of each merges, all
/// normalise.
template <typename TX, typename TY, int vectors>
__global__ void __launch_bounds__(wide_threads, 1) forward_split_finish(ForwardArguments a) {
  using T = Tile<TX, warp_lanes, vectors>;
  using C = typename T::C;
  __shared__ RowStatistics<C> merged;
  const int lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes,
            warps = blockDim.x / warp_lanes;
  const std::int64_t part = blockIdx.x % a.blocks_per_row;
  const Segment<TX, TY, T> work{a, lane};
  for (std::int64_t row = blockIdx.x / a.blocks_per_row; row < a.rows;
       row += gridDim.x / a.blocks_per_row) {
    if (warp == 0) {
      const auto statistics =
          merge_moments(static_cast<const Moments<C>*>(a.moments) + row * a.segments,
                        static_cast<int>(a.segments), work.cols_of(),
                        static_cast<C>(a.reciprocal_cols), static_cast<C>(a.eps), lane);
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
