// SPDX-License-Identifier: Apache-2.0
// What the naive kernels of both passes read, write and add up, with the mutations of those.
#pragma once

#include <cmath>
#include <cstdint>

#include "naive_backend.h"
#include "reference/element.h"
#include "row_layout.h"

namespace fusednorm::testing {

using reference::load;
using reference::rounded;
using reference::store;

inline double as_bf16(double value) {
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

inline double truncated(DType dtype, double value) {
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

}  // namespace fusednorm::testing
