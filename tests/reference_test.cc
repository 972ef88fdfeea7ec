// SPDX-License-Identifier: Apache-2.0
// The oracle against what is known without it: hand-computed rows, finite differences, and every
// 16-bit number.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "data.h"
#include "reference/element.h"
#include "reference/norms.h"

namespace fusednorm::reference {
namespace {

TEST(Element, EverySixteenBitNumberSurvivesTheRoundTrip) {
  for (const Format16 format : {format_f16, format_bf16}) {
    for (int code = 0; code < 65536; ++code) {
      const double value = decode(static_cast<std::uint16_t>(code), format);
      if (!std::isnan(value)) {
        ASSERT_EQ(encode(value, format), code) << value;
      } else {
        ASSERT_TRUE(std::isnan(decode(encode(value, format), format)));
      }
    }
  }
}

TEST(Element, RoundsToNearestAndTiesToEven) {
  for (const Format16 format : {format_f16, format_bf16}) {
    const int infinity = ((1 << format.exponent_bits) - 1) << format.mantissa_bits;
    for (int code = 0; code + 1 < infinity; ++code) {
      const double low = decode(static_cast<std::uint16_t>(code), format);
      const double high = decode(static_cast<std::uint16_t>(code + 1), format);
      const double middle = low + (high - low) / 2;
      ASSERT_EQ(encode(middle, format), code + code % 2);
      ASSERT_EQ(encode(std::nextafter(middle, low), format), code);
      ASSERT_EQ(encode(std::nextafter(middle, high), format), code + 1);
      ASSERT_EQ(encode(-middle, format), (code + code % 2) | 0x8000);
    }
  }
}

TEST(Element, KnownValues) {
  EXPECT_EQ(rounded(DType::f16, 65519.9), 65504);
  EXPECT_EQ(rounded(DType::f16, 65520), std::numeric_limits<double>::infinity());
  EXPECT_EQ(rounded(DType::f16, -1e300), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(rounded(DType::f16, 0x1p-25), 0);
  EXPECT_EQ(rounded(DType::f16, 0x1.8p-25), 0x1p-24);
  EXPECT_EQ(rounded(DType::f16, 1e-8), 0) << "the eps of pytorch#41527";
  EXPECT_EQ(rounded(DType::bf16, 1.00390625), 1.0);
  EXPECT_EQ(rounded(DType::bf16, 1.01171875), 1.015625);
  EXPECT_EQ(rounded(DType::bf16, 3.4e38), std::numeric_limits<double>::infinity());
  EXPECT_EQ(encode(1.0, format_f16), 0x3C00);
  EXPECT_EQ(encode(1.0, format_bf16), 0x3F80);
  EXPECT_TRUE(std::isnan(rounded(DType::bf16, std::numeric_limits<double>::quiet_NaN())));
}

/// rows x cols with these parameters, which may be null.
Norm norm_of(std::int64_t rows, std::int64_t cols, const double* gamma, const double* beta,
             double eps, Operation operation = Operation::layer_norm) {
  Norm norm;
  norm.rows = rows;
  norm.cols = cols;
  norm.operation = operation;
  norm.eps = eps;
  norm.gamma = gamma;
  norm.beta = beta;
  return norm;
}

TEST(Forward, ByHand) {
  // Row 0: mean 2, variance 8/3. Row 1 is constant.
  const double x[] = {0, 2, 4, 5, 5, 5};
  const double gamma[] = {1, 2, 3}, beta[] = {10, 20, 30};
  const auto out = forward(norm_of(2, 3, gamma, beta, 4.0 / 3), x);
  EXPECT_DOUBLE_EQ(out.mean[0], 2);
  EXPECT_DOUBLE_EQ(out.rstd[0], 0.5);  // 8/3 + 4/3 = 4
  EXPECT_DOUBLE_EQ(out.y[0], 9);
  EXPECT_DOUBLE_EQ(out.y[1], 20);
  EXPECT_DOUBLE_EQ(out.y[2], 33);
  EXPECT_DOUBLE_EQ(out.xhat[2], 1);
  EXPECT_DOUBLE_EQ(out.mean[1], 5);
  EXPECT_DOUBLE_EQ(out.y[5], 30);
}

TEST(Forward, ConstantRowsAreExact) {
  for (std::int64_t cols : {1, 3, 7, 1000, 4097}) {
    const std::vector<double> x(static_cast<std::size_t>(cols), 0.1);
    EXPECT_EQ(forward(norm_of(1, cols, nullptr, nullptr, 1e-5), x.data()).y[cols - 1], 0);
    EXPECT_TRUE(std::isnan(forward(norm_of(1, cols, nullptr, nullptr, 0), x.data()).y[cols - 1]));
  }
}

TEST(Forward, RootMeanSquareByHand) {
  const double x[] = {3, -4, 0, 0}, gamma[] = {1, 2, 3, 4};
  const auto out = forward(norm_of(2, 2, gamma, nullptr, 12.5, Operation::rms_norm), x);
  EXPECT_DOUBLE_EQ(out.rstd[0], 0.2);  // 25/2 + 12.5 = 25
  EXPECT_DOUBLE_EQ(out.y[0], 0.6);
  EXPECT_DOUBLE_EQ(out.y[1], -1.6);
  EXPECT_EQ(out.y[2], 0);
  EXPECT_EQ(out.mean[0], 0);
}

// Rows 0, 1 use parameters 0, rows 2, 3 parameters 1, row 4 parameters 0 again.
TEST(Forward, GroupsAndOffsetByHand) {
  const double x[] = {3, -4, 3, -4, 3, -4, 3, -4, 3, -4};
  const double gamma[] = {0, 1, -1, 2}, beta[] = {0, 10, 20, 30};
  Norm norm = norm_of(5, 2, gamma, beta, 12.5, Operation::rms_norm);
  norm.gamma_offset = 1;
  norm.param_groups = 2;
  norm.rows_per_group = 2;
  const auto out = forward(norm, x);
  const double expected[] = {0.6, 8.4, 0.6, 8.4, 20, 27.6, 20, 27.6, 0.6, 8.4};
  for (int index = 0; index < 10; ++index) EXPECT_DOUBLE_EQ(out.y[index], expected[index]) << index;
}

TEST(Forward, TheOffsetIsAddedInTheComputeType) {
  const double gamma[] = {0x1p-30};
  Norm norm = norm_of(1, 1, gamma, nullptr, 0);
  norm.gamma_offset = 1;
  norm.compute = DType::f32;
  EXPECT_EQ(norm.scale(0, 0), 1);
  norm.compute = DType::f64;
  EXPECT_EQ(norm.scale(0, 0), 1 + 0x1p-30);
  norm.gamma = nullptr;
  EXPECT_EQ(norm.scale(0, 0), 1) << "without gamma there is nothing to offset";
}

TEST(Forward, TheSumIsStoredInItsOwnDtype) {
  // 1 + 2^-8 is a tie of bf16, and goes to the even 1; 3 + 2^-8 + ... is above the tie.
  EXPECT_EQ(stored_sum({1}, {0x1p-8}, DType::bf16), std::vector<double>{1});
  EXPECT_EQ(stored_sum({1}, {0x1p-8 + 0x1p-16}, DType::bf16), std::vector<double>{1 + 0x1p-7});
  EXPECT_EQ(stored_sum({1}, {0x1p-8}, DType::f32), std::vector<double>{1 + 0x1p-8});
}

TEST(Output, EachRoundingByHand) {
  // To bf16, xhat is 1 + 2^-7.
  const double xhat = 1 + 0x1p-8 + 0x1p-20, w = 1.5;
  const Output once{Rounding::once, DType::bf16, DType::bf16, DType::bf16, DType::f32};
  EXPECT_EQ(once(xhat, w, 0), 1.5 + 0x1p-7) << "1.5 + 0.75 * 2^-7 and a little";
  const Output via_x{Rounding::via_x, DType::bf16, DType::bf16, DType::bf16, DType::f32};
  EXPECT_EQ(via_x(xhat, w, 0), 1.5 + 0x1p-6) << "1.5 + 1.5 * 2^-7: a tie, to even";
  // The product is rounded before beta is added: 2^-9 is lost in it, and twice that is not.
  EXPECT_EQ(via_x(1, 1 + 0x1p-9, 0x1p-9), 1);
  EXPECT_EQ(once(1, 1 + 0x1p-9, 0x1.01p-9), 1 + 0x1p-7);
  // 16-bit x beside f32 parameters and y: xhat alone is rounded, via_param not even that.
  const Output mixed{Rounding::via_x, DType::bf16, DType::f32, DType::f32, DType::f32};
  EXPECT_EQ(mixed(xhat, w, 0), (1 + 0x1p-7) * w);
  const Output param{Rounding::via_param, DType::bf16, DType::f32, DType::f32, DType::f32};
  EXPECT_EQ(param(xhat, 1, 0), xhat);
  // Products are numbers of f32 before they are rounded to 16 bits.
  EXPECT_EQ(via_x(1 + 0x1p-7, 1 + 0x1p-8 + 0x1p-20, 0),
            rounded(DType::bf16, static_cast<float>((1 + 0x1p-7) * (1 + 0x1p-8 + 0x1p-20))));
}

/// Everything that a problem of the family can have, and the loss whose gradient backward is:
/// sum(dy * y) + sum(ds * s), with s = x + residual.
struct Case {
  explicit Case(Operation operation, std::int64_t groups, double offset) {
    norm = norm_of(6, 5, nullptr, nullptr, 0.01, operation);
    norm.gamma_offset = offset;
    norm.param_groups = groups;
    norm.rows_per_group = 2;
    for (std::int64_t index = 0; index < norm.rows * norm.cols; ++index) {
      x.push_back(testing::random_normal(1, index));
      residual.push_back(testing::random_normal(5, index));
      dy.push_back(testing::random_normal(2, index));
      ds.push_back(testing::random_normal(6, index));
    }
    for (std::int64_t index = 0; index < groups * norm.cols; ++index) {
      gamma.push_back(1.5 - offset + 0.3 * testing::random_normal(3, index));
      beta.push_back(testing::random_normal(4, index));
    }
    norm.gamma = gamma.data();
    norm.beta = beta.data();
  }
  std::vector<double> rows() const { return stored_sum(x, residual, DType::f64); }
  double loss() const {
    const auto s = rows();
    const auto out = forward(norm, s.data());
    double sum = 0;
    for (std::size_t index = 0; index < s.size(); ++index) {
      sum += dy[index] * out.y[index] + ds[index] * s[index];
    }
    return sum;
  }
  /// The derivative of the loss by each element, by central differences.
  std::vector<double> differences(std::vector<double> Case::*variable) {
    std::vector<double> gradient;
    for (double& value : this->*variable) {
      const double kept = value, step = 1e-5;
      value = kept + step;
      const double above = loss();
      value = kept - step;
      gradient.push_back((above - loss()) / (2 * step));
      value = kept;
    }
    return gradient;
  }

  Norm norm;
  std::vector<double> x, residual, dy, ds, gamma, beta;
};

void expect_near(const std::vector<double>& a, const std::vector<double>& b, double error) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t index = 0; index < a.size(); ++index) EXPECT_NEAR(a[index], b[index], error);
}

/// Operation, groups, gamma_offset.
class Gradient : public ::testing::TestWithParam<std::tuple<Operation, int, double>> {};
INSTANTIATE_TEST_SUITE_P(Norms, Gradient,
                         ::testing::Combine(::testing::Values(Operation::layer_norm,
                                                              Operation::rms_norm),
                                            ::testing::Values(1, 2, 5), ::testing::Values(0, 1)));

TEST_P(Gradient, IsTheGradientOfForward) {
  const auto [operation, groups, offset] = GetParam();
  Case c(operation, groups, offset);
  const auto s = c.rows();
  const auto kept = forward(c.norm, s.data());
  Saved saved;
  saved.dy = c.dy.data();
  saved.ds = c.ds.data();
  saved.rows = s.data();
  saved.mean = kept.mean.data();
  saved.rstd = kept.rstd.data();
  const auto from_rows = backward(c.norm, saved);
  expect_near(from_rows.d, c.differences(&Case::x), 1e-8);
  expect_near(from_rows.d, c.differences(&Case::residual), 1e-8);
  expect_near(from_rows.dgamma, c.differences(&Case::gamma), 1e-8);
  expect_near(from_rows.dbeta, c.differences(&Case::beta), 1e-8);
  saved.y = kept.y.data();
  const auto from_y = backward(c.norm, saved);
  expect_near(from_y.d, from_rows.d, 1e-12);
  expect_near(from_y.dgamma, from_rows.dgamma, 1e-12);
  expect_near(from_y.dbeta, from_rows.dbeta, 1e-12);
}

TEST_P(Gradient, WithoutDyOnlyDsPasses) {
  const auto [operation, groups, offset] = GetParam();
  const Case c(operation, groups, offset);
  Saved saved;
  saved.ds = c.ds.data();
  const auto out = backward(c.norm, saved);
  EXPECT_EQ(out.d, c.ds);
  EXPECT_EQ(out.dgamma, std::vector<double>(c.gamma.size()));
  EXPECT_EQ(out.dbeta, std::vector<double>(c.beta.size()));
}

}  // namespace
}  // namespace fusednorm::reference
