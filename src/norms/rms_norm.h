// SPDX-License-Identifier: Apache-2.0
// RMSNorm between a row's sums and its two passes: LayerNorm with a mean of zero and without
// mean(g).
//
//   forward    variance = mean(x^2)
//   backward   dx = rstd * (g - xhat * mean(g * xhat))
#pragma once

#include "norms/moments.h"

namespace fusednorm::norms::rms_norm {

/// From the sum of x^2: the centre of a row's sums is zero.
template <typename T>
FUSEDNORM_HOST_DEVICE constexpr Moments<T> moments(T squares) {
  return {T(0), squares};
}

template <typename T>
FUSEDNORM_HOST_DEVICE constexpr GradientFactors<T> gradient_factors(GradientSums<T> sums, T rstd,
                                                                    T inverse_count) {
  return {T(0), -rstd * inverse_count * sums.g_xhat};
}

}  // namespace fusednorm::norms::rms_norm
