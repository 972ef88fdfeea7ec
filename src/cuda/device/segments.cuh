// SPDX-License-Identifier: Apache-2.0
// The merge of a row's segments, each the work of a warp. Its order depends on the number of
// segments only.
#pragma once

#include "device/warp_sums.cuh"
#include "norms/moments.h"

namespace fusednorm::cuda {

/// A segment's mean as centre + rest, not added up, and its sum of squared deviations.
template <typename C>
struct alignas(4 * sizeof(C)) SegmentMoments {
  C centre;
  C rest;
  C squares;
  C unused;
};

/// A row's statistics, as one segment needs them: y = ((x - centre) * rstd + shift) * gamma + beta.
template <typename C>
struct RowStatistics {
  C mean;
  C rstd;
  C origin;  ///< the first segment's centre
  C offset;  ///< mean - origin

  /// `centred`: whether the norm has a mean; 0 times an infinite rstd would be NaN otherwise.
  __device__ __forceinline__ C shift(C centre, bool centred) const {
    return centred ? ((centre - origin) - offset) * rstd : C(0);
  }
};

/// Rows of up to this many segments are summed by as many lanes, of up to half as many by half of
/// them; every such group of lanes does the same work. The sums of both are the same bits.
inline constexpr int few_segments = 8;

/// body(part) for the parts of `segments` that this lane takes, then the sum over lanes.
template <int lanes, typename C, typename Body>
__device__ __forceinline__ C sum_over_segments(int segments, int lane, const Body& body) {
  C sum = 0;
  if constexpr (lanes <= few_segments) {
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
__device__ __forceinline__ RowStatistics<C> merge_with(const SegmentMoments<C>* parts, int segments,
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
  return {origin + offset, reciprocal_root(norms::variance_of(squares, reciprocal_cols) + eps),
          origin, offset};
}

template <typename C, typename Cols>
__device__ __forceinline__ RowStatistics<C> merge_moments(const SegmentMoments<C>* parts,
                                                          int segments, const Cols& cols_of,
                                                          C reciprocal_cols, C eps, int lane) {
  if (segments <= few_segments / 2)
    return merge_with<few_segments / 2>(parts, segments, cols_of, reciprocal_cols, eps, lane);
  if (segments <= few_segments)
    return merge_with<few_segments>(parts, segments, cols_of, reciprocal_cols, eps, lane);
  return merge_with<warp_lanes>(parts, segments, cols_of, reciprocal_cols, eps, lane);
}

}  // namespace fusednorm::cuda
