// SPDX-License-Identifier: Apache-2.0
// In which order rows are taken where they have two levels, or parameters in groups: in runs of
// rows with one stride in every array and one row of parameters, which kernels take as if there
// were no others.
//
// Long runs follow the rows in memory. Where these would be short (32 heads with parameters of
// their own, 4 heads inside a packed qkv), rows a `period` apart make a run, and a tile of
// `tile_periods` periods, which fits the second-level cache, is taken run by run: tiles follow the
// rows in memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "cpu/plan/policy.h"
#include "cpu/plan/segments.h"

namespace fusednorm::cpu {

/// Rows first, first + step, …: `count` of them.
struct RowRun {
  std::int64_t first;
  std::int64_t step;
  std::int64_t count;
  std::int64_t group;  ///< of parameters
};

/// A function of the shape alone, for it decides the order of dgamma's sum.
struct RowOrder {
  std::int64_t rows;
  std::int64_t inner;  ///< rows of the inner level; 0: one level
  std::int64_t groups;
  std::int64_t rows_per_group;
  std::int64_t period = 1;  ///< 1: rows in order
  std::int64_t tile_periods = 1;

  template <typename Problem>
  explicit RowOrder(const Problem& p)
      : rows(p.rows),
        inner(p.inner_rows > 1 ? p.inner_rows : 0),
        groups(p.param_groups),
        rows_per_group(
            std::clamp<std::int64_t>(p.rows_per_group, 1, std::max<std::int64_t>(p.rows, 1))) {
    // Threads may share longer rows, which they take in order.
    if (p.cols == 0 || p.cols > max_segment(DType::f64) || run_length() >= policy::min_run) return;
    const std::int64_t most = policy::max_tile_elements / p.cols / policy::min_run;
    const std::int64_t cycle = groups > 1 ? bounded_product(groups, rows_per_group, most) : 1;
    if (cycle > most || inner > most) return;
    // At least 1, which clang-tidy cannot tell of a product.
    const auto common = std::max<std::int64_t>(inner > 0 ? std::lcm(inner, cycle) : cycle, 1);
    if (common > most || common / groups > policy::rows_per_sum || rows / common < 2) return;
    period = common;
    tile_periods =
        std::clamp(policy::tile_elements / p.cols / common, policy::min_run, policy::rows_per_sum);
  }

  /// Whether the rows of a group are taken by themselves, not interleaved with those of others.
  bool by_group() const { return groups > 1 && period == 1; }

  /// What may be given to different tasks.
  std::int64_t units() const { return (rows - 1) / period + 1; }
  std::int64_t row_of(std::int64_t unit) const { return std::min(unit * period, rows); }

  /// Rows of one group among `count` units in a row, at most.
  std::int64_t rows_of_group(std::int64_t count) const {
    return period == 1 ? count : count * (period / groups);
  }
  /// Rows of a group among all.
  std::int64_t rows_of(std::int64_t group) const {
    const std::int64_t cycle = bounded_product(groups, rows_per_group, rows), rest = rows % cycle;
    const std::int64_t before = bounded_product(group, rows_per_group, rest);
    return rows / cycle * rows_per_group +
           std::clamp<std::int64_t>(rest - before, 0, rows_per_group);
  }

  /// body(RowRun) for rows [begin, end), which begin and end with a unit.
  template <typename Body>
  void each_run(std::int64_t begin, std::int64_t end, const Body& body) const {
    if (period == 1) return each_run_in_order(begin, end, body);
    for (std::int64_t at = begin; at < end; at += period * tile_periods) {
      for (std::int64_t row = at; row < std::min(at + period, end); ++row) {
        const std::int64_t count = std::min(tile_periods, (end - row - 1) / period + 1);
        body(RowRun{row, period, count, row / rows_per_group % groups});
      }
    }
  }

  /// Rows [begin, end) of one group, by their number among the rows of that group.
  template <typename Body>
  void each_run_of(std::int64_t group, std::int64_t begin, std::int64_t end,
                   const Body& body) const {
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t cycle = i / rows_per_group, place = i % rows_per_group;
      const std::int64_t row = (cycle * groups + group) * rows_per_group + place;
      const std::int64_t count = std::min(end - i, rows_per_group - place);
      each_run_in_order(row, row + count, body);
      i += count;
    }
  }

  /// body(RowRun) for any rows [begin, end), in order.
  template <typename Body>
  void each_run_in_order(std::int64_t begin, std::int64_t end, const Body& body) const {
    for (std::int64_t row = begin, until; row < end; row = until) {
      until = end;
      if (inner > 0) until = std::min(until, row / inner * inner + inner);
      if (groups > 1)
        until = std::min(until, row / rows_per_group * rows_per_group + rows_per_group);
      body(RowRun{row, 1, until - row, row / rows_per_group % groups});
    }
  }

 private:
  std::int64_t run_length() const {
    const std::int64_t of_group = groups > 1 ? rows_per_group : rows;
    return inner > 0 ? std::min(inner, of_group) : of_group;
  }
  /// Or something above the limit.
  static std::int64_t bounded_product(std::int64_t a, std::int64_t b, std::int64_t limit) {
    return a > 0 && b > limit / a ? limit + 1 : a * b;
  }
};

}  // namespace fusednorm::cpu
