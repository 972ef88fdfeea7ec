// SPDX-License-Identifier: Apache-2.0
// The plain forward kernels, in float or double, and their mutations.
#include <cmath>
#include <vector>

#include "naive_backend.h"
#include "naive_rows.h"

namespace fusednorm::testing {
namespace {

template <typename T>
struct Statistics {
  T high, low, rstd;  // mean = high + low
};

template <typename T>
Statistics<T> row_statistics(const std::vector<T>& x, const ForwardProblem& problem,
                             Mutation mutation) {
  const std::int64_t n = problem.cols;
  const T count = static_cast<T>(n);
  const std::int64_t chain = mutation == Mutation::serial_row_sums ? n
                             : mutation == Mutation::order_by_rows ? 2 + problem.rows
                             : mutation == Mutation::order_by_residual && problem.has_residual ? 16
                                                                                               : 8;
  const auto sum = [&](const auto& term) {
    return mutation == Mutation::sixteen_bit_sums ? bf16_sum<T>(n, term)
                                                  : tree_sum<T>(0, n, chain, term);
  };
  const T eps = static_cast<T>(mutation == Mutation::eps_in_f16 ? rounded(DType::f16, problem.eps)
                                                                : problem.eps);
  if (problem.operation == Operation::rms_norm) {
    return {T(0), T(0),
            T(1) / std::sqrt(sum([&](std::int64_t i) { return x[i] * x[i]; }) / count + eps)};
  }
  // Around the first element, as the reference does: exact for constant rows.
  const T origin = std::isfinite(x[0]) && mutation != Mutation::serial_row_sums ? x[0] : T(0);
  const T offset = sum([&](std::int64_t i) { return x[i] - origin; }) / count;
  const T high = origin + offset;
  T low = std::isfinite(high) ? sum([&](std::int64_t i) { return x[i] - high; }) / count : T(0);
  if (mutation == Mutation::rounded_mean) low = 0;
  T squares = sum([&](std::int64_t i) {
    const T d = (x[i] - high) - low;
    return d * d;
  });
  if (mutation == Mutation::padding_in_variance) {
    squares += static_cast<T>((8 - n % 8) % 8) * high * high;
  }
  T variance = squares / count;
  if (mutation == Mutation::variance_over_n_less_1) variance = squares / (count - 1);
  if (mutation == Mutation::one_pass_variance) {
    variance = sum([&](std::int64_t i) { return x[i] * x[i]; }) / count - high * high;
  }
  return {high, low, T(1) / std::sqrt(variance + eps)};
}

template <typename T>
class NaiveForward {
 public:
  NaiveForward(const ForwardProblem& p, const ForwardPlaces& places, Memory& memory,
               Mutation mutation)
      : problem_(p),
        mutation_(mutation),
        parameters_(p, places.gamma, places.beta, memory, mutation),
        x_(rows_of(p, p.x_dtype, memory.at(places.x), p.x_row_stride, p.x_outer_stride, mutation)),
        y_(rows_of(p, p.y_dtype, memory.at(places.y), p.y_row_stride, p.y_outer_stride, mutation)),
        residual_(rows_of(p, row_dtype(p), memory.at(places.residual), p.residual_row_stride,
                          p.residual_outer_stride, mutation)),
        sum_(rows_of(p, row_dtype(p), memory.at(places.sum), p.sum_row_stride, p.sum_outer_stride,
                     mutation)) {}

  /// The row to be normalised; with a residual the sum is stored.
  std::vector<T> input(std::int64_t row) const {
    std::vector<T> values(static_cast<std::size_t>(problem_.cols));
    std::vector<double> sums(values.size());
    for (std::int64_t col = 0; col < problem_.cols; ++col) {
      values[col] = static_cast<T>(x_.read(row, col));
      if (!problem_.has_residual) continue;
      const T exact = values[col] + static_cast<T>(residual_.read(row, col));
      sums[col] = mutation_ == Mutation::truncated_sum ? truncated(sum_.dtype, exact)
                                                       : rounded(sum_.dtype, exact);
      if (mutation_ == Mutation::norm_of_x) continue;
      values[col] = mutation_ == Mutation::exact_sum ? exact : static_cast<T>(sums[col]);
    }
    for (std::int64_t col = 0; col < problem_.cols && problem_.has_residual; ++col) {
      sum_.write(row, col, sums[col]);
    }
    return values;
  }

  double output(std::int64_t row, std::int64_t col, T xhat) const {
    const T scale = parameters_.scale(row, col), shift = parameters_.shift(row, col);
    if (problem_.rounding == Rounding::once || mutation_ == Mutation::rounded_once) {
      if (mutation_ == Mutation::rounded_twice) xhat = narrowed(problem_.y_dtype, xhat);
      const T y = xhat * scale + shift;
      return mutation_ == Mutation::truncated_store ? truncated(problem_.y_dtype, y) : y;
    }
    const bool via_x =
        (problem_.rounding == Rounding::via_x) != (mutation_ == Mutation::via_the_wrong_dtype);
    const T known = narrowed(via_x ? row_dtype(problem_) : problem_.param_dtype, xhat);
    const T product = known * scale;
    return (mutation_ == Mutation::product_not_rounded ? product
                                                       : narrowed(problem_.y_dtype, product)) +
           shift;
  }

  void write(std::int64_t row, std::int64_t col, double value) const { y_.write(row, col, value); }

 private:
  static T narrowed(DType dtype, T value) { return static_cast<T>(rounded(dtype, value)); }

  const ForwardProblem& problem_;
  Mutation mutation_;
  Parameters<T, ForwardProblem> parameters_;
  Rows x_, y_, residual_, sum_;
};

template <typename T>
void naive_forward(const ForwardProblem& problem, const ForwardPlaces& places, Memory& memory,
                   Mutation mutation) {
  const NaiveForward<T> rows(problem, places, memory, mutation);
  const DType stats = compute_dtype(problem.x_dtype);
  bool nan_seen = false;
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    const std::vector<T> x = rows.input(row);
    Statistics<T> s{};
    if (problem.cols > 0) {
      s = row_statistics(x, problem, mutation);
    }
    if (mutation == Mutation::nan_spreads && nan_seen) s.rstd = NAN;
    nan_seen = nan_seen || std::isnan(s.rstd);
    for (std::int64_t col = 0; col < problem.cols; ++col) {
      rows.write(row, col, rows.output(row, col, ((x[col] - s.high) - s.low) * s.rstd));
    }
    if (mutation == Mutation::past_the_row) rows.write(row, problem.cols, 0);
    T mean = s.high + s.low, rstd = s.rstd;
    if (mutation == Mutation::statistics_in_bf16) {
      mean = static_cast<T>(as_bf16(mean));
      rstd = static_cast<T>(as_bf16(rstd));
    }
    if (problem.save_mean) store(stats, memory.at(places.mean), row, mean);
    if (problem.save_rstd) store(stats, memory.at(places.rstd), row, rstd);
  }
  if (mutation == Mutation::before_the_buffer) memory.at(places.y)[-1] = std::byte{0};
}

}  // namespace

Status NaiveBackend::forward(const ForwardProblem& problem, const ForwardPlaces& places,
                             Memory& memory) {
  compute_dtype(problem.x_dtype) == DType::f64
      ? naive_forward<double>(problem, places, memory, mutation_)
      : naive_forward<float>(problem, places, memory, mutation_);
  return {};
}

}  // namespace fusednorm::testing
