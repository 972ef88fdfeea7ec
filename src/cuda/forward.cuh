// LayerNorm forward kernels: a row in the registers of part of a warp, a warp, a block or a
// cluster.
#pragma once

#include "cluster.cuh"
#include "elements.cuh"
#include "kernel_sizes.h"
#include "reduce.cuh"
#include "shared.cuh"

namespace fusednorm::cuda {

template <typename C>
constexpr int registers_of(int elements) {
  return elements * static_cast<int>(sizeof(C) / 4);
}

/// Sums of x - centre and of its square, over a tile whose values are that far from the centre.
template <typename Tile, bool full>
__device__ __forceinline__ void sum_deviations(const typename Tile::Values& values, Extent extent,
                                               typename Tile::C* rest, typename Tile::C* square) {
  auto rests = values[0];
  auto squares = mul(values[0], values[0]);
  each_pair<Tile, full>(extent, [&](int p) {
    if (p == 0) return;
    rests = add(rests, values[p]);
    squares = multiply_add(values[p], values[p], squares);
  });
  *rest = sum_of(rests);
  *square = sum_of(squares);
  lanes_sum_both<Tile::lanes>(*rest, *square);
}

/// Mean and squared deviations of a tile: one pass about a pivot, the mean of every lane's first
/// element. Where that turns out further from the mean than the spread, squares about it would
/// cancel, and a second pass about the mean itself follows; for f64 always. Leaves x - centre in
/// `values`; `rest` is what the mean is from the centre. Never a difference of large sums, never
/// E[x^2] - E[x]^2: docs/derivation.md.
template <typename Tile, bool full>
__device__ __forceinline__ Moments<typename Tile::C> tile_moments(
    typename Tile::Values& values, Extent extent, typename Tile::C reciprocal_count,
    typename Tile::C reciprocal_lanes) {
  using C = typename Tile::C;
  C centre = lanes_sum<Tile::lanes>(values[0].x) * reciprocal_lanes;
  const auto move = [&](C by) {
    each_pair_cleared<Tile, full>(values, extent,
                                  [&](int p) { values[p] = add(values[p], both(-by)); });
  };
  move(centre);
  C rest, square;
  sum_deviations<Tile, full>(values, extent, &rest, &square);
  C mean_rest = rest * reciprocal_count;
  C about_mean = square - rest * mean_rest;
  const bool far = rest * mean_rest > about_mean;
  if (std::is_same_v<C, double> ? isfinite(mean_rest) : far) {
    const C moved = centre + mean_rest;
    move(moved -
         centre);  // by what the centre really moves, so that nothing is lost to its rounding
    centre = moved;
    sum_deviations<Tile, full>(values, extent, &rest, &square);
    mean_rest = rest * reciprocal_count;
    about_mean = square - rest * mean_rest;
  }
  return {centre, mean_rest, about_mean < 0 ? C(0) : about_mean, C(0)};
}

/// 1 / the number of lanes whose first column exists.
template <typename Tile>
__device__ __forceinline__ typename Tile::C lane_share(int cols) {
  using C = typename Tile::C;
  constexpr C every = C(1) / Tile::lanes;
  if (Tile::always > 0 || cols >= Tile::lanes * Tile::vector) return every;
  return C(1) / static_cast<C>(cols > Tile::vector ? (cols + Tile::vector - 1) / Tile::vector : 1);
}

template <typename Tile, bool full, typename Gamma, typename Beta>
__device__ __forceinline__ void normalize(typename Tile::Values& values, Extent extent,
                                          const Gamma& gamma, const Beta& beta,
                                          typename Tile::C rstd, typename Tile::C shift) {
  each_pair<Tile, full>(extent, [&](int p) {
    values[p] = multiply_add(multiply_add(values[p], both(rstd), both(shift)), gamma[p], beta[p]);
  });
}

template <typename C>
__device__ __forceinline__ void store_statistics(const ForwardArguments& a, std::int64_t row,
                                                 C mean, C rstd) {
  if (a.mean) static_cast<C*>(a.mean)[row] = mean;
  if (a.rstd) static_cast<C*>(a.rstd)[row] = rstd;
}

/// Whether a lane has registers for gamma and beta beside x; if not, they are read from shared
/// memory for every row.
template <typename Tile>
inline constexpr bool parameters_fit =
    registers_of<typename Tile::C>(Tile::elements) <= forward_lane_registers;

/// A parameter array staged in shared memory, as a lane sees it.
template <typename Tile>
struct Staged {
  using P = Pair<typename Tile::C>;
  const typename Tile::C* first;
  __device__ __forceinline__ P operator[](int p) const {
    constexpr int pairs_per_piece = Tile::pairs_per_piece;
    const int in_piece = p % pairs_per_piece;
    const uint4 piece = *reinterpret_cast<const uint4*>(first + Tile::column(p - in_piece));
    P pairs[pairs_per_piece];
    memcpy(pairs, &piece, sizeof piece);
    return pairs[in_piece];
  }
  __device__ __forceinline__ void load(typename Tile::Values& values) const {
#pragma unroll
    for (int p = 0; p < Tile::pairs; ++p) values[p] = (*this)[p];
  }
};

template <typename T, typename C>
__device__ __forceinline__ void stage_as(C* to, const T* from, int cols, bool vectorised) {
  constexpr int vector = sizeof(C) == 8 ? 2 : vector_bytes / static_cast<int>(sizeof(T));
  const int done = vectorised ? cols / vector * vector : 0;
#pragma unroll 1
  for (int column = threadIdx.x * vector; column < done; column += narrow_threads * vector) {
    load_vector<T, C, vector, 0>(reinterpret_cast<Pair<C>*>(to + column), from + column);
  }
#pragma unroll 8
  for (int column = done + threadIdx.x; column < cols; column += narrow_threads)
    to[column] = to_compute(from[column]);
}

/// As stage_as, for a row that fills the tile and a multiple of what the block's threads load at
/// once.
template <int cols, typename T, typename C>
__device__ __forceinline__ void stage_whole(C* to, const T* from) {
  constexpr int vector = sizeof(C) == 8 ? 2 : vector_bytes / static_cast<int>(sizeof(T));
  const int own = threadIdx.x * vector;
  each<cols / (narrow_threads * vector)>([&](auto i) {
    constexpr int offset = i.value * narrow_threads * vector;
    load_vector<T, C, vector, offset>(reinterpret_cast<Pair<C>*>(to + own + offset), from + own);
  });
}

/// gamma or beta into shared memory, by all threads of a narrow block.
template <typename TX, int tile_cols>
__device__ __forceinline__ void stage(Compute<TX>* to, const void* from, ParamKind kind, int cols,
                                      bool vectorised, Compute<TX> otherwise) {
  constexpr int at_once = narrow_threads * vector_bytes;
  const auto stage_from = [&](const auto* array) {
    if constexpr (tile_cols * sizeof(*array) % at_once == 0 && sizeof(Compute<TX>) == 4) {
      if (vectorised && cols == tile_cols) return stage_whole<tile_cols>(to, array);
    }
    stage_as(to, array, cols, vectorised);
  };
  if (kind == ParamKind::absent) {
#pragma unroll 1
    for (int column = threadIdx.x; column < cols; column += narrow_threads) to[column] = otherwise;
  } else if (std::is_same_v<TX, float> || kind == ParamKind::f32) {
    stage_from(static_cast<const float*>(from));
  } else {
    stage_from(static_cast<const TX*>(from));
  }
}

template <typename TX, typename TY, typename Tile, bool full, typename Gamma, typename Beta>
__device__ __forceinline__ void forward_narrow_row(const ForwardArguments& a, const TX* x, TY* y,
                                                   std::int64_t row, int lane, Extent extent,
                                                   typename Tile::C eps,
                                                   typename Tile::C reciprocal,
                                                   typename Tile::C reciprocal_lanes,
                                                   const Gamma& gamma, const Beta& beta) {
  using C = typename Tile::C;
  typename Tile::Values values;
  load_tile<Tile, full>(values, x, extent);
  const Moments<C> moments = tile_moments<Tile, full>(values, extent, reciprocal, reciprocal_lanes);
  const C rstd = reciprocal_root(moments.squares * reciprocal + eps);
  if (lane == 0 && (full || extent.count > 0)) {
    store_statistics(a, row, moments.centre + moments.settled().rest, rstd);
  }
  normalize<Tile, full>(values, extent, gamma, beta, rstd, -moments.rest * rstd);
  store_tile<Tile, full>(y, values, extent);
}

/// `lanes` lanes a row. Blocks stay for many rows: gamma and beta pass through shared memory once a
/// block and, where they fit, stay in registers.
template <typename TX, typename TY, int lanes, int vectors>
__global__ void __launch_bounds__(
    narrow_threads, narrow_blocks(registers_of<Compute<TX>>(Tile<TX, lanes, vectors>::elements)))
    forward_narrow(ForwardArguments a) {
  // A whole warp gets as few vectors as the row needs: only the last can be incomplete.
  using T = Tile<TX, lanes, vectors, lanes == warp_lanes ? vectors - 1 : 0>;
  using C = typename T::C;
  __shared__ alignas(16) C staged[2][T::cols];
  const int cols = static_cast<int>(a.cols);
#pragma unroll 1
  for (int column = cols + threadIdx.x; column < T::cols; column += narrow_threads) {
    staged[0][column] = staged[1][column] = 0;
  }
  stage<TX, T::cols>(staged[0], a.gamma, a.gamma_kind, cols, a.params_vectorised != 0, C(1));
  stage<TX, T::cols>(staged[1], a.beta, a.beta_kind, cols, a.params_vectorised != 0, C(0));
  __syncthreads();
  const int lane = threadIdx.x % lanes;
  const Staged<T> shared_gamma{&staged[0][lane * T::vector]},
      shared_beta{&staged[1][lane * T::vector]};
  typename T::Values gamma, beta;
  if constexpr (parameters_fit<T>) {
    shared_gamma.load(gamma);
    shared_beta.load(beta);
  }
  constexpr int rows_per_warp = warp_lanes / lanes;
  constexpr int rows_per_block = narrow_threads / lanes;
  const C eps = kept(static_cast<C>(a.eps)), reciprocal = kept(static_cast<C>(a.reciprocal_cols)),
          reciprocal_lanes = lane_share<T>(cols);
  std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * rows_per_block + threadIdx.x / lanes;
  const TX* x = kept(static_cast<const TX*>(a.x) + (row * a.x_stride + lane * T::vector));
  TY* y = kept(static_cast<TY*>(a.y) + (row * a.y_stride + lane * T::vector));
  // A warp's lanes stay together: they look at the warp's first and last row, not at their own.
  const int in_warp = threadIdx.x % warp_lanes / lanes;
  const auto work = [&](auto full, Extent extent) {
    if constexpr (parameters_fit<T>) {
      forward_narrow_row<TX, TY, T, full.value>(a, x, y, row, lane, extent, eps, reciprocal,
                                                reciprocal_lanes, gamma, beta);
    } else {
      forward_narrow_row<TX, TY, T, full.value>(a, x, y, row, lane, extent, eps, reciprocal,
                                                reciprocal_lanes, shared_gamma, shared_beta);
    }
    x = kept(advance(x, a.x_step));
    y = kept(advance(y, a.y_step));
    row += a.row_step;
  };
  if (a.vectorised && cols == T::cols) {
    while (row + (rows_per_warp - 1 - in_warp) < a.rows) work(std::true_type(), Extent{});
  }
  if (row - in_warp >= a.rows) return;
  const Extent every = Extent::of<T>(cols, lane, a.vectorised != 0);
  while (row - in_warp < a.rows) {
    work(std::false_type(), lanes == warp_lanes || row < a.rows ? every : every.none());
  }
}

/// Shares one warp's moments with every warp of the row and merges them. One barrier a row: the
/// slots of the next row are others.
template <typename C, bool clustered, typename Cols>
__device__ __forceinline__ RowStatistics<C> share_and_merge(const ForwardArguments& a,
                                                            Moments<C>* slots,
                                                            const Moments<C>& own, int segment,
                                                            const Cols& cols_of, C reciprocal_cols,
                                                            C eps, int lane) {
  if constexpr (clustered) {
    if (segment < a.segments && lane < a.blocks_per_row)
      cluster_write(slots + segment, lane, own.settled());
    cluster_barrier();
  } else {
    if (segment < a.segments && lane == 0) slots[segment] = own.settled();
    __syncthreads();
  }
  return merge_moments(slots, static_cast<int>(a.segments), cols_of, reciprocal_cols, eps, lane);
}

/// How many columns each warp of a row has.
template <typename Tile, bool whole>
__device__ __forceinline__ auto cols_of_segments(const ForwardArguments& a, Extent extent) {
  if constexpr (whole) {
    return [](int) { return Tile::cols; };
  } else {
    const int cols = static_cast<int>(a.cols);
    if (extent.pitch == Tile::pitch) return SegmentCols<int>{0, Tile::cols, cols};
    constexpr int before_last = Tile::vectors - 1;
    return SegmentCols<int>{before_last * Tile::pitch, Tile::pitch,
                            cols - before_last * extent.pitch};
  }
}

/// A block, or a cluster of blocks, a row; a segment a warp. `whole`: aligned rows of whole
/// segments. Other rows need more registers to find their way, so there beta waits in (dynamic)
/// shared memory; they are spread over all warps, so that only the last vector asks what exists.
template <typename TX, typename TY, int vectors, bool clustered, bool whole>
__global__ void __launch_bounds__(clustered ? cluster_threads : wide_threads, clustered ? 2 : 1)
    forward_wide(ForwardArguments a) {
  if (clustered && !clusters_exist) return no_clusters_here();
  if constexpr (clustered) cluster_arrive_started();
  using T = WideTile<TX, vectors, clustered, whole>;
  using C = typename T::C;
  __shared__ Moments<C> slots[2][clustered ? max_cluster_segments : max_block_segments];
  static_assert(sizeof slots <= most_static_bytes);
  const int lane = threadIdx.x % warp_lanes;
  const int warps = blockDim.x / warp_lanes;
  const int rank = clustered ? static_cast<int>(blockIdx.x % a.blocks_per_row) : 0;
  const int segment = rank * warps + threadIdx.x / warp_lanes;
  const WidePlace<T, whole> own_place(a, segment, lane);
  const Extent extent = own_place.extent;
  const auto cols_of = cols_of_segments<T, whole>(a, extent);
  // A warp without columns may have any.
  const C reciprocal_count = C(1) / static_cast<C>(cols_of(segment) > 0 ? cols_of(segment) : 1);
  constexpr C reciprocal_lanes = C(1) / warp_lanes;
  // Where registers do not suffice: beta, then gamma.
  extern __shared__ uint4 dynamic_shared[];
  constexpr bool keep_gamma = !parameters_fit<T>, keep_beta = !whole || keep_gamma;
  const Kept<T> kept_beta(dynamic_shared), kept_gamma(kept_beta.end_of_block(dynamic_shared));
  Extent parameters = extent;
  parameters.vectorised = a.params_vectorised != 0;
  typename T::Values gamma, beta, values;
  load_parameters<T, TX>(beta, a.beta, a.beta_kind, own_place.first, parameters, C(0));
  if constexpr (keep_beta) kept_beta.store(beta);
  load_parameters<T, TX>(gamma, a.gamma, a.gamma_kind, own_place.first, parameters, C(1));
  if constexpr (keep_gamma) kept_gamma.store(gamma);
  const C reciprocal_cols = kept(static_cast<C>(a.reciprocal_cols)),
          eps = kept(static_cast<C>(a.eps));
  std::int64_t row = clustered ? blockIdx.x / a.blocks_per_row : blockIdx.x;
  const TX* x = static_cast<const TX*>(a.x) + (row * a.x_stride + own_place.first);
  TY* y = static_cast<TY*>(a.y) + (row * a.y_stride + own_place.first);
  if constexpr (clustered) cluster_wait_started();
  for (int parity = 0; row < a.rows; row += a.row_step, parity ^= 1) {
    load_tile<T, whole>(values, x, extent);
    const Moments<C> own =
        tile_moments<T, whole>(values, extent, reciprocal_count, reciprocal_lanes);
    const RowStatistics<C> statistics = share_and_merge<C, clustered>(
        a, slots[parity], own, segment, cols_of, reciprocal_cols, eps, lane);
    if (segment == 0 && lane == 0) store_statistics(a, row, statistics.mean, statistics.rstd);
    const C shift = statistics.shift(own.centre);
    if constexpr (keep_gamma)
      normalize<T, whole>(values, extent, kept_gamma, kept_beta, statistics.rstd, shift);
    else if constexpr (keep_beta)
      normalize<T, whole>(values, extent, gamma, kept_beta, statistics.rstd, shift);
    else
      normalize<T, whole>(values, extent, gamma, beta, statistics.rstd, shift);
    store_tile<T, whole>(y, values, extent);
    x = kept(advance(x, a.x_step));
    y = kept(advance(y, a.y_step));
  }
  // No block may leave while another still writes to its slots.
  if constexpr (clustered) cluster_barrier();
}

}  // namespace fusednorm::cuda
