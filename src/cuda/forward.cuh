// LayerNorm forward kernels: a row in the registers of part of a warp, a warp, a block or a
// cluster; and rows too long for that, read a second time.
#pragma once

#include "cluster.cuh"
#include "elements.cuh"
#include "kernel_sizes.h"
#include "reduce.cuh"

namespace fusednorm::cuda {

template <typename C>
constexpr int registers_of(int elements) {
  return elements * static_cast<int>(sizeof(C) / 4);
}

/// Mean and squared deviations of a tile, exact in two passes over registers. Leaves x - centre in
/// `values`; what rounding the centre left behind is `rest`.
template <typename Tile, bool full>
__device__ __forceinline__ Moments<typename Tile::C> tile_moments(
    typename Tile::Values& values, int count, typename Tile::C reciprocal_count) {
  using C = typename Tile::C;
  using P = Pair<C>;
  static_assert(Tile::pairs >= 2);
  P even = values[0], odd = values[1];
#pragma unroll
  for (int p = 2; p < Tile::pairs; p += 2) {
    even = add(even, values[p]);
    odd = add(odd, values[p + 1]);
  }
  const C centre = lanes_sum<Tile::lanes>(sum_of(add(even, odd))) * reciprocal_count;
  const P minus_centre = both(-centre);
  P rests = both(C(0)), squares = both(C(0));
#pragma unroll
  for (int p = 0; p < Tile::pairs; ++p) values[p] = add(values[p], minus_centre);
  if (!full) clear_missing<Tile>(values, count);
#pragma unroll
  for (int p = 0; p < Tile::pairs; ++p) {
    rests = p == 0 ? values[p] : add(rests, values[p]);
    squares = p == 0 ? mul(values[p], values[p]) : multiply_add(values[p], values[p], squares);
  }
  C rest = sum_of(rests), square = sum_of(squares);
  lanes_sum<Tile::lanes>(rest, square);
  const C mean_rest = rest * reciprocal_count;
  const C about_mean = square - rest * mean_rest;
  return {centre, mean_rest, about_mean < 0 ? C(0) : about_mean, C(0)};
}

template <typename Tile, typename Beta>
__device__ __forceinline__ void normalize(typename Tile::Values& values,
                                          const typename Tile::Values& gamma, const Beta& beta,
                                          typename Tile::C rstd, typename Tile::C shift) {
#pragma unroll
  for (int p = 0; p < Tile::pairs; ++p) {
    values[p] = multiply_add(multiply_add(values[p], both(rstd), both(shift)), gamma[p], beta[p]);
  }
}

template <typename C>
__device__ __forceinline__ void store_statistics(const ForwardArguments& a, std::int64_t row,
                                                 C mean, C rstd) {
  if (a.mean) static_cast<C*>(a.mean)[row] = mean;
  if (a.rstd) static_cast<C*>(a.rstd)[row] = rstd;
}

template <typename TX, typename TY, typename Tile, bool full>
__device__ __forceinline__ void forward_narrow_row(const ForwardArguments& a, std::int64_t row,
                                                   int lane, Extent extent,
                                                   const typename Tile::Values& gamma,
                                                   const typename Tile::Values& beta) {
  using C = typename Tile::C;
  const C reciprocal = static_cast<C>(a.reciprocal_cols);
  const int first = lane * Tile::vector;
  typename Tile::Values values;
  load_tile<Tile, full>(values, static_cast<const TX*>(a.x) + (row * a.x_stride + first), extent);
  const Moments<C> moments = tile_moments<Tile, full>(values, extent.count, reciprocal);
  const C rstd = reciprocal_root(moments.squares * reciprocal + static_cast<C>(a.eps));
  if (lane == 0 && (full || extent.count > 0)) {
    store_statistics(a, row, moments.centre + moments.settled().rest, rstd);
  }
  normalize<Tile>(values, gamma, beta, rstd, -moments.rest * rstd);
  store_tile<Tile, full>(static_cast<TY*>(a.y) + (row * a.y_stride + first), values, extent);
}

/// `lanes` lanes a row. Blocks stay for many rows: gamma and beta pass through shared memory once a
/// block and stay in registers.
template <typename TX, typename TY, int lanes, int vectors>
__global__ void __launch_bounds__(
    narrow_threads, narrow_blocks(registers_of<Compute<TX>>(Tile<TX, lanes, vectors>::elements)))
    forward_narrow(ForwardArguments a) {
  using T = Tile<TX, lanes, vectors>;
  using C = typename T::C;
  using P = Pair<C>;
  __shared__ alignas(16) C staged[2][T::cols];
  const int cols = static_cast<int>(a.cols);
  for (int column = threadIdx.x; column < T::cols; column += narrow_threads) {
    staged[0][column] = column < cols ? parameter<TX>(a.gamma, a.gamma_kind, column, C(1)) : C(1);
    staged[1][column] = column < cols ? parameter<TX>(a.beta, a.beta_kind, column, C(0)) : C(0);
  }
  __syncthreads();
  const int lane = threadIdx.x % lanes;
  typename T::Values gamma, beta;
#pragma unroll
  for (int p = 0; p < T::pairs; ++p) {
    gamma[p] = *reinterpret_cast<const P*>(&staged[0][T::column(p) + lane * T::vector]);
    beta[p] = *reinterpret_cast<const P*>(&staged[1][T::column(p) + lane * T::vector]);
  }
  constexpr int rows_per_warp = warp_lanes / lanes;
  constexpr int rows_per_block = narrow_threads / lanes;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * rows_per_block;
  std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * rows_per_block + threadIdx.x / lanes;
  // A warp's lanes stay together: they look at the warp's first and last row, not at their own.
  const int in_warp = threadIdx.x % warp_lanes / lanes;
  if (a.vectorised && cols == T::cols) {
    for (; row + (rows_per_warp - 1 - in_warp) < a.rows; row += step) {
      forward_narrow_row<TX, TY, T, true>(a, row, lane, {}, gamma, beta);
    }
  }
  for (; row - in_warp < a.rows; row += step) {
    const Extent extent = Extent::of<T>(row < a.rows ? cols : 0, lane, a.vectorised != 0);
    forward_narrow_row<TX, TY, T, false>(a, row, lane, extent, gamma, beta);
  }
}

/// Shares one warp's moments with every warp of the row and merges them. One barrier a row: the
/// slots of the next row are others.
template <typename C, bool clustered>
__device__ __forceinline__ RowStatistics<C> share_and_merge(const ForwardArguments& a,
                                                            Moments<C>* slots,
                                                            const Moments<C>& own, int segment,
                                                            int segment_cols, int lane) {
  if constexpr (clustered) {
    if (segment < a.segments && lane < a.blocks_per_row)
      cluster_write(slots + segment, lane, own.settled());
    cluster_barrier();
  } else {
    if (segment < a.segments && lane == 0) slots[segment] = own.settled();
    __syncthreads();
  }
  return merge_moments(slots, static_cast<int>(a.segments), segment_cols, a.cols,
                       static_cast<C>(a.reciprocal_cols), static_cast<C>(a.eps), lane);
}

/// A block, or a cluster of blocks, a row; a segment a warp. `whole`: aligned rows of whole
/// segments. Other rows need more registers to find their way, so there beta waits in (dynamic)
/// shared memory.
template <typename TX, typename TY, int vectors, bool clustered, bool whole>
__global__ void __launch_bounds__(clustered ? cluster_threads : wide_threads, 1)
    forward_wide(ForwardArguments a) {
  using T = Tile<TX, warp_lanes, vectors>;
  using C = typename T::C;
  __shared__ Moments<C> slots[2][clustered ? max_cluster_segments : max_block_segments];
  const int lane = threadIdx.x % warp_lanes;
  const int warps = blockDim.x / warp_lanes;
  const int rank = clustered ? static_cast<int>(blockIdx.x % a.blocks_per_row) : 0;
  const int segment = rank * warps + threadIdx.x / warp_lanes;
  const int first = segment * T::cols + lane * T::vector;  // such rows are short enough for an int
  const Extent extent = Extent::of<T>(a.cols - segment * T::cols, lane, a.vectorised != 0);
  const C reciprocal = C(1) / static_cast<C>(whole ? T::cols : extent.count + lane * T::vector);
  extern __shared__ __align__(32) unsigned char dynamic_shared[];
  const Kept<T> kept_beta{reinterpret_cast<uint4*>(dynamic_shared) + threadIdx.x};
  typename T::Values gamma, beta, values;
  load_parameters<T, TX>(beta, a.beta, a.beta_kind, first, extent.count, C(0));
  if constexpr (!whole) kept_beta.store(beta);
  load_parameters<T, TX>(gamma, a.gamma, a.gamma_kind, first, extent.count, C(1));
  const std::int64_t step = gridDim.x / a.blocks_per_row;
  int parity = 0;
  for (std::int64_t row = blockIdx.x / a.blocks_per_row; row < a.rows; row += step, parity ^= 1) {
    load_tile<T, whole>(values, static_cast<const TX*>(a.x) + (row * a.x_stride + first), extent);
    const Moments<C> own = tile_moments<T, whole>(values, extent.count, reciprocal);
    const RowStatistics<C> statistics =
        share_and_merge<C, clustered>(a, slots[parity], own, segment, T::cols, lane);
    if (segment == 0 && lane == 0) store_statistics(a, row, statistics.mean, statistics.rstd);
    const C shift = statistics.shift(own.centre);
    if constexpr (whole)
      normalize<T>(values, gamma, beta, statistics.rstd, shift);
    else
      normalize<T>(values, gamma, kept_beta, statistics.rstd, shift);
    store_tile<T, whole>(static_cast<TY*>(a.y) + (row * a.y_stride + first), values, extent);
  }
  // No block may leave while another still writes to its slots.
  if constexpr (clustered) cluster_barrier();
}

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

  __device__ __forceinline__ Moments<C> load(typename Tile::Values& values, std::int64_t row,
                                             std::int64_t segment) const {
    const Extent here = extent(segment);
    const int cols = here.count + lane * Tile::vector;
    const TX* x = static_cast<const TX*>(a.x) + (row * a.x_stride + first(segment));
    if (a.vectorised && cols == Tile::cols) {
      load_tile<Tile, true>(values, x, here);
      return tile_moments<Tile, true>(values, here.count, C(1) / Tile::cols);
    }
    load_tile<Tile, false>(values, x, here);
    return tile_moments<Tile, false>(values, here.count, C(1) / static_cast<C>(cols));
  }

  __device__ __forceinline__ void finish(std::int64_t row, std::int64_t segment,
                                         const RowStatistics<C>& statistics) const {
    typename Tile::Values values, gamma, beta;
    const Moments<C> own = load(values, row, segment);
    const Extent here = extent(segment);
    load_parameters<Tile, TX>(gamma, a.gamma, a.gamma_kind, first(segment), here.count, C(1));
    load_parameters<Tile, TX>(beta, a.beta, a.beta_kind, first(segment), here.count, C(0));
    normalize<Tile>(values, gamma, beta, statistics.rstd, statistics.shift(own.centre));
    store_tile<Tile, false>(static_cast<TY*>(a.y) + (row * a.y_stride + first(segment)), values,
                            here);
  }
};

/// A block a row, its segments' moments in shared memory, the row read again from L2.
template <typename TX, typename TY, int vectors>
__global__ void __launch_bounds__(wide_threads, 1) forward_reread(ForwardArguments a) {
  using T = Tile<TX, warp_lanes, vectors>;
  using C = typename T::C;
  extern __shared__ __align__(32) unsigned char dynamic_shared[];
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
        merge_moments(slots, static_cast<int>(a.segments), T::cols, a.cols,
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
                        static_cast<int>(a.segments), T::cols, a.cols,
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
