// SPDX-License-Identifier: Apache-2.0
// Where the rows of an array begin, and which row of the parameter tables they use.
#pragma once

#include <cstdint>

#include "fusednorm/problem.h"
#include "host_device.h"

namespace fusednorm {

/// A row stride with `packed` resolved.
FUSEDNORM_HOST_DEVICE constexpr std::int64_t resolved_stride(std::int64_t stride,
                                                             std::int64_t cols) {
  return stride == packed ? cols : stride;
}

/// In elements, `packed` resolved.
struct RowLayout {
  std::int64_t row_stride = 0;
  std::int64_t inner_rows = 0;    ///< 0: one level of rows
  std::int64_t outer_stride = 0;  ///< from one group of inner_rows rows to the next

  FUSEDNORM_HOST_DEVICE constexpr std::int64_t start_of(std::int64_t row) const {
    return inner_rows == 0 ? row * row_stride
                           : row / inner_rows * outer_stride + row % inner_rows * row_stride;
  }
};

FUSEDNORM_HOST_DEVICE constexpr RowLayout row_layout(std::int64_t cols, std::int64_t row_stride,
                                                     std::int64_t inner_rows = 0,
                                                     std::int64_t outer_stride = packed) {
  const std::int64_t stride = resolved_stride(row_stride, cols);
  return {stride, inner_rows, outer_stride == packed ? inner_rows * stride : outer_stride};
}

/// The row of gamma and beta that belongs to `row` of the data.
FUSEDNORM_HOST_DEVICE constexpr std::int64_t param_row(std::int64_t row,
                                                       std::int64_t rows_per_group,
                                                       std::int64_t param_groups) {
  return row / rows_per_group % param_groups;
}

}  // namespace fusednorm
