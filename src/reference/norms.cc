// SPDX-License-Identifier: Apache-2.0
// Forward and backward of every norm in plain loops.
#include "reference/norms.h"

#include <cmath>

#include "norms/norm.h"
#include "reference/element.h"
#include "reference/sum.h"

namespace fusednorm::reference {

double Norm::scale(std::int64_t row, std::int64_t col) const {
  if (gamma == nullptr) return 1;
  return rounded(compute, gamma[group_of(row) * cols + col] + rounded(compute, gamma_offset));
}

double Norm::shift(std::int64_t row, std::int64_t col) const {
  return beta != nullptr ? beta[group_of(row) * cols + col] : 0;
}

std::vector<double> stored_sum(const std::vector<double>& x, const std::vector<double>& residual,
                               DType residual_dtype) {
  std::vector<double> sum(x.size());
  for (std::size_t index = 0; index < x.size(); ++index) {
    sum[index] = rounded(residual_dtype, x[index] + residual[index]);
  }
  return sum;
}

Forward forward(const Norm& norm, const double* rows) {
  const std::int64_t cols = norm.cols;
  const auto size = static_cast<std::size_t>(norm.rows * cols);
  const auto statistics = static_cast<std::size_t>(norm.rows);
  Forward out{std::vector<double>(size), std::vector<double>(size), std::vector<double>(statistics),
              std::vector<double>(statistics)};
  const long double share = 1 / static_cast<long double>(cols);
  for (std::int64_t row = 0; row < norm.rows; ++row) {
    const double* in = rows + row * cols;
    // Around the first element, so that a constant row has exactly its constant as mean.
    const long double origin = cols > 0 && std::isfinite(in[0]) ? in[0] : 0.0;
    Sum sum;
    for (std::int64_t col = 0; col < cols; ++col) {
      sum.add(in[col] - origin);
    }
    const long double mean = norms::mean(norm.operation, origin, sum.value(), share);
    Sum squares;
    for (std::int64_t col = 0; col < cols; ++col) {
      squares.add((in[col] - mean) * (in[col] - mean));
    }
    const long double rstd = norms::rstd_of<long double>(squares.value() * share, norm.eps);
    for (std::int64_t col = 0; col < cols; ++col) {
      const long double xhat = (in[col] - mean) * rstd;
      out.xhat[row * cols + col] = static_cast<double>(xhat);
      out.y[row * cols + col] =
          static_cast<double>(xhat * norm.scale(row, col) + norm.shift(row, col));
    }
    out.mean[row] = static_cast<double>(mean);
    out.rstd[row] = static_cast<double>(rstd);
  }
  return out;
}

double Output::operator()(double xhat, double scale, double shift) const {
  if (rounding == Rounding::once) return rounded(y_dtype, xhat * scale + shift);
  const double known = rounded(rounding == Rounding::via_x ? row_dtype : param_dtype, xhat);
  const double product = rounded(y_dtype, rounded(compute, known * scale));
  return rounded(y_dtype, rounded(compute, product + shift));
}

namespace {

/// The gradient through the norm, without ds.
class NormGradient {
 public:
  NormGradient(const Norm& norm, const Saved& saved, Backward* out)
      : norm_(norm),
        saved_(saved),
        out_(out),
        dgamma_(static_cast<std::size_t>(norm.param_groups * norm.cols)),
        dbeta_(dgamma_.size()) {}

  void add_row(std::int64_t row) {
    const double* dy = saved_.dy + row * norm_.cols;
    const std::int64_t parameters = norm_.group_of(row) * norm_.cols;
    Sum sum_g, sum_g_xhat;
    for (std::int64_t col = 0; col < norm_.cols; ++col) {
      const long double xhat = normalised(row, col), g = scaled(row, col);
      sum_g.add(g);
      sum_g_xhat.add(g * xhat);
      dgamma_[parameters + col].add(dy[col] * xhat);
      dbeta_[parameters + col].add(dy[col]);
    }
    const long double rstd = saved_.rstd[row];
    const auto factors =
        norms::gradient_factors<long double>(norm_.operation, {sum_g.value(), sum_g_xhat.value()},
                                             rstd, 1 / static_cast<long double>(norm_.cols));
    for (std::int64_t col = 0; col < norm_.cols; ++col) {
      const long double ds = saved_.ds != nullptr ? saved_.ds[row * norm_.cols + col] : 0.0;
      const long double through =
          rstd * scaled(row, col) + factors.constant + factors.slope * normalised(row, col);
      out_->d[row * norm_.cols + col] = static_cast<double>(through + ds);
    }
  }

  void finish() {
    for (std::size_t index = 0; index < dgamma_.size(); ++index) {
      out_->dgamma[index] = static_cast<double>(dgamma_[index].value());
      out_->dbeta[index] = static_cast<double>(dbeta_[index].value());
    }
  }

 private:
  long double scaled(std::int64_t row, std::int64_t col) const {
    return static_cast<long double>(saved_.dy[row * norm_.cols + col]) * norm_.scale(row, col);
  }
  long double normalised(std::int64_t row, std::int64_t col) const {
    const std::int64_t index = row * norm_.cols + col;
    if (saved_.y != nullptr) {
      return (static_cast<long double>(saved_.y[index]) - norm_.shift(row, col)) /
             norm_.scale(row, col);
    }
    const double mean = norms::has_mean(norm_.operation) ? saved_.mean[row] : 0;
    return (static_cast<long double>(saved_.rows[index]) - mean) * saved_.rstd[row];
  }

  const Norm& norm_;
  const Saved& saved_;
  Backward* out_;
  std::vector<Sum> dgamma_, dbeta_;
};

}  // namespace

Backward backward(const Norm& norm, const Saved& saved) {
  const auto size = static_cast<std::size_t>(norm.rows * norm.cols);
  const auto table = static_cast<std::size_t>(norm.param_groups * norm.cols);
  Backward out{std::vector<double>(size), std::vector<double>(table), std::vector<double>(table)};
  if (saved.dy == nullptr) {
    out.d.assign(saved.ds, saved.ds + size);
    return out;
  }
  NormGradient gradient(norm, saved, &out);
  for (std::int64_t row = 0; row < norm.rows; ++row) {
    gradient.add_row(row);
  }
  gradient.finish();
  return out;
}

}  // namespace fusednorm::reference
