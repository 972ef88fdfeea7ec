// SPDX-License-Identifier: Apache-2.0
// Sums over the lanes of a warp or of a part of one. Their order depends on the number of lanes
// only.
#pragma once

#include "device/arithmetic.cuh"
#include "plan/geometry.h"

namespace fusednorm::cuda {

inline constexpr unsigned every_lane = 0xffffffffu;

/// The sum over groups of `lanes` lanes, in every lane of `mask`.
template <int lanes, typename C>
__device__ __forceinline__ C lanes_sum(C value, unsigned mask) {
#pragma unroll
  for (int apart = lanes / 2; apart > 0; apart /= 2) value += __shfl_xor_sync(mask, value, apart);
  return value;
}

/// Two sums at once: after one exchange the lower half of the lanes works on `a`, and ends with its
/// sum, and the upper half on `b`.
template <int lanes, typename C>
__device__ __forceinline__ C lanes_sum_halves(C a, C b, bool upper, unsigned mask) {
  constexpr int half = lanes / 2;
  const C kept = upper ? b : a;
  const C given = upper ? a : b;
  return lanes_sum<half>(kept + __shfl_xor_sync(mask, given, half), mask);
}

/// The lanes that share a row: `lanes_` of them or, where that is 0, a power of two that is known
/// at run time. Groups of one warp may part ways, so each synchronises by itself.
template <int lanes_>
struct RowLanes {
  static constexpr int count = lanes_;

  __device__ __forceinline__ explicit RowLanes(int) {}
  __device__ __forceinline__ int lane() const { return threadIdx.x % lanes_; }
  /// Which of the rows that the block, or a warp, works on at once is this lane's.
  __device__ __forceinline__ int row_in_block() const { return threadIdx.x / lanes_; }
  __device__ __forceinline__ int row_in_warp() const { return threadIdx.x % warp_lanes / lanes_; }
  __device__ __forceinline__ int rows_per_warp() const { return warp_lanes / lanes_; }
  __device__ __forceinline__ unsigned mask() const {
    if constexpr (lanes_ == warp_lanes)
      return every_lane;
    else
      return ((1u << lanes_) - 1u) << (threadIdx.x & (warp_lanes - lanes_));
  }

  /// The first lane's value.
  template <typename C>
  __device__ __forceinline__ C of_first(C value) const {
    return __shfl_sync(mask(), value, 0, lanes_);
  }
  /// The sum in every lane; the same bits as one of sum_both.
  template <typename C>
  __device__ __forceinline__ C sum(C value) const {
    return lanes_sum<lanes_>(value, mask());
  }
  /// Both sums in every lane: 14 instructions for 32 lanes where two sums take 20.
  template <typename C>
  __device__ __forceinline__ void sum_both(C& a, C& b) const {
    const C sum = lanes_sum_halves<lanes_>(a, b, (threadIdx.x & lanes_ / 2) != 0, mask());
    a = __shfl_sync(mask(), sum, 0, lanes_);
    b = __shfl_sync(mask(), sum, lanes_ / 2, lanes_);
  }
};

template <>
struct RowLanes<0> {
  int count;
  int log2;

  __device__ __forceinline__ explicit RowLanes(int lanes_log2)
      : count(1 << lanes_log2), log2(lanes_log2) {}
  __device__ __forceinline__ int lane() const { return threadIdx.x & (count - 1); }
  __device__ __forceinline__ int row_in_block() const { return threadIdx.x >> log2; }
  __device__ __forceinline__ int row_in_warp() const { return threadIdx.x % warp_lanes >> log2; }
  __device__ __forceinline__ int rows_per_warp() const { return warp_lanes >> log2; }
  __device__ __forceinline__ unsigned mask() const {
    return ((1u << count) - 1u) << (threadIdx.x & (warp_lanes - count));
  }

  template <typename C>
  __device__ __forceinline__ C of_first(C value) const {
    return __shfl_sync(mask(), value, 0, count);
  }
  template <typename C>
  __device__ __forceinline__ C sum(C value) const {
    const unsigned together = mask();
#pragma unroll 1
    for (int apart = count / 2; apart > 0; apart /= 2)
      value += __shfl_xor_sync(together, value, apart);
    return value;
  }
  template <typename C>
  __device__ __forceinline__ void sum_both(C& a, C& b) const {
    const unsigned together = mask();
#pragma unroll 1
    for (int apart = count / 2; apart > 0; apart /= 2) {
      a += __shfl_xor_sync(together, a, apart);
      b += __shfl_xor_sync(together, b, apart);
    }
  }
};

}  // namespace fusednorm::cuda
