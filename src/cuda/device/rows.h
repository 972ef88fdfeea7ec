// SPDX-License-Identifier: Apache-2.0
// Where the rows of an array lie and which row of the parameters each uses: what kernels are given
// to find a row, one or two levels of strides, one or many parameter groups.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fusednorm/dtype.h"
#include "host_device.h"

namespace fusednorm::cuda {

/// n / divisor for 0 <= n < 2^63 by a multiplication: a 64-bit division takes about 70 instructions
/// on a GPU, this 10. With divisor in (2^(s-1), 2^s] and multiplier = ceil(2^(63+s) / divisor),
/// n * multiplier / 2^(63+s) exceeds n / divisor by less than n / 2^63 / divisor: never by enough
/// to reach the next integer.
struct Divider {
  std::uint64_t multiplier = 0;  ///< 0: the divisor is 1
  int shift = 0;                 ///< s - 1

  Divider() = default;
  explicit Divider(std::int64_t divisor) {
    if (divisor <= 1) return;
    int s = 1;
    while (s < 63 && (std::uint64_t{1} << s) < static_cast<std::uint64_t>(divisor)) ++s;
    __extension__ using Wide = unsigned __int128;
    const Wide d = static_cast<Wide>(divisor);
    multiplier = static_cast<std::uint64_t>(((Wide{1} << (63 + s)) + d - 1) / d);
    shift = s - 1;
  }

  FUSEDNORM_HOST_DEVICE std::int64_t quotient(std::int64_t n) const {
    if (multiplier == 0) return n;
#if defined(__CUDA_ARCH__)
    const std::uint64_t high = __umul64hi(static_cast<std::uint64_t>(n), multiplier);
#else
    __extension__ using Wide = unsigned __int128;
    const auto high = static_cast<std::uint64_t>(
        (static_cast<Wide>(static_cast<std::uint64_t>(n)) * multiplier) >> 64);
#endif
    return static_cast<std::int64_t>(high >> shift);
  }
};

/// An array of rows; strides in bytes. Null data: the problem has no such array.
struct RowArray {
  std::byte* data = nullptr;
  std::int64_t row_bytes = 0;
  std::int64_t outer_bytes = 0;  ///< from one group of inner_rows rows to the next
  std::int64_t step_bytes = 0;   ///< from a thread's row to its next, where steps are even
  DType dtype = DType::f32;
  int element_bytes = 4;
};

/// The rows of a problem.
struct RowMap {
  std::int64_t rows = 0;
  std::int64_t inner_rows = 0;  ///< 0: one level
  Divider inner;
  std::int64_t groups = 1;          ///< rows of gamma and beta
  std::int64_t rows_per_group = 1;  ///< consecutive rows that share one of them
  Divider per_group;
  std::int64_t cycle_rows = 1;  ///< groups * rows_per_group, or more than there are rows
  Divider per_cycle;
  /// A thread's next row lies step_bytes after its last one. Otherwise its address is computed
  /// anew.
  int even_steps = 1;

  template <typename Problem>
  static RowMap of(const Problem& p) {
    RowMap map;
    map.rows = p.rows;
    map.inner_rows = p.inner_rows;
    map.inner = Divider(p.inner_rows);
    map.groups = p.param_groups;
    map.rows_per_group = p.rows_per_group;
    map.per_group = Divider(p.rows_per_group);
    // The product may be too large for an int64.
    map.cycle_rows =
        p.param_groups > p.rows / p.rows_per_group ? p.rows + 1 : p.param_groups * p.rows_per_group;
    map.per_cycle = Divider(map.cycle_rows);
    return map;
  }

  /// Bytes from an array's start to `row`.
  FUSEDNORM_HOST_DEVICE std::int64_t offset(const RowArray& array, std::int64_t row) const {
    if (inner_rows == 0) return row * array.row_bytes;
    const std::int64_t outer = inner.quotient(row);
    return outer * array.outer_bytes + (row - outer * inner_rows) * array.row_bytes;
  }

  /// The row of gamma and beta that `row` uses.
  FUSEDNORM_HOST_DEVICE std::int64_t group_of(std::int64_t row) const {
    if (groups == 1) return 0;
    const std::int64_t in_cycle = row - per_cycle.quotient(row) * cycle_rows;
    return per_group.quotient(in_cycle);
  }

  /// The index-th row of a group.
  FUSEDNORM_HOST_DEVICE std::int64_t row_of(std::int64_t group, std::int64_t index) const {
    if (groups == 1) return index;
    const std::int64_t cycle = per_group.quotient(index);
    return (cycle * (groups - 1) + group) * rows_per_group + index;
  }

  FUSEDNORM_HOST_DEVICE std::int64_t rows_of(std::int64_t group) const {
    if (groups == 1) return rows;
    const std::int64_t cycles = per_cycle.quotient(rows);
    const std::int64_t left = rows - cycles * cycle_rows - group * rows_per_group;
    return cycles * rows_per_group + (left < 0 ? 0 : left < rows_per_group ? left : rows_per_group);
  }
};

}  // namespace fusednorm::cuda
