// SPDX-License-Identifier: Apache-2.0
// Arithmetic on pairs, so that sm_100 issues two f32 operations at once (sm_120 has no such
// instructions: ptxas takes them apart). The order of operations is the same on all architectures.
#pragma once

#include <cuda_runtime.h>

namespace fusednorm::cuda {

template <typename C>
struct PairOf;
template <>
struct PairOf<float> {
  using type = float2;
};
template <>
struct PairOf<double> {
  using type = double2;
};
template <typename C>
using Pair = typename PairOf<C>::type;

__device__ __forceinline__ float2 both(float v) {
  return make_float2(v, v);
}
__device__ __forceinline__ double2 both(double v) {
  return make_double2(v, v);
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
__device__ __forceinline__ float2 add(float2 a, float2 b) {
  return __fadd2_rn(a, b);
}
__device__ __forceinline__ float2 mul(float2 a, float2 b) {
  return __fmul2_rn(a, b);
}
__device__ __forceinline__ float2 multiply_add(float2 a, float2 b, float2 c) {
  return __ffma2_rn(a, b, c);
}
#else
__device__ __forceinline__ float2 add(float2 a, float2 b) {
  return make_float2(__fadd_rn(a.x, b.x), __fadd_rn(a.y, b.y));
}
__device__ __forceinline__ float2 mul(float2 a, float2 b) {
  return make_float2(__fmul_rn(a.x, b.x), __fmul_rn(a.y, b.y));
}
__device__ __forceinline__ float2 multiply_add(float2 a, float2 b, float2 c) {
  return make_float2(__fmaf_rn(a.x, b.x, c.x), __fmaf_rn(a.y, b.y, c.y));
}
#endif
__device__ __forceinline__ double2 add(double2 a, double2 b) {
  return make_double2(__dadd_rn(a.x, b.x), __dadd_rn(a.y, b.y));
}
__device__ __forceinline__ double2 mul(double2 a, double2 b) {
  return make_double2(__dmul_rn(a.x, b.x), __dmul_rn(a.y, b.y));
}
__device__ __forceinline__ double2 multiply_add(double2 a, double2 b, double2 c) {
  return make_double2(__fma_rn(a.x, b.x, c.x), __fma_rn(a.y, b.y, c.y));
}

template <typename P>
__device__ __forceinline__ auto sum_of(P pair) {
  return pair.x + pair.y;
}

template <typename P, int count>
__device__ __forceinline__ void fill(P (&array)[count], P value) {
#pragma unroll
  for (int i = 0; i < count; ++i) array[i] = value;
}

/// 1 / sqrt(v) within an ulp: the hardware's estimate and one Newton step, which must not touch the
/// estimates of 0 (infinity) and infinity (0).
__device__ __forceinline__ float reciprocal_root(float v) {
  const float estimate = rsqrtf(v);
  const float error = __fmaf_rn(-v * estimate, estimate, 1.0f);
  return fabsf(error) < 1.0f ? __fmaf_rn(0.5f * estimate, error, estimate) : estimate;
}
__device__ __forceinline__ double reciprocal_root(double v) {
  return 1.0 / sqrt(v);
}

}  // namespace fusednorm::cuda
