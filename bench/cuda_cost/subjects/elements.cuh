// SPDX-License-Identifier: Apache-2.0
// Vectors of elements, and sums over a warp.
#pragma once

#include <cuda_bf16.h>

namespace fusednorm::cost {

template <class T, int count>
struct alignas(sizeof(T) * count) Vector {
  T values[count];
};

template <class T>
__device__ float widen(T value) {
  return static_cast<float>(value);
}

__device__ inline float sum_over_warp(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

/// Sum over a block of `warps` warps; `parts` holds as many floats.
template <int warps>
__device__ float sum_over_block(float value, float* parts) {
  value = sum_over_warp(value);
  if (warps == 1) return value;
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  float total = 0;
#pragma unroll
  for (int k = 0; k < warps; ++k) total += parts[k];
  return total;
}

}  // namespace fusednorm::cost
