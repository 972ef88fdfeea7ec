// The small reductions around the backward kernels: a row's sums from its segments, and dgamma and
// dbeta from the partial sums that blocks left.
#pragma once

#include "elements.cuh"
#include "kernel_sizes.h"
#include "reduce.cuh"

namespace fusednorm::cuda {

/// The sum of `segments` pairs, a lane taking every 32nd: the same order wherever they lie.
template <typename Sums>
__device__ __forceinline__ Sums sum_rows(const Sums* parts, std::int64_t segments, int lane) {
  Sums total{0, 0};
  for (std::int64_t s = lane; s < segments; s += warp_lanes) {
    total.g += parts[s].g;
    total.g_xhat += parts[s].g_xhat;
  }
  lanes_sum<warp_lanes>(total.g, total.g_xhat);
  return total;
}

/// A block takes 32 columns at a time: each warp adds every 8th partial, neighbouring lanes
/// neighbouring columns, then one warp adds the warps' sums. Every thread of the block calls it.
template <typename TP, typename C>
__device__ __forceinline__ void sum_columns(const ColumnArguments& a, std::int64_t block,
                                            std::int64_t blocks) {
  __shared__ C shared[2][column_warps][warp_lanes];
  const int lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes;
  for (; block * warp_lanes < a.cols; block += blocks) {
    const std::int64_t column = block * warp_lanes + lane;
    C dgamma = 0, dbeta = 0;
    if (column < a.cols) {
      const C* partials = static_cast<const C*>(a.partials) + column;
      for (std::int64_t p = warp; p < a.partial_count; p += column_warps) {
        dgamma += partials[p * a.cols];
        dbeta += partials[(a.partial_count + p) * a.cols];
      }
    }
    shared[0][warp][lane] = dgamma;
    shared[1][warp][lane] = dbeta;
    __syncthreads();
    if (warp == 0 && column < a.cols) {
#pragma unroll
      for (int w = 1; w < column_warps; ++w) {
        dgamma += shared[0][w][lane];
        dbeta += shared[1][w][lane];
      }
      if (a.dgamma) static_cast<TP*>(a.dgamma)[column] = from_compute<TP>(dgamma);
      if (a.dbeta) static_cast<TP*>(a.dbeta)[column] = from_compute<TP>(dbeta);
    }
    __syncthreads();
  }
}

template <typename TP, typename C>
__global__ void __launch_bounds__(column_threads, 1) backward_columns(ColumnArguments a) {
  sum_columns<TP, C>(a, blockIdx.x, gridDim.x);
}

}  // namespace fusednorm::cuda
