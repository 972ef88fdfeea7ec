// SPDX-License-Identifier: Apache-2.0
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

reference::Norm norm_of(const Problem& problem, const Operands& in) {
  reference::Norm norm;
  norm.rows = problem.rows;
  norm.cols = problem.cols;
  norm.operation = problem.operation;
  norm.eps = problem.eps;
  norm.gamma = or_null(in.gamma);
  norm.beta = or_null(in.beta);
  norm.gamma_offset = problem.gamma_offset;
  norm.compute = compute_dtype(problem.x_dtype);
  norm.param_groups = problem.param_groups;
  norm.rows_per_group = problem.rows_per_group;
  return norm;
}

reference::Output output_of(const Problem& problem) {
  return {problem.rounding, problem.row_dtype(), problem.param_dtype, problem.y_dtype,
          compute_dtype(problem.x_dtype)};
}

/// An output whose elements are added one by one.
Expected expect(const char* name, DType dtype, std::size_t size) {
  Expected out{name, dtype, {}, {}, {}};
  for (auto* values : {&out.values, &out.low, &out.high}) values->reserve(size);
  return out;
}

void add(Expected* out, double value, Interval interval) {
  out->values.push_back(value);
  out->low.push_back(interval.low);
  out->high.push_back(interval.high);
}

void add(Expected* out, double value, double error) {
  add(out, value, stored(out->dtype, value, error));
}

/// What y may be where xhat is rounded on its way: each later step is known exactly and monotonic.
Interval via_rounded(const reference::Output& output, double xhat, double error, double scale,
                     double shift) {
  if (!std::isfinite(xhat)) error = 0;
  if (!std::isfinite(error)) return {HUGE_VAL, -HUGE_VAL};
  const double one = output(xhat - error, scale, shift), other = output(xhat + error, scale, shift);
  return {std::min(one, other), std::max(one, other)};
}

double spread_of(const double* row, std::int64_t cols, double mean) {
  double squares = 0;
  for (std::int64_t col = 0; col < cols; ++col) {
    squares += std::pow(row[col] - mean, 2);
  }
  return std::sqrt(squares / static_cast<double>(cols));
}

std::vector<Expected> expected_forward(const Problem& problem, const Operands& in) {
  const std::int64_t cols = problem.cols;
  const Precision p = precision_of(problem.x_dtype);
  const reference::Norm norm = norm_of(problem, in);
  const reference::Output output = output_of(problem);
  const auto formula = reference::forward(norm, in.rows().data());
  const DType stats = compute_dtype(problem.x_dtype);
  Expected y = expect("y", problem.y_dtype, formula.y.size());
  Expected means = expect("mean", stats, formula.mean.size());
  Expected rstds = expect("rstd", stats, formula.rstd.size());
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    const double mean = formula.mean[row], rstd = formula.rstd[row];
    // A mean that is 0 by definition has no error.
    double off = 0;
    if (problem.operation == Operation::layer_norm) {
      off = mean_error(p, cols, mean, spread_of(in.rows().data() + row * cols, cols, mean));
    }
    for (std::int64_t col = 0; col < cols; ++col) {
      const std::int64_t index = row * cols + col;
      const double scale = norm.scale(row, col), shift = norm.shift(row, col);
      const double xhat = formula.xhat[index], value = formula.y[index];
      if (problem.rounding == Rounding::once) {
        add(&y, value, y_error(p, cols, off, rstd, scale, value - shift, shift));
      } else {
        add(&y, value,
            via_rounded(output, xhat, xhat_error(p, cols, off, rstd, xhat), scale, shift));
      }
    }
    // The formula's mean is a double, too: near the middle between two, either is right.
    if (problem.x_dtype == DType::f64) off += p.unit * std::fabs(mean);
    add(&means, mean, off);
    add(&rstds, rstd, rstd_error(p, cols, rstd));
  }
  std::vector<Expected> out;
  out.push_back(std::move(y));
  if (problem.has_residual) {
    out.push_back({"sum", problem.residual_dtype, in.sum, in.sum, in.sum});
  }
  if (problem.out[0]) out.push_back(std::move(means));
  if (problem.out[1]) out.push_back(std::move(rstds));
  return out;
}

/// What the tolerances of a backward pass depend on.
struct GradientSizes {
  std::vector<double> d_errors;
  std::vector<ColumnSize> dgamma, dbeta;
};

GradientSizes gradient_sizes(const Problem& problem, const Operands& in,
                             const std::vector<double>& d) {
  const std::int64_t cols = problem.cols;
  const Precision p = precision_of(problem.x_dtype);
  const reference::Norm norm = norm_of(problem, in);
  GradientSizes sizes;
  sizes.d_errors.resize(d.size());
  sizes.dgamma.resize(problem.param_groups * cols);
  sizes.dbeta.resize(problem.param_groups * cols);
  if (!problem.has_dy) return sizes;
  std::vector<double> g(cols), xhat(cols);
  const bool centred = problem.operation == Operation::layer_norm;
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    const std::int64_t parameters = norm.group_of(row) * cols;
    GradientMeans means;
    for (std::int64_t col = 0; col < cols; ++col) {
      const std::int64_t index = row * cols + col;
      g[col] = in.dy[index] * norm.scale(row, col);
      xhat[col] = problem.from_y()
                      ? (in.y[index] - norm.shift(row, col)) / norm.scale(row, col)
                      : (in.rows()[index] - (centred ? in.mean[row] : 0)) * in.rstd[row];
      means.g += g[col] / static_cast<double>(cols);
      means.g_xhat += g[col] * xhat[col] / static_cast<double>(cols);
      means.abs_g += std::fabs(g[col]) / static_cast<double>(cols);
      means.abs_g_xhat += std::fabs(g[col] * xhat[col]) / static_cast<double>(cols);
      sizes.dgamma[parameters + col].add(in.dy[index] * xhat[col]);
      sizes.dbeta[parameters + col].add(in.dy[index]);
    }
    if (!centred) means.g = means.abs_g = 0;
    for (std::int64_t col = 0; col < cols; ++col) {
      const std::int64_t index = row * cols + col;
      sizes.d_errors[index] = dx_error(p, cols, in.rstd[row], g[col], xhat[col], means);
      if (problem.has_ds) sizes.d_errors[index] += p.unit * std::fabs(d[index]);
    }
  }
  return sizes;
}

Expected expected_rows(const char* name, DType dtype, const std::vector<double>& values,
                       const std::vector<double>& errors) {
  Expected out = expect(name, dtype, values.size());
  for (std::size_t index = 0; index < values.size(); ++index) {
    add(&out, values[index], errors[index]);
  }
  return out;
}

Expected expected_columns(const char* name, const Problem& problem,
                          const std::vector<double>& values, const std::vector<ColumnSize>& sizes,
                          int term_roundings) {
  Expected out = expect(name, problem.param_dtype, values.size());
  const Precision p = precision_of(problem.x_dtype);
  for (std::size_t index = 0; index < values.size(); ++index) {
    const bool exact = sizes[index].rows == 0;  // nothing was added
    add(&out, values[index], exact ? 0 : column_error(p, sizes[index], term_roundings));
  }
  return out;
}

std::vector<Expected> expected_backward(const Problem& problem, const Operands& in) {
  reference::Saved saved;
  saved.dy = problem.has_dy ? in.dy.data() : nullptr;
  saved.ds = or_null(in.ds);
  saved.rows = in.rows().data();
  saved.y = problem.from_y() ? in.y.data() : nullptr;
  saved.mean = in.mean.data();
  saved.rstd = in.rstd.data();
  const auto formula = reference::backward(norm_of(problem, in), saved);
  const GradientSizes sizes = gradient_sizes(problem, in, formula.d);
  std::vector<Expected> out;
  if (problem.out[0]) {
    out.push_back(expected_rows("dx", problem.x_dtype, formula.d, sizes.d_errors));
  }
  if (problem.out[1]) {
    out.push_back(expected_columns("dgamma", problem, formula.dgamma, sizes.dgamma, 3));
  }
  if (problem.out[2]) {
    out.push_back(expected_columns("dbeta", problem, formula.dbeta, sizes.dbeta, 0));
  }
  if (problem.out[3]) {
    out.push_back(expected_rows("dresidual", problem.residual_dtype, formula.d, sizes.d_errors));
  }
  return out;
}

}  // namespace

Operands make_operands(const Problem& problem) {
  Operands in;
  in.x = make_x(problem);
  in.residual = make_residual(problem);
  if (problem.has_residual) {
    in.sum = reference::stored_sum(in.x, in.residual, problem.residual_dtype);
  }
  in.gamma = make_gamma(problem);
  in.beta = make_beta(problem);
  if (!problem.is_forward()) {
    in.dy = make_dy(problem);
    in.ds = make_ds(problem);
    const reference::Norm norm = norm_of(problem, in);
    auto formula = reference::forward(norm, in.rows().data());
    in.mean = std::move(formula.mean);
    in.rstd = std::move(formula.rstd);
    round_all(compute_dtype(problem.x_dtype), &in.mean);
    round_all(compute_dtype(problem.x_dtype), &in.rstd);
    if (problem.from_y()) {
      in.y = std::move(formula.y);
      const reference::Output output = output_of(problem);
      for (std::size_t index = 0; index < in.y.size(); ++index) {
        const auto row = static_cast<std::int64_t>(index) / problem.cols;
        const auto col = static_cast<std::int64_t>(index) % problem.cols;
        in.y[index] = output(formula.xhat[index], norm.scale(row, col), norm.shift(row, col));
      }
    }
  }
  return in;
}

std::vector<Expected> expected_outputs(const Problem& problem, const Operands& operands) {
  return problem.is_forward() ? expected_forward(problem, operands)
                              : expected_backward(problem, operands);
}

}  // namespace fusednorm::testing
