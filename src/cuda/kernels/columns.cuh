// SPDX-License-Identifier: Apache-2.0
// dgamma and dbeta from the partial sums that blocks left: the last launch of a backward pass.
#pragma once

#include "device/arguments.h"
#include "device/dependent_launch.cuh"
#include "device/elements.cuh"
#include "plan/sizes.h"

namespace fusednorm::cuda {

/// A number, loaded where this stands: else nvcc puts each load before its use, and only ptxas may
/// bring them together again.
__device__ __forceinline__ float load_here(const float* at) {
  float value;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(__cvta_generic_to_global(at)));
  return value;
}
__device__ __forceinline__ double load_here(const double* at) {
  double value;
  asm volatile("ld.global.f64 %0, [%1];" : "=d"(value) : "l"(__cvta_generic_to_global(at)));
  return value;
}

/// Adds `count` numbers of each gradient, `step` apart. All loads of a batch are issued before the
/// first is used: past the end the last number is loaded again and left out.
template <typename C>
__device__ __forceinline__ void add_partials(C& dgamma, C& dbeta, const C* at, int count,
                                             std::int64_t step, std::int64_t to_dbeta) {
#pragma unroll 1
  for (int left = count; left > 0; left -= column_batch) {
    C gammas[column_batch], betas[column_batch];
#pragma unroll
    for (int j = 0; j < column_batch; ++j) {
      gammas[j] = load_here(at);
      betas[j] = load_here(at + to_dbeta);
      if (j + 1 < left) at += step;
    }
#pragma unroll
    for (int j = 0; j < column_batch; ++j) {
      dgamma += j < left ? gammas[j] : C(0);
      dbeta += j < left ? betas[j] : C(0);
    }
  }
}

/// A block takes 32 columns of a group at a time: each of its warps adds every warps-th partial,
/// neighbouring lanes neighbouring columns, then one warp adds the warps' sums. Every thread of the
/// block calls it.
template <typename C>
__device__ __forceinline__ void sum_columns(const ColumnArguments& a, std::int64_t block,
                                            std::int64_t blocks) {
  __shared__ C shared[2][column_warps][warp_lanes];
  const int lane = threadIdx.x % warp_lanes, warp = threadIdx.x / warp_lanes,
            warps = blockDim.x / warp_lanes;
  const std::int64_t strips = divide_up(a.cols, warp_lanes);
  for (; block < strips * a.groups; block += blocks) {
    const std::int64_t group = a.groups == 1 ? 0 : block / strips;
    const std::int64_t column = (block - group * strips) * warp_lanes + lane;
    C dgamma = 0, dbeta = 0;
    if (column < a.cols) {
      const int count = static_cast<int>(a.partial_count);
      add_partials(dgamma, dbeta,
                   static_cast<const C*>(a.partials) + ((group * count + warp) * a.cols + column),
                   (count - warp + warps - 1) / warps, warps * a.cols, a.groups * count * a.cols);
    }
    if (warps > 1) {
      shared[0][warp][lane] = dgamma;
      shared[1][warp][lane] = dbeta;
      __syncthreads();
      for (int w = 1; warp == 0 && w < warps; ++w) {
        dgamma += shared[0][w][lane];
        dbeta += shared[1][w][lane];
      }
    }
    if (warp == 0 && column < a.cols) {
      if (a.dgamma) store_as(a.dgamma, group * a.cols + column, dgamma, a.dtype);
      if (a.dbeta) store_as(a.dbeta, group * a.cols + column, dbeta, a.dtype);
    }
    if (warps > 1) __syncthreads();
  }
}

template <typename C>
__global__ void __launch_bounds__(column_threads, 1)
    backward_columns(const __grid_constant__ ColumnArguments a) {
  wait_for_launch_before();
  sum_columns<C>(a, blockIdx.x, gridDim.x);
}

}  // namespace fusednorm::cuda
