// SPDX-License-Identifier: Apache-2.0
// The norms as a textbook writes them, in f64: the oracle of every test, never shipped as a
// backend.
//
// Arrays are packed, row after row. gamma and beta may be null: 1 and 0. Sums are compensated and
// in long double, so that this formula's own error stays below one unit in the last place of f64
// however many rows or columns there are.
#pragma once

#include <cstdint>
#include <vector>

#include "fusednorm/problem.h"

namespace fusednorm::reference {

struct Forward {
  std::vector<double> y, mean, rstd;  ///< rms_norm: mean is 0
};

struct Backward {
  std::vector<double> dx, dgamma, dbeta;
};

Forward forward(std::int64_t rows, std::int64_t cols, const double* x, const double* gamma,
                const double* beta, double eps, Operation operation = Operation::layer_norm);

/// mean and rstd are inputs: what the forward pass stored, rounded as it was stored. rms_norm: mean
/// is not read.
Backward backward(std::int64_t rows, std::int64_t cols, const double* dy, const double* x,
                  const double* mean, const double* rstd, const double* gamma,
                  Operation operation = Operation::layer_norm);

/// The normalised values come from y instead of x: (y - beta) / gamma.
Backward backward_from_y(std::int64_t rows, std::int64_t cols, const double* dy, const double* y,
                         const double* rstd, const double* gamma, const double* beta,
                         Operation operation = Operation::layer_norm);

}  // namespace fusednorm::reference
