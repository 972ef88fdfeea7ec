// SPDX-License-Identifier: Apache-2.0
// Forward and backward of every norm in plain loops.
#include "reference/norms.h"

#include <cmath>

#include "norms/norm.h"
#include "reference/sum.h"

namespace fusednorm::reference {

Forward forward(std::int64_t rows, std::int64_t cols, const double* x, const double* gamma,
                const double* beta, double eps, Operation operation) {
  Forward out{std::vector<double>(rows * cols), std::vector<double>(rows),
              std::vector<double>(rows)};
  const long double share = 1 / static_cast<long double>(cols);
  for (std::int64_t row = 0; row < rows; ++row) {
    const double* in = x + row * cols;
    // Around the first element, so that a constant row has exactly its constant as mean.
    const long double origin = cols > 0 && std::isfinite(in[0]) ? in[0] : 0.0;
    Sum sum;
    for (std::int64_t col = 0; col < cols; ++col) {
      sum.add(in[col] - origin);
    }
    const long double mean = norms::mean(operation, origin, sum.value(), share);
    Sum squares;
    for (std::int64_t col = 0; col < cols; ++col) {
      squares.add((in[col] - mean) * (in[col] - mean));
    }
    const long double rstd = norms::rstd_of<long double>(squares.value() * share, eps);
    for (std::int64_t col = 0; col < cols; ++col) {
      const long double scale = gamma != nullptr ? gamma[col] : 1.0;
      const long double shift = beta != nullptr ? beta[col] : 0.0;
      out.y[row * cols + col] = static_cast<double>((in[col] - mean) * rstd * scale + shift);
    }
    out.mean[row] = static_cast<double>(mean);
    out.rstd[row] = static_cast<double>(rstd);
  }
  return out;
}

namespace {

/// The backward formula, given a function that tells the normalised value at (row, col).
template <typename Normalised>
Backward backward_of(std::int64_t rows, std::int64_t cols, const double* dy, const double* rstd,
                     const double* gamma, Operation operation, Normalised normalised) {
  Backward out{std::vector<double>(rows * cols), std::vector<double>(cols),
               std::vector<double>(cols)};
  std::vector<Sum> dgamma(cols), dbeta(cols);
  const long double share = 1 / static_cast<long double>(cols);
  for (std::int64_t row = 0; row < rows; ++row) {
    const double* in = dy + row * cols;
    Sum sum_g, sum_g_xhat;
    for (std::int64_t col = 0; col < cols; ++col) {
      const long double xhat = normalised(row, col);
      const long double g = gamma != nullptr ? in[col] * static_cast<long double>(gamma[col])
                                             : static_cast<long double>(in[col]);
      sum_g.add(g);
      sum_g_xhat.add(g * xhat);
      dgamma[col].add(in[col] * xhat);
      dbeta[col].add(in[col]);
    }
    const auto factors = norms::gradient_factors<long double>(
        operation, {sum_g.value(), sum_g_xhat.value()}, rstd[row], share);
    for (std::int64_t col = 0; col < cols; ++col) {
      const long double xhat = normalised(row, col);
      const long double g = gamma != nullptr ? in[col] * static_cast<long double>(gamma[col])
                                             : static_cast<long double>(in[col]);
      out.dx[row * cols + col] =
          static_cast<double>(rstd[row] * g + factors.constant + factors.slope * xhat);
    }
  }
  for (std::int64_t col = 0; col < cols; ++col) {
    out.dgamma[col] = static_cast<double>(dgamma[col].value());
    out.dbeta[col] = static_cast<double>(dbeta[col].value());
  }
  return out;
}

}  // namespace

Backward backward(std::int64_t rows, std::int64_t cols, const double* dy, const double* x,
                  const double* mean, const double* rstd, const double* gamma,
                  Operation operation) {
  const bool centred = norms::has_mean(operation);
  return backward_of(
      rows, cols, dy, rstd, gamma, operation, [=](std::int64_t row, std::int64_t col) {
        return (static_cast<long double>(x[row * cols + col]) - (centred ? mean[row] : 0)) *
               rstd[row];
      });
}

Backward backward_from_y(std::int64_t rows, std::int64_t cols, const double* dy, const double* y,
                         const double* rstd, const double* gamma, const double* beta,
                         Operation operation) {
  return backward_of(rows, cols, dy, rstd, gamma, operation,
                     [=](std::int64_t row, std::int64_t col) {
                       const long double shift = beta != nullptr ? beta[col] : 0.0;
                       const long double scale = gamma != nullptr ? gamma[col] : 1.0;
                       return (y[row * cols + col] - shift) / scale;
                     });
}

}  // namespace fusednorm::reference
