// The plain kernels, in float or double, and their mutations.
#include "naive_backend.h"

#include <cmath>
#include <vector>

#include "reference/element.h"

namespace fusednorm::testing {
namespace {

using reference::load;
using reference::rounded;
using reference::store;

double as_bf16(double value) {
  return rounded(DType::bf16, value);
}

/// Sums term(begin) … term(end - 1) in halves, down to chains of `chain`.
template <typename T, typename Term>
T tree_sum(std::int64_t begin, std::int64_t end, std::int64_t chain, const Term& term) {
  if (end - begin > chain) {
    const std::int64_t middle = begin + (end - begin) / 2;
    return tree_sum<T>(begin, middle, chain, term) + tree_sum<T>(middle, end, chain, term);
  }
  T sum = 0;
  for (std::int64_t index = begin; index < end; ++index) {
    sum += term(index);
  }
  return sum;
}

template <typename T, typename Term>
T bf16_sum(std::int64_t count, const Term& term) {
  double sum = 0;
  for (std::int64_t index = 0; index < count; ++index) {
    sum = as_bf16(sum + term(index));
  }
  return static_cast<T>(sum);
}

double truncated(DType dtype, double value) {
  const double nearest = rounded(dtype, value);
  if (std::fabs(nearest) <= std::fabs(value) || !std::isfinite(nearest)) {
    return nearest;
  }
  return rounded(dtype, value - (nearest - value) * 1.0001);
}

std::int64_t stride_of(std::int64_t stride, std::int64_t cols) {
  return stride == packed ? cols : stride;
}

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
void naive_forward(const ForwardProblem& problem, const ForwardPlaces& places, Memory& memory,
                   Mutation mutation) {
  const std::int64_t x_stride = stride_of(problem.x_row_stride, problem.cols);
  const std::int64_t y_stride = stride_of(problem.y_row_stride, problem.cols);
  const DType stats = compute_dtype(problem.x_dtype);
  std::vector<T> x(static_cast<std::size_t>(problem.cols));
  bool nan_seen = false;
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    for (std::int64_t col = 0; col < problem.cols; ++col) {
      x[col] = static_cast<T>(load(problem.x_dtype, memory.at(places.x), row * x_stride + col));
    }
    Statistics<T> s{};
    if (problem.cols > 0) {
      s = row_statistics(x, problem, mutation);
    }
    if (mutation == Mutation::nan_spreads && nan_seen) s.rstd = NAN;
    nan_seen = nan_seen || std::isnan(s.rstd);
    for (std::int64_t col = 0; col < problem.cols; ++col) {
      T y = ((x[col] - s.high) - s.low) * s.rstd;
      if (mutation == Mutation::rounded_twice) y = static_cast<T>(rounded(problem.y_dtype, y));
      if (problem.has_gamma) {
        y *= static_cast<T>(load(problem.param_dtype, memory.at(places.gamma), col));
      }
      if (problem.has_beta && mutation != Mutation::forgotten_beta) {
        y += static_cast<T>(load(problem.param_dtype, memory.at(places.beta), col));
      }
      store(problem.y_dtype, memory.at(places.y), row * y_stride + col,
            mutation == Mutation::truncated_store ? truncated(problem.y_dtype, y) : y);
    }
    if (mutation == Mutation::past_the_row) {
      store(problem.y_dtype, memory.at(places.y), row * y_stride + problem.cols, 0);
    }
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

template <typename T>
class NaiveBackward {
 public:
  NaiveBackward(const BackwardProblem& problem, const BackwardPlaces& places, Memory& memory,
                Mutation mutation)
      : problem_(problem), places_(places), memory_(memory), mutation_(mutation) {}

  T dy(std::int64_t row, std::int64_t col) const {
    return static_cast<T>(load(problem_.y_dtype, memory_.at(places_.dy),
                               row * stride_of(problem_.dy_row_stride, problem_.cols) + col));
  }
  T gamma(std::int64_t col) const { return parameter(problem_.has_gamma, places_.gamma, col, 1); }
  T statistic(Place place, std::int64_t row) const {
    return static_cast<T>(load(compute_dtype(problem_.x_dtype), memory_.at(place), row));
  }
  T xhat(std::int64_t row, std::int64_t col) const {
    const bool from_y = problem_.source == Source::y;
    const T value = static_cast<T>(
        load(from_y ? problem_.y_dtype : problem_.x_dtype, memory_.at(places_.source),
             row * stride_of(problem_.source_row_stride, problem_.cols) + col));
    return from_y ? (value - parameter(problem_.has_beta, places_.beta, col, 0)) / gamma(col)
                  : (value - (rms() ? T(0) : statistic(places_.mean, row))) *
                        statistic(places_.rstd, row);
  }

  /// dgamma and dbeta, before dx may overwrite what they are made from.
  void columns(std::int64_t chain) {
    std::int64_t rows = problem_.rows;
    if (mutation_ == Mutation::last_block_missing) rows = rows / 64 * 64;
    const auto sum = [&](const auto& term) {
      return mutation_ == Mutation::bf16_column_sums ? bf16_sum<T>(rows, term)
                                                     : tree_sum<T>(0, rows, chain, term);
    };
    for (std::int64_t col = 0; col < problem_.cols; ++col) {
      if (problem_.want_dgamma) {
        store(problem_.param_dtype, memory_.at(places_.dgamma), col,
              sum([&](std::int64_t row) { return dy(row, col) * xhat(row, col); }));
      }
      if (problem_.want_dbeta) {
        store(problem_.param_dtype, memory_.at(places_.dbeta), col,
              sum([&](std::int64_t row) { return dy(row, col); }));
      }
    }
  }

  void dx(std::int64_t row) {
    std::vector<T> g(static_cast<std::size_t>(problem_.cols)), normal(g);
    for (std::int64_t col = 0; col < problem_.cols; ++col) {
      T scale = gamma(col);
      if (mutation_ == Mutation::clamped_gamma && std::fabs(scale) < T(1e-3)) scale = T(1e-3);
      g[col] = dy(row, col) * scale;
      normal[col] = xhat(row, col);
    }
    const T count = static_cast<T>(problem_.cols);
    const T mean = tree_sum<T>(0, problem_.cols, 8, [&](auto i) { return g[i]; }) / count;
    const T slope =
        tree_sum<T>(0, problem_.cols, 8, [&](auto i) { return g[i] * normal[i]; }) / count;
    for (std::int64_t col = 0; col < problem_.cols; ++col) {
      const T centred =
          rms() || mutation_ == Mutation::forgotten_mean_of_g ? g[col] : g[col] - mean;
      store(problem_.x_dtype, memory_.at(places_.dx),
            row * stride_of(problem_.dx_row_stride, problem_.cols) + col,
            statistic(places_.rstd, row) * (centred - normal[col] * slope));
    }
  }

 private:
  bool rms() const { return problem_.operation == Operation::rms_norm; }
  T parameter(bool present, Place place, std::int64_t col, T otherwise) const {
    return present ? static_cast<T>(load(problem_.param_dtype, memory_.at(place), col)) : otherwise;
  }

  const BackwardProblem& problem_;
  const BackwardPlaces& places_;
  Memory& memory_;
  Mutation mutation_;
};

}  // namespace

Status NaiveBackend::forward(const ForwardProblem& problem, const ForwardPlaces& places,
                             Memory& memory) {
  compute_dtype(problem.x_dtype) == DType::f64
      ? naive_forward<double>(problem, places, memory, mutation_)
      : naive_forward<float>(problem, places, memory, mutation_);
  return {};
}

Status NaiveBackend::backward(const BackwardProblem& problem, const BackwardPlaces& places,
                              Memory& memory) {
  const auto go = [&](auto kernel) {
    kernel.columns(mutation_ == Mutation::serial_column_sums ? problem.rows
                   : mutation_ == Mutation::order_by_run     ? 8 << (++runs_ % 2)
                   : mutation_ == Mutation::order_by_threads ? 8 * threads_
                                                             : 8);
    for (std::int64_t row = 0; problem.want_dx && row < problem.rows; ++row) {
      kernel.dx(row);
    }
  };
  compute_dtype(problem.x_dtype) == DType::f64
      ? go(NaiveBackward<double>(problem, places, memory, mutation_))
      : go(NaiveBackward<float>(problem, places, memory, mutation_));
  return {};
}

}  // namespace fusednorm::testing
