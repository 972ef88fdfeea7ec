// SPDX-License-Identifier: Apache-2.0
// An array of rows as a run of them sees it.
#pragma once

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

/// Part of a run: rows from `first` on, `step` apart.
inline RowRun part_of(const RowRun& run, std::int64_t begin, std::int64_t count) {
  return {run.first + begin * run.step, run.step, count, run.group};
}

}  // namespace fusednorm::cpu
