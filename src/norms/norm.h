// SPDX-License-Identifier: Apache-2.0
// The norm of a problem: one branch a row, the same for all rows of a call.
#pragma once

#include "fusednorm/problem.h"
#include "norms/layer_norm.h"
#include "norms/rms_norm.h"

namespace fusednorm::norms {

/// Whether rows are centred: whether they have a mean, and a mean(g) in backward.
FUSEDNORM_HOST_DEVICE constexpr bool has_mean(Operation operation) {
  return operation == Operation::layer_norm;
}

/// From the sum of x - centre.
template <typename T>
FUSEDNORM_HOST_DEVICE constexpr T mean(Operation operation, T centre, T sum, T inverse_count) {
  return has_mean(operation) ? layer_norm::mean(centre, sum, inverse_count) : T(0);
}

/// From the sums of x and of x^2.
template <typename T>
FUSEDNORM_HOST_DEVICE constexpr Moments<T> moments(Operation operation, T sum, T squares,
                                                   T inverse_count) {
  return has_mean(operation) ? layer_norm::moments(T(0), sum, squares, inverse_count)
                             : rms_norm::moments(squares);
}

template <typename T>
FUSEDNORM_HOST_DEVICE constexpr GradientFactors<T> gradient_factors(Operation operation,
                                                                    GradientSums<T> sums, T rstd,
                                                                    T inverse_count) {
  return has_mean(operation) ? layer_norm::gradient_factors(sums, rstd, inverse_count)
                             : rms_norm::gradient_factors(sums, rstd, inverse_count);
}

}  // namespace fusednorm::norms
