// Reductions over the lanes of a row and the merge of segments, each written once. Their order
// depends on the number of lanes and segments only.
#pragma once

#include "arithmetic.cuh"
#include "geometry.h"

namespace fusednorm::cuda {

inline constexpr unsigned every_lane = 0xffffffffu;

/// The lanes of this thread's group. Groups of one warp may part ways, so each synchronises by
/// itself.
template <int lanes>
__device__ __forceinline__ unsigned group_mask() {
  if constexpr (lanes == warp_lanes)
    return every_lane;
  else
    return ((1u << lanes) - 1u) << (threadIdx.x & (warp_lanes - lanes));
}

/// The sum over groups of `lanes` lanes, in every lane.
template <int lanes, typename C>
__device__ __forceinline__ C lanes_sum(C value, unsigned mask = group_mask<lanes>()) {
#pragma unroll
  for (int apart = lanes / 2; apart > 0; apart /= 2) value += __shfl_xor_sync(mask, value, apart);
  return value;
}

/// Two sums at once: after one exchange the lower half of the lanes works on `a`, and ends with its
/// sum, and the upper half on `b`.
template <int lanes, typename C>
__device__ __forceinline__ C lanes_sum_halves(C a, C b, bool upper,
                                              unsigned mask = group_mask<lanes>()) {
  constexpr int half = lanes / 2;
  const C kept = upper ? b : a;
  const C given = upper ? a : b;
  return lanes_sum<half>(kept + __shfl_xor_sync(mask, given, half), mask);
}

/// Both sums in every lane: 14 instructions for 32 lanes where two sums take 20.
template <int lanes, typename C>
__device__ __forceinline__ void lanes_sum_both(C& a, C& b, unsigned mask = group_mask<lanes>()) {
  if constexpr (lanes < 8) {
    a = lanes_sum<lanes>(a, mask);
    b = lanes_sum<lanes>(b, mask);
  } else {
    const C sum = lanes_sum_halves<lanes>(a, b, (threadIdx.x & lanes / 2) != 0, mask);
    a = __shfl_sync(mask, sum, 0, lanes);
    b = __shfl_sync(mask, sum, lanes / 2, lanes);
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
    return {centre, isinf(centre) ? C(0) : rest, squares, C(0)};
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

/// Rows of up to this many segments are summed by as many lanes; every group of 8 lanes does the
/// same work.
inline constexpr int few_segments = 8;

/// body(part) for the parts of `segments` that this lane takes, then the sum over lanes.
template <int lanes, typename C, typename Body>
__device__ __forceinline__ C sum_over_segments(int segments, int lane, const Body& body) {
  C sum = 0;
  if constexpr (lanes == few_segments) {
    if (lane % lanes < segments) sum = body(lane % lanes);
  } else {
#pragma unroll 1
    for (int s = lane; s < segments; s += lanes) sum += body(s);
  }
  return lanes_sum<lanes>(sum, every_lane);
}

/// Columns of segment s: as many as are left of `cols` after s times `most`, but no more than
/// `most`, and `base` besides.
template <typename Index>
struct SegmentCols {
  int base;
  int most;
  Index cols;

  __device__ __forceinline__ int operator()(Index s) const {
    const Index left = cols - s * most;
    return base + static_cast<int>(left < 0 ? Index(0) : left < most ? left : Index(most));
  }
};

/// Merges segments: the mean from the first segment's centre on, then squares about that mean.
/// Every warp that calls it gets the same bits, whether `parts` is in shared or global memory.
/// cols_of(s): how many columns segment s has.
template <int lanes, typename C, typename Cols>
__device__ __forceinline__ RowStatistics<C> merge_with(const Moments<C>* parts, int segments,
                                                       const Cols& cols_of, C reciprocal_cols,
                                                       C eps, int lane) {
  // From an infinite origin no distance could be told.
  const C first = parts[0].centre;
  const C origin = isfinite(first) ? first : C(0);
  const auto weight = [&](int s) { return static_cast<C>(cols_of(s)); };
  const C offset = reciprocal_cols * sum_over_segments<lanes, C>(segments, lane, [&](int s) {
                     return weight(s) * ((parts[s].centre - origin) + parts[s].rest);
                   });
  const C squares = sum_over_segments<lanes, C>(segments, lane, [&](int s) {
    const C apart = ((parts[s].centre - origin) + parts[s].rest) - offset;
    return parts[s].squares + weight(s) * apart * apart;
  });
  return {origin + offset, reciprocal_root(squares * reciprocal_cols + eps), origin, offset};
}

template <typename C, typename Cols>
__device__ __forceinline__ RowStatistics<C> merge_moments(const Moments<C>* parts, int segments,
                                                          const Cols& cols_of, C reciprocal_cols,
                                                          C eps, int lane) {
  if (segments <= few_segments)
    return merge_with<few_segments>(parts, segments, cols_of, reciprocal_cols, eps, lane);
  return merge_with<warp_lanes>(parts, segments, cols_of, reciprocal_cols, eps, lane);
}

}  // namespace fusednorm::cuda
