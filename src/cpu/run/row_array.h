// SPDX-License-Identifier: Apache-2.0
// An array of rows as a run of them sees it.
#pragma once

#include <initializer_list>

#include "cpu/plan/row_order.h"
#include "fusednorm/dtype.h"
#include "row_layout.h"

namespace fusednorm::cpu {

struct RowArray {
  std::byte* data = nullptr;
  RowLayout layout;
  std::int64_t element = 0;

  RowArray() = default;
  /// `present` says whether the problem has it; its address is not read if not.
  RowArray(bool present, const void* address, RowLayout of_rows, DType dtype)
      : data(present ? static_cast<std::byte*>(const_cast<void*>(address)) : nullptr),
        layout(of_rows),
        element(static_cast<std::int64_t>(size_of(dtype))) {
    if (layout.inner_rows == 1) layout = {layout.outer_stride, 0, 0};
  }

  explicit operator bool() const { return data != nullptr; }

  void* at(std::int64_t row, std::int64_t column = 0) const {
    return data ? data + (layout.start_of(row) + column) * element : nullptr;
  }
  /// In elements, from a row to the one `step` later: 1, or rows of the inner level.
  std::int64_t stride(std::int64_t step) const {
    const std::int64_t inner = layout.inner_rows;
    return inner > 0 && step % inner == 0 ? step / inner * layout.outer_stride
                                          : step * layout.row_stride;
  }
};

/// Where rows a period apart make a run, the run prefetches its share of the next tile: as many
/// rows as it has, in the order of memory. Into the second-level cache: the first level has few
/// places for rows that are so far apart.
inline void prefetch_share(const RowOrder& order, const RowRun& run, std::int64_t cols,
                           std::initializer_list<const RowArray*> arrays) {
  if (order.period == 1) return;
  const std::int64_t place = run.first % order.period;
  const std::int64_t begin = run.first - place + (order.period + place) * order.tile_periods;
  for (const RowArray* array : arrays) {
    const std::int64_t bytes = cols * array->element;
    for (std::int64_t row = begin; row < std::min(begin + order.tile_periods, order.rows); ++row) {
      const auto* from = static_cast<const std::byte*>(array->at(row));
      for (std::int64_t i = 0; i < bytes; i += policy::cache_line)
        __builtin_prefetch(from + i, 0, 2);
    }
  }
}

/// Part of a run: rows from `first` on, `step` apart.
inline RowRun part_of(const RowRun& run, std::int64_t begin, std::int64_t count) {
  return {run.first + begin * run.step, run.step, count, run.group};
}

}  // namespace fusednorm::cpu
