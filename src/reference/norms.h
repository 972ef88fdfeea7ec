// SPDX-License-Identifier: Apache-2.0
// The norms as a textbook writes them, in f64: the oracle of every test, never shipped as a
// backend.
//
// Arrays are packed, row after row. Sums are compensated and in long double, so that this formula's
// own error stays below one unit in the last place of f64 however many rows or columns there are.
#pragma once

#include <cstdint>
#include <vector>

#include "fusednorm/problem.h"

namespace fusednorm::reference {

/// The norm of a problem and its parameters.
struct Norm {
  std::int64_t rows = 0, cols = 0;
  Operation operation = Operation::layer_norm;
  double eps = 1e-5;
  const double* gamma = nullptr;  ///< tables of param_groups x cols; null: 1, whatever the offset
  const double* beta = nullptr;   ///< null: 0
  double gamma_offset = 0;
  DType compute = DType::f64;  ///< gamma + gamma_offset is a number of this type
  std::int64_t param_groups = 1, rows_per_group = 1;

  std::int64_t group_of(std::int64_t row) const {
    return param_groups == 1 ? 0 : row / rows_per_group % param_groups;
  }
  double scale(std::int64_t row, std::int64_t col) const;  ///< gamma + gamma_offset
  double shift(std::int64_t row, std::int64_t col) const;  ///< beta
};

/// The rows that are normalised where there is a residual: x + residual as it is stored. An f64 sum
/// of two numbers of f32, f16 or bf16 has more than twice their digits, so that rounding it is
/// rounding the exact sum.
std::vector<double> stored_sum(const std::vector<double>& x, const std::vector<double>& residual,
                               DType residual_dtype);

struct Forward {
  std::vector<double> xhat;
  std::vector<double> y;           ///< xhat * scale + shift, not rounded
  std::vector<double> mean, rstd;  ///< rms_norm: mean is 0
};

Forward forward(const Norm& norm, const double* rows);

/// The way of one value from xhat to y.
struct Output {
  Rounding rounding = Rounding::once;
  DType row_dtype = DType::f64, param_dtype = DType::f64, y_dtype = DType::f64;
  DType compute = DType::f64;

  /// y as stored. Products and sums are numbers of the compute type before they are rounded on.
  double operator()(double xhat, double scale, double shift) const;
};

/// What backward reads. mean and rstd are what the forward pass stored, rounded as it was stored.
struct Saved {
  const double* dy = nullptr;    ///< null: only ds
  const double* ds = nullptr;    ///< null: none
  const double* rows = nullptr;  ///< x, or the stored sum
  const double* y = nullptr;     ///< instead of rows: xhat = (y - shift) / scale
  const double* mean = nullptr;  ///< read with rows, by layer_norm
  const double* rstd = nullptr;
};

struct Backward {
  std::vector<double> d;              ///< dx and dresidual, not rounded
  std::vector<double> dgamma, dbeta;  ///< param_groups x cols
};

Backward backward(const Norm& norm, const Saved& saved);

}  // namespace fusednorm::reference
