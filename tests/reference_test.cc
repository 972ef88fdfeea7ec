// The oracle against what is known without it: hand-computed rows, finite differences, and every
// 16-bit number.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
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

TEST(Forward, ByHand) {
  // Row 0: mean 2, variance 8/3. Row 1 is constant.
  const double x[] = {0, 2, 4, 5, 5, 5};
  const double gamma[] = {1, 2, 3}, beta[] = {10, 20, 30};
  const auto out = forward(2, 3, x, gamma, beta, 4.0 / 3);
  EXPECT_DOUBLE_EQ(out.mean[0], 2);
  EXPECT_DOUBLE_EQ(out.rstd[0], 0.5);  // 8/3 + 4/3 = 4
  EXPECT_DOUBLE_EQ(out.y[0], 9);
  EXPECT_DOUBLE_EQ(out.y[1], 20);
  EXPECT_DOUBLE_EQ(out.y[2], 33);
  EXPECT_DOUBLE_EQ(out.mean[1], 5);
  EXPECT_DOUBLE_EQ(out.y[5], 30);
}

TEST(Forward, ConstantRowsAreExact) {
  for (std::int64_t cols : {1, 3, 7, 1000, 4097}) {
    const std::vector<double> x(static_cast<std::size_t>(cols), 0.1);
    EXPECT_EQ(forward(1, cols, x.data(), nullptr, nullptr, 1e-5).y[cols - 1], 0);
    EXPECT_TRUE(std::isnan(forward(1, cols, x.data(), nullptr, nullptr, 0).y[cols - 1]));
  }
}

/// sum(weight * forward(...).y), the loss whose gradient the backward pass is.
double loss(std::int64_t rows, std::int64_t cols, const std::vector<double>& x,
            const std::vector<double>& gamma, const std::vector<double>& beta,
            const std::vector<double>& weight, Operation operation) {
  const auto out = forward(rows, cols, x.data(), gamma.data(), beta.data(), 0.01, operation);
  double sum = 0;
  for (std::size_t index = 0; index < weight.size(); ++index) {
    sum += weight[index] * out.y[index];
  }
  return sum;
}

TEST(Forward, RootMeanSquareByHand) {
  const double x[] = {3, -4, 0, 0}, gamma[] = {1, 2, 3, 4};
  const auto out = forward(2, 2, x, gamma, nullptr, 12.5, Operation::rms_norm);
  EXPECT_DOUBLE_EQ(out.rstd[0], 0.2);  // 25/2 + 12.5 = 25
  EXPECT_DOUBLE_EQ(out.y[0], 0.6);
  EXPECT_DOUBLE_EQ(out.y[1], -1.6);
  EXPECT_EQ(out.y[2], 0);
  EXPECT_EQ(out.mean[0], 0);
}

class Gradient : public ::testing::TestWithParam<Operation> {};
INSTANTIATE_TEST_SUITE_P(Norms, Gradient,
                         ::testing::Values(Operation::layer_norm, Operation::rms_norm));

TEST_P(Gradient, IsTheGradientOfForward) {
  const std::int64_t rows = 3, cols = 5;
  std::vector<double> x, gamma, beta, dy;
  for (std::int64_t index = 0; index < rows * cols; ++index) {
    x.push_back(testing::random_normal(1, index));
    dy.push_back(testing::random_normal(2, index));
  }
  for (std::int64_t col = 0; col < cols; ++col) {
    gamma.push_back(1.5 + 0.3 * testing::random_normal(3, col));
    beta.push_back(testing::random_normal(4, col));
  }
  const auto saved = forward(rows, cols, x.data(), gamma.data(), beta.data(), 0.01, GetParam());
  const auto from_x = backward(rows, cols, dy.data(), x.data(), saved.mean.data(),
                               saved.rstd.data(), gamma.data(), GetParam());
  const auto from_y = backward_from_y(rows, cols, dy.data(), saved.y.data(), saved.rstd.data(),
                                      gamma.data(), beta.data(), GetParam());
  const auto check = [&](std::vector<double>& variable, const std::vector<double>& gradient,
                         const std::vector<double>& other) {
    for (std::size_t index = 0; index < variable.size(); ++index) {
      const double kept = variable[index], step = 1e-5;
      variable[index] = kept + step;
      const double above = loss(rows, cols, x, gamma, beta, dy, GetParam());
      variable[index] = kept - step;
      const double below = loss(rows, cols, x, gamma, beta, dy, GetParam());
      variable[index] = kept;
      EXPECT_NEAR(gradient[index], (above - below) / (2 * step), 1e-8);
      EXPECT_NEAR(other[index], gradient[index], 1e-12);
    }
  };
  check(x, from_x.dx, from_y.dx);
  check(gamma, from_x.dgamma, from_y.dgamma);
  check(beta, from_x.dbeta, from_y.dbeta);
}

}  // namespace
}  // namespace fusednorm::reference
