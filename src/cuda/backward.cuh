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
  template <bool full, bool want_columns, typename Index, typename Beta>
  __device__ __forceinline__ RowSums<C> load(const BackwardArguments& a, std::int64_t row,
                                             Index first, Extent extent, bool exists,
                                             const typename Tile::Values& gamma, const Beta& beta,
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
    if constexpr (!full) clear_missing<Tile>(xhat, extent.count);
    P g_sum, weighted;
#pragma unroll
    for (int p = 0; p < Tile::pairs; ++p) {
      const P dy = g[p];
      g[p] = mul(dy, gamma[p]);
      g_sum = p == 0 ? g[p] : add(g_sum, g[p]);
      // y - beta holds gamma already.
      const P factor = from_y ? dy : g[p];
      weighted = p == 0 ? mul(factor, xhat[p]) : multiply_add(factor, xhat[p], weighted);
      if constexpr (from_y) xhat[p] = mul(xhat[p], reciprocal(gamma[p]));
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

/// The column sums that a block's groups of threads hold, added up in the order of the groups and
/// written as one row of partials; then cleared. Every thread of the block calls it.
template <typename Tile, typename Index>
__device__ __forceinline__ void leave_partials(const BackwardArguments& a, typename Tile::C* shared,
                                               int shared_cols, typename Tile::Values& dgamma,
                                               typename Tile::Values& dbeta, std::int64_t partial,
                                               int group, int groups, int column_in_block,
                                               Index first, Extent extent, bool speaks) {
  using C = typename Tile::C;
  using P = Pair<C>;
  C* out_dgamma = static_cast<C*>(a.partials) + partial * a.cols + first;
  C* out_dbeta = out_dgamma + a.partial_count * a.cols;
  for (int turn = 0; turn < groups; ++turn) {
    if (speaks && group == turn) {
#pragma unroll
      for (int p = 0; p < Tile::pairs; ++p) {
        P* shared_dgamma = reinterpret_cast<P*>(shared + column_in_block + Tile::column(p));
        P* shared_dbeta =
            reinterpret_cast<P*>(shared + shared_cols + column_in_block + Tile::column(p));
        if (turn > 0) {
          dgamma[p] = add(*shared_dgamma, dgamma[p]);
          dbeta[p] = add(*shared_dbeta, dbeta[p]);
        }
        if (turn < groups - 1) {
          *shared_dgamma = dgamma[p];
          *shared_dbeta = dbeta[p];
        } else {
          if (Tile::column(p) < extent.count) out_dgamma[Tile::column(p)] = dgamma[p].x;
          if (Tile::column(p) + 1 < extent.count) out_dgamma[Tile::column(p) + 1] = dgamma[p].y;
          if (Tile::column(p) < extent.count) out_dbeta[Tile::column(p)] = dbeta[p].x;
          if (Tile::column(p) + 1 < extent.count) out_dbeta[Tile::column(p) + 1] = dbeta[p].y;
        }
      }
    }
    if (groups > 1) __syncthreads();
  }
  fill(dgamma, both(C(0)));
  fill(dbeta, both(C(0)));
}

/// `lanes` lanes a row. One block a multiprocessor: as few partial sums as there can be.
template <typename TX, typename TY, int lanes, int vectors, bool from_y>
__global__ void __launch_bounds__(wide_threads, 1) backward_narrow(BackwardArguments a) {
  using T = Tile<TX, lanes, vectors>;
  using C = typename T::C;
  __shared__ alignas(16) C shared[2 * T::cols];
  extern __shared__ __align__(32) unsigned char dynamic_shared[];
  const Kept<T> beta{reinterpret_cast<uint4*>(dynamic_shared) + threadIdx.x};
  const int lane = threadIdx.x % lanes, in_warp = threadIdx.x % warp_lanes / lanes;
  const int first = lane * T::vector;
  const Extent every = Extent::of<T>(a.cols, lane, a.vectorised != 0);
  typename T::Values gamma, dgamma, dbeta;
  if constexpr (from_y) {
    load_parameters<T, TX>(gamma, a.beta, a.beta_kind, first, every.count, C(0));
    beta.store(gamma);
  }
  load_parameters<T, TX>(gamma, a.gamma, a.gamma_kind, first, every.count, C(1));
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
    RowSums<C> total;
    if (a.partials) {
      total = here.template load<full.value, true>(a, row, first, extent, exists, gamma, beta,
                                                   dgamma, dbeta);
    } else {
      total = here.template load<full.value, false>(a, row, first, extent, exists, gamma, beta,
                                                    dgamma, dbeta);
    }
    if (!a.dx) return;
    lanes_sum<lanes>(total.g, total.g_xhat);
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
        work(std::false_type(), Extent{exists ? every.count : 0, every.vectorised}, exists);
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
    leave_partials<T>(a, shared, T::cols, dgamma, dbeta, partial, threadIdx.x / warp_lanes,
                      wide_threads / warp_lanes, first, first, every, in_warp == 0);
  }
}

/// Adds up a row's sums over all its warps. One barrier a row: the slots of the next row are
/// others.
template <typename C, bool clustered>
__device__ __forceinline__ RowSums<C> share_and_sum(const BackwardArguments& a, RowSums<C>* slots,
                                                    RowSums<C> own, int segment, int lane,
                                                    int barrier, int threads) {
  lanes_sum<warp_lanes>(own.g, own.g_xhat);
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
__global__ void __launch_bounds__(clustered ? cluster_threads : wide_threads, 1)
    backward_wide(BackwardArguments a) {
  using T = Tile<TX, warp_lanes, vectors>;
  using C = typename T::C;
  __shared__ RowSums<C> slots[2][clustered ? max_cluster_segments : max_block_segments];
  extern __shared__ __align__(32) unsigned char dynamic_shared[];
  const int lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes;
  const int warps = clustered ? blockDim.x / warp_lanes : static_cast<int>(a.segments);
  const int groups = clustered ? 1 : blockDim.x / (warps * warp_lanes);
  const int group = clustered ? 0 : warp / warps;
  const int rank = clustered ? static_cast<int>(blockIdx.x % a.blocks_per_row) : 0;
  const int segment = rank * warps + warp - group * warps;
  const int column_in_block = (warp - group * warps) * T::cols + lane * T::vector;
  const int first = segment * T::cols + lane * T::vector;  // such rows are short enough for an int
  const Extent extent = Extent::of<T>(a.cols - segment * T::cols, lane, a.vectorised != 0);
  // beta first, then room for the groups' sums.
  const Kept<T> beta{reinterpret_cast<uint4*>(dynamic_shared) + threadIdx.x};
  C* shared =
      reinterpret_cast<C*>(dynamic_shared + (from_y ? Kept<T>::bytes_per_thread * blockDim.x : 0));
  typename T::Values gamma, dgamma, dbeta;
  if constexpr (from_y) {
    load_parameters<T, TX>(gamma, a.beta, a.beta_kind, first, extent.count, C(0));
    beta.store(gamma);
  }
  load_parameters<T, TX>(gamma, a.gamma, a.gamma_kind, first, extent.count, C(1));
  fill(dgamma, both(C(0)));
  fill(dbeta, both(C(0)));

  const std::int64_t clusters = gridDim.x / a.blocks_per_row,
                     cluster = blockIdx.x / a.blocks_per_row;
  const std::int64_t step = clusters * groups;
  int turns = static_cast<int>(divide_up(a.rows - cluster * groups, step));
  std::int64_t row = cluster * groups + group;
  BackwardRow<TX, TY, T, from_y> here;
  for (std::int64_t partial = cluster; turns > 0; turns -= rows_per_partial, partial += clusters) {
    for (int turn = min(turns, rows_per_partial); turn > 0 && row < a.rows; --turn, row += step) {
      RowSums<C> total;
      if (a.partials) {
        total = here.template load<whole, true>(a, row, first, extent, true, gamma, beta, dgamma,
                                                dbeta);
      } else {
        total = here.template load<whole, false>(a, row, first, extent, true, gamma, beta, dgamma,
                                                 dbeta);
      }
      if (!a.dx) continue;
      total = share_and_sum<C, clustered>(a, &slots[turn & 1][group * warps], total, segment, lane,
                                          1 + group, warps * warp_lanes);
      here.template store_dx<whole>(a, row, first, extent, total);
    }
    if (a.partials) {
      leave_partials<T>(a, shared, warps * T::cols, dgamma, dbeta, partial, group, groups,
                        column_in_block, first, extent, true);
    }
  }
  // No block may leave while another still writes to its slots.
  if constexpr (clustered) cluster_barrier();
}

}  // namespace fusednorm::cuda
