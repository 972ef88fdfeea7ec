// LayerNorm backward kernels that read x and dy once: blocks stay for many rows and keep gamma and
// both column sums in registers. Each block, or cluster, leaves one row of partial column sums for
// columns.cuh to add up.
#pragma once

#include "cluster.cuh"
#include "columns.cuh"
#include "elements.cuh"
#include "kernel_sizes.h"
#include "reduce.cuh"

namespace fusednorm::cuda {

template <typename C>
struct alignas(2 * sizeof(C)) RowSums {
  C g;
  C g_xhat;
};

/// 1 / gamma; infinite for 0, which makes 0 / 0, NaN, of xhat there: y says nothing of x.
__device__ __forceinline__ float2 reciprocal(float2 v) {
  return {__frcp_rn(v.x), __frcp_rn(v.y)};
}
__device__ __forceinline__ double2 reciprocal(double2 v) {
  return {1.0 / v.x, 1.0 / v.y};
}

/// Where a lane's part of a row lies.
template <typename TX, typename TY, bool from_y>
struct BackwardPlace {
  using C = Compute<TX>;
  using TS = std::conditional_t<from_y, TY, TX>;
  const TY* dy;
  const TS* source;
  TX* dx;
  const C* mean;
  const C* rstd;

  /// `first` is the lane's first column.
  __device__ __forceinline__ BackwardPlace(const BackwardArguments& a, std::int64_t row,
                                           std::int64_t first)
      : dy(kept(static_cast<const TY*>(a.dy) + (row * a.dy_stride + first))),
        source(kept(static_cast<const TS*>(a.source) + (row * a.source_stride + first))),
        dx(kept(static_cast<TX*>(a.dx) + (row * a.dx_stride + first))),
        mean(static_cast<const C*>(a.mean) + row),
        rstd(static_cast<const C*>(a.rstd) + row) {}

  /// The row that this lane takes next.
  __device__ __forceinline__ void next(const BackwardArguments& a) {
    dy = kept(advance(dy, a.dy_step));
    source = kept(advance(source, a.source_step));
    dx = kept(advance(dx, a.dx_step));
    if constexpr (!from_y) mean = advance(mean, a.statistics_step);
    rstd = advance(rstd, a.statistics_step);
  }
};

/// A lane's part of one row. Once loaded, `g` holds dy * gamma and `xhat` the normalised x: nothing
/// is computed twice, and no more registers are live than the two.
template <typename TX, typename TY, typename Tile, bool from_y>
struct BackwardRow {
  using C = typename Tile::C;
  using P = Pair<C>;
  using Place = BackwardPlace<TX, TY, from_y>;
  typename Tile::Values g;
  typename Tile::Values xhat;
  C rstd;

  /// Adds to the column sums, which need no sum over the row, and returns the lane's share of the
  /// row's sums.
  template <bool full, bool want_columns, typename Gamma, typename Beta>
  __device__ __forceinline__ RowSums<C> load(const Place& place, Extent extent, bool exists,
                                             const Gamma& gamma, const Beta& beta,
                                             typename Tile::Values& dgamma,
                                             typename Tile::Values& dbeta) {
    with_access<Tile, full>(extent, [&](auto access) {
      load_tile<Tile, access.value>(g, place.dy, extent);
      load_tile<Tile, access.value>(xhat, place.source, extent);
    });
    rstd = exists ? *place.rstd : C(0);
    C mean = 0;
    if constexpr (!from_y) mean = exists ? *place.mean : C(0);
    // Missing columns must not bring the mean, which may be NaN, into any sum.
    each_pair_cleared<Tile, full>(xhat, extent, [&](int p) {
      if constexpr (from_y) {
        const P b = beta[p];
        xhat[p] = add(xhat[p], P{-b.x, -b.y});
      } else {
        xhat[p] = mul(add(xhat[p], both(-mean)), both(rstd));
      }
    });
    P g_sum, weighted;
    each_pair<Tile, full>(extent, [&](int p) {
      const P dy = g[p], own_gamma = gamma[p];
      g[p] = mul(dy, own_gamma);
      g_sum = p == 0 ? g[p] : add(g_sum, g[p]);
      // y - beta holds gamma already.
      const P factor = from_y ? dy : g[p];
      weighted = p == 0 ? mul(factor, xhat[p]) : multiply_add(factor, xhat[p], weighted);
      if constexpr (from_y) xhat[p] = mul(xhat[p], reciprocal(own_gamma));
      if constexpr (want_columns) {
        dgamma[p] = multiply_add(dy, xhat[p], dgamma[p]);
        dbeta[p] = add(dbeta[p], dy);
      }
    });
    return {sum_of(g_sum), sum_of(weighted)};
  }

  /// dx = rstd * (g - mean(g) - xhat * mean(g * xhat)); `means` are those, times -rstd.
  template <bool full>
  __device__ __forceinline__ void store_dx(const Place& place, Extent extent, RowSums<C> means) {
    const P constant = both(means.g), slope = both(means.g_xhat);
    each_pair<Tile, full>(extent, [&](int p) {
      xhat[p] = multiply_add(xhat[p], slope, multiply_add(g[p], both(rstd), constant));
    });
    store_tile<Tile, full>(place.dx, xhat, extent);
  }
};

/// Whether a lane has registers for gamma beside x, dy and the column sums.
template <typename Tile>
inline constexpr bool gamma_fits = Tile::elements* static_cast<int>(sizeof(typename Tile::C) /
                                                                    4) <= backward_lane_registers;

/// The column sums that a block's groups of threads hold, added up by halves and written as one row
/// of partials; then cleared. Thread `thread` of each group holds the same columns. Every thread of
/// the block calls it.
template <typename Tile, typename Index>
__device__ __forceinline__ void leave_partials(const BackwardArguments& a, uint4* shared,
                                               typename Tile::Values& dgamma,
                                               typename Tile::Values& dbeta, std::int64_t partial,
                                               int group, int groups, int thread, int group_threads,
                                               Index first, Extent extent) {
  using C = typename Tile::C;
  using P = Pair<C>;
  constexpr int pairs_per_piece = Tile::pairs_per_piece, pieces = Tile::pieces;
  for (int left = groups; left > 1;) {
    const int half = (left + 1) / 2;
    uint4* slot =
        shared + (group < half ? group : group - half) * 2 * pieces * group_threads + thread;
    if (group >= half && group < left) {
#pragma unroll
      for (int i = 0; i < pieces; ++i) {
        memcpy(slot + i * group_threads, &dgamma[i * pairs_per_piece], sizeof(uint4));
        memcpy(slot + (pieces + i) * group_threads, &dbeta[i * pairs_per_piece], sizeof(uint4));
      }
    }
    __syncthreads();
    if (group + half < left) {
#pragma unroll
      for (int i = 0; i < pieces; ++i) {
        P other[2][pairs_per_piece];
        memcpy(other[0], slot + i * group_threads, sizeof(uint4));
        memcpy(other[1], slot + (pieces + i) * group_threads, sizeof(uint4));
#pragma unroll
        for (int j = 0; j < pairs_per_piece; ++j) {
          dgamma[i * pairs_per_piece + j] = add(dgamma[i * pairs_per_piece + j], other[0][j]);
          dbeta[i * pairs_per_piece + j] = add(dbeta[i * pairs_per_piece + j], other[1][j]);
        }
      }
    }
    left = half;
    if (left > 1) __syncthreads();
  }
  if (groups > 1) __syncthreads();  // before the next partials take the slots
  if (group == 0) {
    C* out = static_cast<C*>(a.partials) + partial * a.cols + first;
    extent.vectorised = a.cols * sizeof(C) % vector_bytes == 0;
    store_tile<Tile, false>(out, dgamma, extent);
    store_tile<Tile, false>(out + a.partial_count * a.cols, dbeta, extent);
  }
  fill(dgamma, both(C(0)));
  fill(dbeta, both(C(0)));
}

/// What a block keeps in dynamic shared memory: beta in a backward from y, gamma where registers do
/// not suffice, and room for half its groups' column sums.
template <typename Tile, bool from_y, bool keep_gamma>
struct BackwardShared {
  using C = typename Tile::C;
  Kept<Tile> beta;
  Kept<Tile> gamma;
  uint4* sums;

  __device__ __forceinline__ explicit BackwardShared(uint4* block)
      : beta(block), gamma(from_y ? beta.end_of_block(block) : block) {
    sums = block + ((from_y ? 1 : 0) + (keep_gamma ? 1 : 0)) * Tile::pieces * blockDim.x;
  }

  template <typename TX, typename Index>
  __device__ __forceinline__ void load_parameters_of(const BackwardArguments& a,
                                                     typename Tile::Values& in_registers,
                                                     Index first, Extent extent) const {
    extent.vectorised = a.params_vectorised != 0;
    if constexpr (from_y) {
      load_parameters<Tile, TX>(in_registers, a.beta, a.beta_kind, first, extent, C(0));
      beta.store(in_registers);
    }
    load_parameters<Tile, TX>(in_registers, a.gamma, a.gamma_kind, first, extent, C(1));
    if constexpr (keep_gamma) gamma.store(in_registers);
  }

  /// The column sums are added up even where neither dgamma nor dbeta is wanted: a second loop
  /// without them would double the kernels for little, memory being what limits them.
  template <bool full, typename Row>
  __device__ __forceinline__ RowSums<C> load_row(Row& here, const typename Row::Place& place,
                                                 Extent extent, bool exists,
                                                 const typename Tile::Values& in_registers,
                                                 typename Tile::Values& dgamma,
                                                 typename Tile::Values& dbeta) const {
    if constexpr (keep_gamma)
      return here.template load<full, true>(place, extent, exists, gamma, beta, dgamma, dbeta);
    else
      return here.template load<full, true>(place, extent, exists, in_registers, beta, dgamma,
                                            dbeta);
  }
};

/// Turns of the grid in which `row`, one of its first, and those that follow it exist.
__device__ __forceinline__ int turns_of(std::int64_t row, const BackwardArguments& a) {
  return a.turns + (row < a.rows_left ? 1 : 0);
}

/// `lanes` lanes a row. One block a multiprocessor: as few partial sums as there can be.
template <typename TX, typename TY, int lanes, int vectors, bool from_y>
__global__ void __launch_bounds__(gamma_fits<Tile<TX, lanes, vectors>> ? wide_threads
                                                                       : stretched_threads,
                                  1) backward_narrow(BackwardArguments a) {
  // A whole warp gets as few vectors as the row needs: only the last can be incomplete.
  using T = Tile<TX, lanes, vectors, lanes == warp_lanes ? vectors - 1 : 0>;
  using C = typename T::C;
  extern __shared__ uint4 dynamic_shared[];
  BackwardShared<T, from_y, !gamma_fits<T>> shared(dynamic_shared);
  const int lane = threadIdx.x % lanes, in_warp = threadIdx.x % warp_lanes / lanes;
  const int first = lane * T::vector;
  const Extent every = Extent::of<T>(a.cols, lane, a.vectorised != 0);
  typename T::Values gamma, dgamma, dbeta;
  shared.template load_parameters_of<TX>(a, gamma, first, every);
  fill(dgamma, both(C(0)));
  fill(dbeta, both(C(0)));

  constexpr int rows_per_warp = warp_lanes / lanes;
  const std::int64_t block_row = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / lanes);
  const std::int64_t row = block_row + threadIdx.x / lanes;
  // The block's turns; those of the lanes' own rows; and those in which all the warp's rows exist
  // and are whole.
  const int turns = turns_of(block_row, a), own_turns = turns_of(row, a);
  const int whole_turns =
      a.vectorised && a.cols == T::cols ? turns_of(row + (rows_per_warp - 1 - in_warp), a) : 0;
  const C factor = kept(static_cast<C>(-a.reciprocal_cols));
  BackwardRow<TX, TY, T, from_y> here;
  BackwardPlace<TX, TY, from_y> place(a, row, first);
  const auto work = [&](auto full, Extent extent, bool exists) {
    RowSums<C> total =
        shared.template load_row<full.value>(here, place, extent, exists, gamma, dgamma, dbeta);
    if (a.dx) {
      lanes_sum_both<lanes>(total.g, total.g_xhat);
      const C scale = here.rstd * factor;
      here.template store_dx<full.value>(place, extent, {scale * total.g, scale * total.g_xhat});
    }
    place.next(a);
  };
  std::int64_t partial = blockIdx.x;
  for (int turn = 0; turn < turns; partial += gridDim.x) {
    const int end = min(turns, turn + rows_per_partial), whole_end = kept(min(end, whole_turns));
    for (; turn < whole_end; ++turn) work(std::true_type(), every, true);
    for (; turn < end; ++turn) {
      const bool exists = turn < own_turns;
      if (lanes == warp_lanes && !exists) {  // for the whole warp
        turn = end;
        break;
      }
      work(std::false_type(), exists ? every : every.none(), exists);
    }
    if (!a.partials) continue;
      // Rows of one warp first: lanes `lanes` apart hold the same columns.
#pragma unroll
    for (int apart = lanes; apart < warp_lanes; apart *= 2) {
#pragma unroll
      for (int p = 0; p < T::pairs; ++p) {
        dgamma[p].x += __shfl_xor_sync(every_lane, dgamma[p].x, apart);
        dgamma[p].y += __shfl_xor_sync(every_lane, dgamma[p].y, apart);
        dbeta[p].x += __shfl_xor_sync(every_lane, dbeta[p].x, apart);
        dbeta[p].y += __shfl_xor_sync(every_lane, dbeta[p].y, apart);
      }
    }
    // Then by warps; lanes of further rows hold the same sums and do no harm.
    leave_partials<T>(a, shared.sums, dgamma, dbeta, partial, threadIdx.x / warp_lanes,
                      blockDim.x / warp_lanes, threadIdx.x % warp_lanes, warp_lanes, first,
                      in_warp == 0 ? every : every.none());
  }
}

/// Several warps, a group, a row; a segment a warp. A block has as many groups as it has room for.
/// clustered: a cluster of blocks a row instead, one group each.
template <typename TX, typename TY, int vectors, bool from_y, bool clustered, bool whole>
__global__ void __launch_bounds__(clustered ? cluster_threads : wide_threads, clustered ? 2 : 1)
    backward_wide(BackwardArguments a) {
  if (clustered && !clusters_exist) return no_clusters_here();
  using T = WideTile<TX, vectors, clustered, whole>;
  static_assert(!whole || gamma_fits<T>, "there are no registers for these");
  using C = typename T::C;
  using Sums = SharedSums<C, clustered>;
  __shared__ typename Sums::Slots slots;
  static_assert(sizeof slots <= most_static_bytes);
  extern __shared__ uint4 dynamic_shared[];
  const int lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes;
  const int segments = static_cast<int>(a.segments);
  const int warps = clustered ? blockDim.x / warp_lanes : segments;
  const int groups = clustered ? 1 : blockDim.x / (warps * warp_lanes);
  const int group = clustered ? 0 : warp / warps;
  const int rank = clustered ? static_cast<int>(blockIdx.x % a.blocks_per_row) : 0;
  const int segment = rank * warps + warp - group * warps;
  const WidePlace<T, whole> own(a, segment, lane);
  // Rows that are not whole segments need more registers to find their way.
  BackwardShared<T, from_y, !whole || !gamma_fits<T>> shared(dynamic_shared);
  typename T::Values gamma, dgamma, dbeta;
  shared.template load_parameters_of<TX>(a, gamma, own.first, own.extent);
  fill(dgamma, both(C(0)));
  fill(dbeta, both(C(0)));
  Sums::clear(slots);
  Sums sums(slots, segments, segment, group, warps);

  const unsigned clusters = clustered ? gridDim.x / a.blocks_per_row : gridDim.x;
  const unsigned cluster = clustered ? blockIdx.x / a.blocks_per_row : blockIdx.x;
  const std::int64_t block_row = static_cast<std::int64_t>(cluster) * groups;
  const int turns = turns_of(block_row, a), own_turns = turns_of(block_row + group, a);
  const C factor = kept(static_cast<C>(-a.reciprocal_cols));
  BackwardRow<TX, TY, T, from_y> here;
  BackwardPlace<TX, TY, from_y> place(a, block_row + group, own.first);
  std::int64_t partial = cluster;
  for (int turn = 0; turn < turns; partial += clusters) {
    const int end = min(turns, turn + rows_per_partial), own_end = kept(min(end, own_turns));
    for (; turn < own_end; ++turn) {
      RowSums<C> total =
          shared.template load_row<whole>(here, place, own.extent, true, gamma, dgamma, dbeta);
      if (a.dx) {
        sums.sum(total.g, total.g_xhat, here.rstd * factor, a.blocks_per_row);
        here.template store_dx<whole>(place, own.extent, total);
      }
      place.next(a);
    }
    turn = end;
    if (a.partials) {
      leave_partials<T>(a, shared.sums, dgamma, dbeta, partial, group, groups,
                        (warp - group * warps) * warp_lanes + lane, warps * warp_lanes, own.first,
                        own.extent);
    }
  }
  // No block may leave while another still writes to its slots.
  if constexpr (clustered) cluster_barrier();
}

}  // namespace fusednorm::cuda
