// SPDX-License-Identifier: Apache-2.0
// The plain backward kernels, in float or double, and their mutations.
#include <cmath>
#include <vector>

#include "naive_backend.h"
#include "naive_rows.h"

namespace fusednorm::testing {
namespace {

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
