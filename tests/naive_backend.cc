// SPDX-License-Identifier: Apache-2.0
// The plain kernels, in float or double, and their mutations.
#include "naive_backend.h"

#include <cmath>
#include <vector>

#include "reference/element.h"
#include "row_layout.h"

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

/// The parameters of a problem.
template <typename T, typename Problem>
class Parameters {
 public:
  Parameters(const Problem& problem, Place gamma, Place beta, const Memory& memory,
             Mutation mutation)
      : problem_(problem), gamma_(gamma), beta_(beta), memory_(memory), mutation_(mutation) {}

  std::int64_t group(std::int64_t row) const {
    const std::int64_t rows = mutation_ == Mutation::group_by_row ? 1 : problem_.rows_per_group;
    return param_row(row, rows, problem_.param_groups);
  }
  /// gamma + gamma_offset.
  T scale(std::int64_t row, std::int64_t col) const {
    if (!problem_.has_gamma) return 1;
    const T gamma = at(gamma_, row, col);
    if (mutation_ == Mutation::forgotten_offset) return gamma;
    const T sum = gamma + static_cast<T>(problem_.gamma_offset);
    return mutation_ == Mutation::offset_in_param_dtype
               ? static_cast<T>(rounded(problem_.param_dtype, sum))
               : sum;
  }
  T shift(std::int64_t row, std::int64_t col) const {
    return problem_.has_beta && mutation_ != Mutation::forgotten_beta ? at(beta_, row, col) : T(0);
  }

 private:
  T at(Place place, std::int64_t row, std::int64_t col) const {
    const std::int64_t next = mutation_ == Mutation::wrong_group ? 1 : 0;
    const std::int64_t used = (group(row) + next) % problem_.param_groups;
    return static_cast<T>(
        load(problem_.param_dtype, memory_.at(place), used * problem_.cols + col));
  }

  const Problem& problem_;
  Place gamma_, beta_;
  const Memory& memory_;
  Mutation mutation_;
};

/// An array of rows.
struct Rows {
  DType dtype;
  std::byte* data;
  RowLayout layout;

  double read(std::int64_t row, std::int64_t col) const {
    return load(dtype, data, layout.start_of(row) + col);
  }
  void write(std::int64_t row, std::int64_t col, double value) const {
    store(dtype, data, layout.start_of(row) + col, value);
  }
};

template <typename Problem>
Rows rows_of(const Problem& problem, DType dtype, std::byte* data, std::int64_t row_stride,
             std::int64_t outer_stride, Mutation mutation) {
  const bool ignored = mutation == Mutation::ignored_outer_stride;
  return {dtype, data,
          row_layout(problem.cols, row_stride, ignored ? 0 : problem.inner_rows, outer_stride)};
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

template <typename T>
class NaiveBackward {
 public:
  NaiveBackward(const BackwardProblem& p, const BackwardPlaces& places, Memory& memory,
                Mutation mutation)
      : problem_(p),
        places_(places),
        memory_(memory),
        mutation_(mutation),
        parameters_(p, places.gamma, places.beta, memory, mutation),
        dy_(rows_of(p, p.y_dtype, memory.at(places.dy), p.dy_row_stride, p.dy_outer_stride,
                    mutation)),
        source_(rows_of(p, p.source == Source::y ? p.y_dtype : row_dtype(p),
                        memory.at(places.source), p.source_row_stride, p.source_outer_stride,
                        mutation)),
        dx_(rows_of(p, p.x_dtype, memory.at(places.dx), p.dx_row_stride, p.dx_outer_stride,
                    mutation)),
        ds_(rows_of(p, row_dtype(p), memory.at(places.ds), p.ds_row_stride, p.ds_outer_stride,
                    mutation)),
        dresidual_(rows_of(p, row_dtype(p), memory.at(places.dresidual), p.dresidual_row_stride,
                           p.dresidual_outer_stride, mutation)) {}

  T dy(std::int64_t row, std::int64_t col) const { return static_cast<T>(dy_.read(row, col)); }
  T statistic(Place place, std::int64_t row) const {
    return static_cast<T>(load(compute_dtype(problem_.x_dtype), memory_.at(place), row));
  }
  T xhat(std::int64_t row, std::int64_t col) const {
    const T value = static_cast<T>(source_.read(row, col));
    if (problem_.source == Source::y) {
      return (value - parameters_.shift(row, col)) / parameters_.scale(row, col);
    }
    return (value - (rms() ? T(0) : statistic(places_.mean, row))) * statistic(places_.rstd, row);
  }

  /// dgamma and dbeta, before dx may overwrite what they are made from.
  void columns(std::int64_t chain) {
    for (std::int64_t group = 0; group < problem_.param_groups; ++group) {
      std::vector<std::int64_t> rows;
      for (std::int64_t row = 0; row < problem_.rows && problem_.has_dy; ++row) {
        const bool mine = parameters_.group(row) == group;
        const bool next = mutation_ == Mutation::mixed_groups && row + 1 < problem_.rows &&
                          parameters_.group(row + 1) == group;
        if (mine || next) rows.push_back(row);
      }
      if (mutation_ == Mutation::last_block_missing) rows.resize(rows.size() / 64 * 64);
      columns_of(group, rows, chain);
    }
  }

  void dx(std::int64_t row) {
    const std::vector<T> through = through_norm(row);
    for (std::int64_t col = 0; col < problem_.cols; ++col) {
      T d = through[col];
      if (mutation_ == Mutation::ds_after_rounding) {
        d = static_cast<T>(rounded(problem_.x_dtype, d));
      }
      const bool adds = problem_.has_ds && mutation_ != Mutation::forgotten_ds;
      if (adds && mutation_ == Mutation::fused_ds) {
        const T rstd = statistic(places_.rstd, row);
        d = std::fma(rstd, through[col] / rstd, static_cast<T>(ds_.read(row, col)));
      } else if (adds) {
        d += static_cast<T>(ds_.read(row, col));
      }
      if (adds && mutation_ == Mutation::ds_twice) d += static_cast<T>(ds_.read(row, col));
      if (problem_.want_dx) dx_.write(row, col, d);
      if (mutation_ == Mutation::dresidual_from_dx) {
        d = static_cast<T>(rounded(problem_.x_dtype, d));
      }
      if (problem_.want_dresidual) dresidual_.write(row, col, d);
    }
  }

 private:
  bool rms() const { return problem_.operation == Operation::rms_norm; }

  void columns_of(std::int64_t group, const std::vector<std::int64_t>& rows, std::int64_t chain) {
    if (!problem_.has_dy && mutation_ == Mutation::dy_that_is_not_there) return;
    const auto count = static_cast<std::int64_t>(rows.size());
    const auto sum = [&](const auto& term) {
      return mutation_ == Mutation::bf16_column_sums ? bf16_sum<T>(count, term)
                                                     : tree_sum<T>(0, count, chain, term);
    };
    for (std::int64_t col = 0; col < problem_.cols; ++col) {
      const std::int64_t at = group * problem_.cols + col;
      if (problem_.want_dgamma) {
        store(problem_.param_dtype, memory_.at(places_.dgamma), at,
              sum([&](std::int64_t i) { return dy(rows[i], col) * xhat(rows[i], col); }));
      }
      if (problem_.want_dbeta) {
        store(problem_.param_dtype, memory_.at(places_.dbeta), at,
              sum([&](std::int64_t i) { return dy(rows[i], col); }));
      }
    }
  }

  /// d without ds.
  std::vector<T> through_norm(std::int64_t row) const {
    std::vector<T> g(static_cast<std::size_t>(problem_.cols)), normal(g), d(g);
    if (!problem_.has_dy) return d;
    for (std::int64_t col = 0; col < problem_.cols; ++col) {
      T scale = parameters_.scale(row, col);
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
      d[col] = statistic(places_.rstd, row) * (centred - normal[col] * slope);
    }
    return d;
  }

  const BackwardProblem& problem_;
  const BackwardPlaces& places_;
  Memory& memory_;
  Mutation mutation_;
  Parameters<T, BackwardProblem> parameters_;
  Rows dy_, source_, dx_, ds_, dresidual_;
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
    const bool wanted = problem.want_dx || problem.want_dresidual;
    for (std::int64_t row = 0; wanted && row < problem.rows; ++row) {
      kernel.dx(row);
    }
  };
  compute_dtype(problem.x_dtype) == DType::f64
      ? go(NaiveBackward<double>(problem, places, memory, mutation_))
      : go(NaiveBackward<float>(problem, places, memory, mutation_));
  return {};
}

}  // namespace fusednorm::testing
