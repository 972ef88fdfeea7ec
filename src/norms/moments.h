// SPDX-License-Identifier: Apache-2.0
// What every norm shares: the moments of a row or of a part of it, and their way to rstd.
#pragma once

#include <cmath>

#include "host_device.h"

namespace fusednorm::norms {

/// The mean of some elements and the sum of their squared deviations from it.
template <typename T>
struct Moments {
  T mean;
  T squares;
};

/// The sums that backward takes of a row: of g = dy * gamma, and of g * xhat.
template <typename T>
struct GradientSums {
  T g;
  T g_xhat;
};

/// dx = rstd * g + constant + slope * xhat.
template <typename T>
struct GradientFactors {
  T constant;
  T slope;
};

/// Chan's merge: `all` of `before` elements grows by `part` to `total` elements.
template <typename T>
FUSEDNORM_HOST_DEVICE constexpr void merge(Moments<T>& all, T before, Moments<T> part, T total) {
  if (all.mean - all.mean != 0) {
    all.mean += part.mean;  // an infinite mean stays, or becomes NaN; the squares are NaN already
    return;
  }
  const T delta = part.mean - all.mean;
  const T share = (total - before) / total;
  all.mean += delta * share;
  all.squares += part.squares + delta * delta * before * share;
}

/// Rounding may leave a sum of squares just below zero; NaN stays.
template <typename T>
FUSEDNORM_HOST_DEVICE constexpr T variance_of(T squares, T inverse_count) {
  return squares < 0 ? T(0) : squares * inverse_count;
}

template <typename T>
FUSEDNORM_HOST_DEVICE inline T rstd_of(T variance, T eps) {
  return T(1) / std::sqrt(variance + eps);
}

}  // namespace fusednorm::norms
