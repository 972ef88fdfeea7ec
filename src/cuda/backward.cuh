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

/// A lane's part of one row. Once loaded, `g` holds dy * gamma and `xhat` the normalised x: nothing
/// is computed twice, and no more registers are live than the two.
template <typename TX, typename TY, typename Tile, bool from_y>
struct BackwardRow {
  using C = typename Tile::C;
  using P = Pair<C>;
  using TS = std::conditional_t<from_y, TY, TX>;
  typename Tile::Values g;
  typename Tile::Values xhat;
  C rstd;

  /// `first` is the lane's first column in the row. Adds to the column sums, which need no sum over
  /// the row, and returns the lane's share of the row's sums.
  template <bool full, bool want_columns, typename Index, typename Gamma, typename Beta>
  __device__ __forceinline__ RowSums<C> load(const BackwardArguments& a, std::int64_t row,
                                             Index first, Extent extent, bool exists,
                                             const Gamma& gamma, const Beta& beta,
                                             typename Tile::Values& dgamma,
                                             typename Tile::Values& dbeta) {
    load_tile<Tile, full>(g, static_cast<const TY*>(a.dy) + (row * a.dy_stride + first), extent);
    load_tile<Tile, full>(xhat, static_cast<const TS*>(a.source) + (row * a.source_stride + first),
                          extent);
    rstd = exists ? static_cast<const C*>(a.rstd)[row] : C(0);
    C mean = 0;
    if constexpr (!from_y) mean = exists ? static_cast<const C*>(a.mean)[row] : C(0);
#pragma unroll
    for (int p = 0; p < Tile::pairs; ++p) {
      if constexpr (from_y) {
        const P b = beta[p];
        xhat[p] = add(xhat[p], P{-b.x, -b.y});
      } else {
        xhat[p] = mul(add(xhat[p], both(-mean)), both(rstd));
      }
    }
    // Missing columns must not bring the mean, which may be NaN, into any sum.
    if constexpr (!full) clear_missing<Tile>(xhat, extent);
    P g_sum, weighted;
#pragma unroll
    for (int p = 0; p < Tile::pairs; ++p) {
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
    }
    return {sum_of(g_sum), sum_of(weighted)};
  }

  /// dx = rstd * (g - mean(g) - xhat * mean(g * xhat)).
  template <bool full, typename Index>
  __device__ __forceinline__ void store_dx(const BackwardArguments& a, std::int64_t row,
                                           Index first, Extent extent, RowSums<C> total) {
    const C scale = -rstd * static_cast<C>(a.reciprocal_cols);
    const P constant = both(scale * total.g), slope = both(scale * total.g_xhat);
#pragma unroll
    for (int p = 0; p < Tile::pairs; ++p) {
      xhat[p] = multiply_add(xhat[p], slope, multiply_add(g[p], both(rstd), constant));
    }
    store_tile<Tile, full>(static_cast<TX*>(a.dx) + (row * a.dx_stride + first), xhat, extent);
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
  constexpr int pairs_per_piece = vector_bytes / static_cast<int>(sizeof(P));
  constexpr int pieces = Tile::pairs / pairs_per_piece;
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
    const Extent rows{extent.count, extent.complete, a.cols * sizeof(C) % vector_bytes == 0};
    store_tile<Tile, false>(out, dgamma, rows);
    store_tile<Tile, false>(out + a.partial_count * a.cols, dbeta, rows);
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

  __device__ __forceinline__ explicit BackwardShared(unsigned char* dynamic_shared) {
    uint4* next = reinterpret_cast<uint4*>(dynamic_shared);
    const int tile =
        Tile::elements * static_cast<int>(sizeof(C) / 4) * static_cast<int>(blockDim.x) / 4;
    beta.own = next + threadIdx.x;
    if (from_y) next += tile;
    gamma.own = next + threadIdx.x;
    if (keep_gamma) next += tile;
    sums = next;
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

  template <bool full, typename Row, typename Index>
  __device__ __forceinline__ RowSums<C> load_row(const BackwardArguments& a, Row& here,
                                                 std::int64_t row, Index first, Extent extent,
                                                 bool exists,
                                                 const typename Tile::Values& in_registers,
                                                 typename Tile::Values& dgamma,
                                                 typename Tile::Values& dbeta) const {
    const auto load = [&](auto columns, const auto& own_gamma) {
      return here.template load<full, columns.value>(a, row, first, extent, exists, own_gamma, beta,
                                                     dgamma, dbeta);
    };
    if constexpr (keep_gamma) {
      return a.partials ? load(std::true_type(), gamma) : load(std::false_type(), gamma);
    } else {
      return a.partials ? load(std::true_type(), in_registers)
                        : load(std::false_type(), in_registers);
    }
  }
};

/// `lanes` lanes a row. One block a multiprocessor: as few partial sums as there can be.
template <typename TX, typename TY, int lanes, int vectors, bool from_y>
__global__ void __launch_bounds__(wide_threads, 1) backward_narrow(BackwardArguments a) {
  // A whole warp gets as few vectors as the row needs: only the last can be incomplete.
  using T = Tile<TX, lanes, vectors, lanes == warp_lanes ? vectors - 1 : 0>;
  using C = typename T::C;
  extern __shared__ __align__(32) unsigned char dynamic_shared[];
  BackwardShared<T, from_y, !gamma_fits<T>> shared(dynamic_shared);
  const int lane = threadIdx.x % lanes, in_warp = threadIdx.x % warp_lanes / lanes;
  const int first = lane * T::vector;
  const Extent every = Extent::of<T>(a.cols, lane, a.vectorised != 0);
  typename T::Values gamma, dgamma, dbeta;
  shared.template load_parameters_of<TX>(a, gamma, first, every);
  fill(dgamma, both(C(0)));
  fill(dbeta, both(C(0)));

  constexpr int rows_per_warp = warp_lanes / lanes;
  constexpr int rows_per_block = wide_threads / lanes;
  const bool whole = a.vectorised && a.cols == T::cols;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * rows_per_block;
  const std::int64_t block_row = static_cast<std::int64_t>(blockIdx.x) * rows_per_block;
  std::int64_t row = block_row + threadIdx.x / lanes;
  int turns = static_cast<int>(divide_up(a.rows - block_row, step));
  BackwardRow<TX, TY, T, from_y> here;
  const auto work = [&](auto full, Extent extent, bool exists) {
    RowSums<C> total = shared.template load_row<full.value>(a, here, row, first, extent, exists,
                                                            gamma, dgamma, dbeta);
    if (!a.dx) return;
    lanes_sum_both<lanes>(total.g, total.g_xhat);
    here.template store_dx<full.value>(a, row, first, extent, total);
  };
  for (std::int64_t partial = blockIdx.x; turns > 0;
       turns -= rows_per_partial, partial += gridDim.x) {
    for (int turn = min(turns, rows_per_partial); turn > 0; --turn, row += step) {
      // A warp's lanes stay together: they look at the warp's last row, not at their own.
      if (whole && row + (rows_per_warp - 1 - in_warp) < a.rows) {
        work(std::true_type(), every, true);
      } else {
        const bool exists = row < a.rows;
        if (lanes == warp_lanes && !exists) break;  // for the whole warp
        work(std::false_type(),
             Extent{exists ? every.count : 0, exists && every.complete, every.vectorised}, exists);
      }
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
                      wide_threads / warp_lanes, threadIdx.x % warp_lanes, warp_lanes, first,
                      in_warp == 0 ? every : Extent{0, false, false});
  }
}

/// Adds up a row's sums over all its warps. One barrier a row: the slots of the next row are
/// others.
template <typename C, bool clustered>
__device__ __forceinline__ RowSums<C> share_and_sum(const BackwardArguments& a, RowSums<C>* slots,
                                                    RowSums<C> own, int segment, int lane,
                                                    int barrier, int threads) {
  lanes_sum_both<warp_lanes>(own.g, own.g_xhat);
  if constexpr (clustered) {
    if (segment < a.segments && lane < a.blocks_per_row) cluster_write(slots + segment, lane, own);
    cluster_barrier();
  } else {
    if (lane == 0) slots[segment] = own;
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
  }
  return sum_rows(slots, static_cast<int>(a.segments), lane);
}

/// Several warps, a group, a row; a segment a warp. A block has as many groups as it has room for.
/// clustered: a cluster of blocks a row instead, one group each.
template <typename TX, typename TY, int vectors, bool from_y, bool clustered, bool whole>
__global__ void __launch_bounds__(clustered                                   ? cluster_threads
                                  : gamma_fits<Tile<TX, warp_lanes, vectors>> ? wide_threads
                                                                              : stretched_threads,
                                  1) backward_wide(BackwardArguments a) {
  using T = Tile<TX, warp_lanes, vectors>;
  using C = typename T::C;
  // A group has at least few_segments slots, those beyond its segments zero, so that reading them
  // needs no question.
  __shared__ RowSums<C> slots[2][max_cluster_segments];
  extern __shared__ __align__(32) unsigned char dynamic_shared[];
  const int lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes;
  const int warps = clustered ? blockDim.x / warp_lanes : static_cast<int>(a.segments);
  const int groups = clustered ? 1 : blockDim.x / (warps * warp_lanes);
  const int group = clustered ? 0 : warp / warps;
  const int rank = clustered ? static_cast<int>(blockIdx.x % a.blocks_per_row) : 0;
  const int segment = rank * warps + warp - group * warps;
  const int first = segment * T::cols + lane * T::vector;  // such rows are short enough for an int
  const Extent extent = Extent::of<T>(a.cols - segment * T::cols, lane, a.vectorised != 0);
  // Rows that are not whole segments need more registers to find their way.
  BackwardShared<T, from_y, !whole || !gamma_fits<T>> shared(dynamic_shared);
  typename T::Values gamma, dgamma, dbeta;
  shared.template load_parameters_of<TX>(a, gamma, first, extent);
  fill(dgamma, both(C(0)));
  fill(dbeta, both(C(0)));

  for (int i = threadIdx.x; i < 2 * max_cluster_segments; i += blockDim.x) slots[0][i] = {0, 0};
  if constexpr (clustered)
    cluster_barrier();
  else
    __syncthreads();
  const int group_slots = group * (warps <= few_segments ? few_segments : warps);

  const unsigned clusters = clustered ? gridDim.x / a.blocks_per_row : gridDim.x;
  const unsigned cluster = clustered ? blockIdx.x / a.blocks_per_row : blockIdx.x;
  const unsigned step = clusters * groups;
  int turns =
      static_cast<int>(divide_up(a.rows - static_cast<std::int64_t>(cluster) * groups, step));
  std::int64_t row = static_cast<std::int64_t>(cluster) * groups + group;
  BackwardRow<TX, TY, T, from_y> here;
  for (std::int64_t partial = cluster; turns > 0; turns -= rows_per_partial, partial += clusters) {
    for (int turn = min(turns, rows_per_partial); turn > 0 && row < a.rows; --turn, row += step) {
      RowSums<C> total =
          shared.template load_row<whole>(a, here, row, first, extent, true, gamma, dgamma, dbeta);
      if (!a.dx) continue;
      total = share_and_sum<C, clustered>(a, &slots[turn & 1][group_slots], total, segment, lane,
                                          1 + group, warps * warp_lanes);
      here.template store_dx<whole>(a, row, first, extent, total);
    }
    if (a.partials) {
      leave_partials<T>(a, shared.sums, dgamma, dbeta, partial, group, groups,
                        (warp - group * warps) * warp_lanes + lane, warps * warp_lanes, first,
                        extent);
    }
  }
  // No block may leave while another still writes to its slots.
  if constexpr (clustered) cluster_barrier();
}

}  // namespace fusednorm::cuda
