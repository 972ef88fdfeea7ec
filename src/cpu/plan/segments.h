// SPDX-License-Identifier: Apache-2.0
// How a row is cut for its reductions: a function of cols and dtype alone, so that a row's bits do
// not depend on how work is divided among threads.
#pragma once

#include <cstdint>

#include "fusednorm/dtype.h"

namespace fusednorm::cpu {

/// A segment stays in a 32 KiB L1 between its two passes: 16 KiB of f32 or f64.
constexpr std::int64_t max_segment(DType compute) {
  return compute == DType::f64 ? 2048 : 4096;
}

/// Segments start at multiples of this, so that only a row's last vector can be partial.
inline constexpr std::int64_t segment_granule = 64;

struct Segments {
  std::int64_t cols = 0;
  std::int64_t length = 0;
  std::int64_t count = 0;

  constexpr std::int64_t begin(std::int64_t segment) const { return segment * length; }
  constexpr std::int64_t end(std::int64_t segment) const {
    const std::int64_t next = (segment + 1) * length;
    return next < cols ? next : cols;
  }
};

constexpr Segments segments_of(std::int64_t cols, DType x_dtype) {
  const std::int64_t longest = max_segment(compute_dtype(x_dtype));
  if (cols <= longest) return {cols, cols, cols > 0 ? 1 : 0};
  // Even parts: 4097 columns become 2112 + 1985, not 4096 + 1.
  const std::int64_t parts = (cols - 1) / longest + 1;
  const std::int64_t even = (cols - 1) / parts + 1;
  const std::int64_t length = (even - 1) / segment_granule * segment_granule + segment_granule;
  return {cols, length, (cols - 1) / length + 1};
}

/// How many of a segment's first elements give its centre: an eighth. If their mean is off the mean
/// of all by d, the variance is at least d * d / 7, so centring with it costs the sum of squares
/// three bits at worst, and next to nothing where elements do not depend on where they are.
constexpr std::int64_t sample_length(std::int64_t n) {
  if (n <= segment_granule) return n;
  const std::int64_t eighth = n / 8 / segment_granule * segment_granule;
  return eighth > segment_granule ? eighth : segment_granule;
}

}  // namespace fusednorm::cpu
