// SPDX-License-Identifier: Apache-2.0
// The patterns of data.
#include "data.h"

#include <limits>

#include "reference/element.h"

namespace fusednorm::testing {
namespace {

// Streams of one seed, so that the arrays of a problem are unrelated.
enum class Stream : std::uint64_t { x = 0, dy = 1, gamma = 2, beta = 3, residual = 4, ds = 5 };

std::uint64_t stream_seed(const Problem& problem, Stream stream) {
  return problem.seed * 4 + static_cast<std::uint64_t>(stream);
}

/// Of data=brink, where the squares of a row must not add up to more than there is. |normal|
/// < 3.47, so a row of one element may be 12 times its variance, and with a residual four times
/// that.
double brink_value(const Problem& problem, double normal) {
  const double share = problem.has_residual ? 0.25 : 1;
  if (problem.x_dtype == DType::f16) return (normal < 0 ? -65504 : 65504) * std::sqrt(share);
  const double squares = compute_dtype(problem.x_dtype) == DType::f64 ? 1.4e307 : 2.5e37;
  return normal * std::sqrt(share * squares / static_cast<double>(problem.cols));
}

double x_value(const Problem& problem, std::int64_t row, std::int64_t col, double normal) {
  const bool half = problem.x_dtype == DType::f16;
  const bool special = row == problem.rows / 2 && col == problem.cols / 3;
  switch (problem.data) {
    case Data::normal:
      return normal;
    case Data::mean1000:
      return 1000 + normal;
    case Data::mean10000:
      return 10000 + normal;
    case Data::constant:
      return 0.1 * static_cast<double>(row % 1000 + 1);
    case Data::zeros:
      return 0;
    case Data::tiny:
      return normal * (half ? 1.0 / (1 << 20) : 1e-18);
    case Data::huge:
      return normal * (half ? 1e4 : 1e15);
    case Data::ramp:
      return normal + 100.0 * static_cast<double>(col) / static_cast<double>(problem.cols);
    case Data::outlier:
      return col == row % problem.cols ? 10000 : normal;
    case Data::offset:
      return normal + 0.25 * static_cast<double>(row);
    case Data::beyond:
      return half ? 100 + normal : 3e19 + 5e16 * normal;
    case Data::nan_row:
      return special ? std::numeric_limits<double>::quiet_NaN() : normal;
    case Data::inf_row:
      return special ? std::numeric_limits<double>::infinity() : normal;
    case Data::brink:
      return brink_value(problem, normal);
    case Data::denormal:
      return normal * (half                                           ? 1.0 / (1 << 20)
                       : compute_dtype(problem.x_dtype) == DType::f64 ? 1e-155
                                                                      : 1e-20);
  }
  return normal;
}

double dy_value(const Problem& problem, std::int64_t row, std::int64_t col, double normal) {
  switch (problem.dy) {
    case Gradient::normal:
      return normal;
    case Gradient::positive:
      return 1 + 0.25 * normal;
    case Gradient::constant:
      return 0.1;
    case Gradient::zeros:
      return 0;
    case Gradient::nan_row:
      return row == problem.rows / 2 && col == problem.cols / 3
                 ? std::numeric_limits<double>::quiet_NaN()
                 : normal;
  }
  return normal;
}

template <typename Value>
std::vector<double> make_rows(const Problem& problem, Stream stream, DType dtype, Value value) {
  const std::uint64_t seed = stream_seed(problem, stream);
  std::vector<double> values(problem.rows * problem.cols);
  std::uint64_t index = 0;
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    for (std::int64_t col = 0; col < problem.cols; ++col, ++index) {
      values[index] =
          reference::rounded(dtype, value(problem, row, col, random_normal(seed, index)));
    }
  }
  return values;
}

}  // namespace

std::vector<double> make_x(const Problem& problem) {
  return make_rows(problem, Stream::x, problem.x_dtype, x_value);
}

std::vector<double> make_dy(const Problem& problem) {
  return make_rows(problem, Stream::dy, problem.y_dtype, dy_value);
}

std::vector<double> make_residual(const Problem& problem) {
  if (!problem.has_residual) return {};
  return make_rows(problem, Stream::residual, problem.residual_dtype, x_value);
}

std::vector<double> make_ds(const Problem& problem) {
  if (!problem.has_ds) return {};
  return make_rows(problem, Stream::ds, problem.residual_dtype, dy_value);
}

std::vector<double> make_gamma(const Problem& problem) {
  if (problem.gamma == Gamma::none) {
    return {};
  }
  std::vector<double> gamma(problem.param_groups * problem.cols);
  for (std::size_t index = 0; index < gamma.size(); ++index) {
    const std::int64_t col = static_cast<std::int64_t>(index) % problem.cols;
    // gamma + gamma_offset is at least 0.13 from zero, so that a backward from y has something to
    // divide by; both signs.
    double value = 1 + 0.25 * random_normal(stream_seed(problem, Stream::gamma), index);
    if (col % 5 == 4) value = -value;
    if (problem.gamma == Gamma::large) value *= 30000;
    value -= problem.gamma_offset;
    if (problem.gamma == Gamma::zeros && col % 3 == 1) value = 0;
    if (problem.gamma == Gamma::minus_offset && col % 3 == 1) value = -problem.gamma_offset;
    gamma[index] = reference::rounded(problem.param_dtype, value);
  }
  return gamma;
}

std::vector<double> make_beta(const Problem& problem) {
  if (problem.beta == Beta::none) {
    return {};
  }
  std::vector<double> beta(problem.param_groups * problem.cols);
  const double scale = problem.beta == Beta::large ? 10000 : 0.5;
  for (std::size_t index = 0; index < beta.size(); ++index) {
    const double normal = random_normal(stream_seed(problem, Stream::beta), index);
    beta[index] = reference::rounded(problem.param_dtype, scale * normal);
  }
  return beta;
}

}  // namespace fusednorm::testing
