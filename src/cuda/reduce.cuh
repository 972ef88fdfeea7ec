// Reductions over the lanes of a row and the merge of segments, each written once. Their order
// depends on the number of lanes and segments only.
#pragma once

#include "arithmetic.cuh"
#include "geometry.h"

namespace fusednorm::cuda {

inline constexpr unsigned every_lane = 0xffffffffu;

/// The sum over groups of `lanes` lanes, in every lane.
template <int lanes, typename C>
__device__ __forceinline__ C lanes_sum(C value) {
#pragma unroll
  for (int apart = lanes / 2; apart > 0; apart /= 2)
    value += __shfl_xor_sync(every_lane, value, apart);
  return value;
}

/// Two sums at once. After one exchange the lower half of the lanes works on `a` and the upper on
/// `b`: 14 instructions for 32 lanes where two sums take 20.
template <int lanes, typename C>
__device__ __forceinline__ void lanes_sum(C& a, C& b) {
  if constexpr (lanes < 8) {
    a = lanes_sum<lanes>(a);
    b = lanes_sum<lanes>(b);
  } else {
    constexpr int half = lanes / 2;
    const bool upper = (threadIdx.x & half) != 0;
    const C kept = upper ? b : a;
    const C given = upper ? a : b;
    const C sum = lanes_sum<half>(kept + __shfl_xor_sync(every_lane, given, half));
    a = __shfl_sync(every_lane, sum, 0, lanes);
    b = __shfl_sync(every_lane, sum, half, lanes);
  }
}

/// A segment's mean as centre + rest, not added up, and its sum of squared deviations.
template <typename C>
struct alignas(4 * sizeof(C)) Moments {
  C centre;
  C rest;
  C squares;
  C unused;

  /// Where an Inf made the centre infinite the rest is NaN, but the mean is the centre.
  __device__ __forceinline__ Moments settled() const {
    return {centre, rest == rest ? rest : C(0), squares, C(0)};
  }
};

/// A row's statistics, as one segment needs them: y = ((x - centre) * rstd + shift) * gamma + beta.
template <typename C>
struct RowStatistics {
  C mean;
  C rstd;
  C origin;  ///< the first segment's centre
  C offset;  ///< mean - origin

  __device__ __forceinline__ C shift(C centre) const { return ((centre - origin) - offset) * rstd; }
};

/// Merges segments: the mean from the first segment's centre on, then squares about that mean.
/// Every warp that calls it gets the same bits, whether `parts` is in shared or global memory.
template <typename C>
__device__ __forceinline__ RowStatistics<C> merge_moments(const Moments<C>* parts, int segments,
                                                          int segment_cols, std::int64_t cols,
                                                          C reciprocal_cols, C eps, int lane) {
  // From an infinite origin no distance could be told.
  const C origin = isfinite(parts[0].centre) ? parts[0].centre : C(0);
  const int last = segments - 1;
  const C whole = static_cast<C>(segment_cols);
  const C short_of_whole = static_cast<C>(cols - static_cast<std::int64_t>(last) * segment_cols);
  C offset = 0;
  for (int s = lane; s < segments; s += warp_lanes) {
    const C weight = s == last ? short_of_whole : whole;
    offset += weight * ((parts[s].centre - origin) + parts[s].rest);
  }
  offset = lanes_sum<warp_lanes>(offset) * reciprocal_cols;
  C squares = 0;
  for (int s = lane; s < segments; s += warp_lanes) {
    const C weight = s == last ? short_of_whole : whole;
    const C apart = ((parts[s].centre - origin) + parts[s].rest) - offset;
    squares += parts[s].squares + weight * apart * apart;
  }
  squares = lanes_sum<warp_lanes>(squares);
  return {origin + offset, reciprocal_root(squares * reciprocal_cols + eps), origin, offset};
}

}  // namespace fusednorm::cuda
