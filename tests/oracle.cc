// Runs the reference and walks its intermediate values to size the tolerances.
#include "oracle.h"

#include <algorithm>
#include <cmath>

#include "data.h"
#include "reference/element.h"
#include "reference/norms.h"
#include "tolerances.h"

namespace fusednorm::testing {
namespace {

const double* or_null(const std::vector<double>& values) {
  return values.empty() ? nullptr : values.data();
}

void round_all(DType dtype, std::vector<double>* values) {
  for (double& value : *values) {
    value = reference::rounded(dtype, value);
  }
}

double at(const std::vector<double>& values, std::int64_t col, double otherwise) {
  return values.empty() ? otherwise : values[col];
}

std::vector<Expected> expected_forward(const Problem& problem, const Operands& in) {
  const auto [rows, cols] = std::pair(problem.rows, problem.cols);
  const Precision p = precision_of(problem.x_dtype);
  auto formula = reference::forward(rows, cols, in.x.data(), or_null(in.gamma), or_null(in.beta),
                                    problem.eps, problem.operation);
  const bool centred = problem.operation == Operation::layer_norm;
  std::vector<double> y_errors(rows * cols), mean_errors(rows), rstd_errors(rows);
  for (std::int64_t row = 0; row < rows; ++row) {
    const double mean = formula.mean[row];
    const double rstd = formula.rstd[row];
    double squares = 0;
    for (std::int64_t col = 0; col < cols; ++col) {
      squares += std::pow(in.x[row * cols + col] - mean, 2);
    }
    const double spread = std::sqrt(squares / static_cast<double>(cols));
    // A mean that is 0 by definition has no error.
    mean_errors[row] = centred ? mean_error(p, cols, mean, spread) : 0;
    rstd_errors[row] = rstd_error(p, cols, rstd);
    for (std::int64_t col = 0; col < cols; ++col) {
      const double gamma = at(in.gamma, col, 1);
      const double beta = at(in.beta, col, 0);
      const std::int64_t index = row * cols + col;
      const double scaled = formula.y[index] - beta;
      y_errors[index] = y_error(p, cols, mean_errors[row], rstd, gamma, scaled, beta);
    }
    // The formula's mean is a double, too: near the middle between two, either is right.
    if (problem.x_dtype == DType::f64) mean_errors[row] += p.unit * std::fabs(mean);
  }
  std::vector<Expected> out;
  out.push_back({"y", problem.y_dtype, std::move(formula.y), std::move(y_errors)});
  const DType stats = compute_dtype(problem.x_dtype);
  if (problem.out[0]) {
    out.push_back({"mean", stats, std::move(formula.mean), std::move(mean_errors)});
  }
  if (problem.out[1]) {
    out.push_back({"rstd", stats, std::move(formula.rstd), std::move(rstd_errors)});
  }
  return out;
}

std::vector<double> column_errors(Precision p, std::int64_t rows,
                                  const std::vector<ColumnSize>& columns, int term_roundings) {
  std::vector<double> errors;
  for (const ColumnSize& column : columns) {
    errors.push_back(column_error(p, rows, column, term_roundings));
  }
  return errors;
}

std::vector<Expected> expected_backward(const Problem& problem, const Operands& in) {
  const auto [rows, cols] = std::pair(problem.rows, problem.cols);
  const Precision p = precision_of(problem.x_dtype);
  auto formula =
      problem.from_y()
          ? reference::backward_from_y(rows, cols, in.dy.data(), in.y.data(), in.rstd.data(),
                                       or_null(in.gamma), or_null(in.beta), problem.operation)
          : reference::backward(rows, cols, in.dy.data(), in.x.data(), in.mean.data(),
                                in.rstd.data(), or_null(in.gamma), problem.operation);
  std::vector<double> dx_errors(rows * cols);
  std::vector<double> g(cols), xhat(cols);
  std::vector<ColumnSize> dgamma(cols), dbeta(cols);
  for (std::int64_t row = 0; row < rows; ++row) {
    GradientMeans means;
    for (std::int64_t col = 0; col < cols; ++col) {
      const std::int64_t index = row * cols + col;
      g[col] = in.dy[index] * at(in.gamma, col, 1);
      xhat[col] = problem.from_y() ? (in.y[index] - at(in.beta, col, 0)) / at(in.gamma, col, 1)
                                   : (in.x[index] - in.mean[row]) * in.rstd[row];
      means.g += g[col] / static_cast<double>(cols);
      means.g_xhat += g[col] * xhat[col] / static_cast<double>(cols);
      means.abs_g += std::fabs(g[col]) / static_cast<double>(cols);
      means.abs_g_xhat += std::fabs(g[col] * xhat[col]) / static_cast<double>(cols);
      dgamma[col].add(in.dy[index] * xhat[col]);
      dbeta[col].add(in.dy[index]);
    }
    if (problem.operation == Operation::rms_norm) means.g = means.abs_g = 0;
    for (std::int64_t col = 0; col < cols; ++col) {
      dx_errors[row * cols + col] = dx_error(p, cols, in.rstd[row], g[col], xhat[col], means);
    }
  }
  std::vector<Expected> out;
  if (problem.out[0]) {
    out.push_back({"dx", problem.x_dtype, std::move(formula.dx), std::move(dx_errors)});
  }
  if (problem.out[1]) {
    out.push_back({"dgamma", problem.param_dtype, std::move(formula.dgamma),
                   column_errors(p, rows, dgamma, 3)});
  }
  if (problem.out[2]) {
    out.push_back(
        {"dbeta", problem.param_dtype, std::move(formula.dbeta), column_errors(p, rows, dbeta, 0)});
  }
  return out;
}

}  // namespace

Operands make_operands(const Problem& problem) {
  Operands in;
  in.x = make_x(problem);
  in.gamma = make_gamma(problem);
  in.beta = make_beta(problem);
  if (!problem.is_forward()) {
    in.dy = make_dy(problem);
    auto formula = reference::forward(problem.rows, problem.cols, in.x.data(), or_null(in.gamma),
                                      or_null(in.beta), problem.eps, problem.operation);
    in.mean = std::move(formula.mean);
    in.rstd = std::move(formula.rstd);
    round_all(compute_dtype(problem.x_dtype), &in.mean);
    round_all(compute_dtype(problem.x_dtype), &in.rstd);
    if (problem.from_y()) {
      in.y = std::move(formula.y);
      round_all(problem.y_dtype, &in.y);
    }
  }
  return in;
}

std::vector<Expected> expected_outputs(const Problem& problem, const Operands& operands) {
  return problem.is_forward() ? expected_forward(problem, operands)
                              : expected_backward(problem, operands);
}

}  // namespace fusednorm::testing
