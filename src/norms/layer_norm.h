// SPDX-License-Identifier: Apache-2.0
// LayerNorm between a row's sums and its two passes.
//
//   forward    mean = mean(x), variance = mean((x - mean)^2)
//   backward   dx = rstd * (g - mean(g) - xhat * mean(g * xhat))
#pragma once

#include "norms/moments.h"

namespace fusednorm::norms::layer_norm {

/// From the sum of x - centre.
template <typename T>
FUSEDNORM_HOST_DEVICE constexpr T mean(T centre, T sum, T inverse_count) {
  return centre + sum * inverse_count;
}

/// From the sums of x - centre and of its square.
template <typename T>
FUSEDNORM_HOST_DEVICE constexpr Moments<T> moments(T centre, T sum, T squares, T inverse_count) {
  return {mean(centre, sum, inverse_count), squares - sum * (sum * inverse_count)};
}

template <typename T>
FUSEDNORM_HOST_DEVICE constexpr GradientFactors<T> gradient_factors(GradientSums<T> sums, T rstd,
                                                                    T inverse_count) {
  const T scale = -rstd * inverse_count;
  return {scale * sums.g, scale * sums.g_xhat};
}

}  // namespace fusednorm::norms::layer_norm
