// SPDX-License-Identifier: Apache-2.0
// Rows and parameters of a problem as kernels are given them.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "device/arguments.h"
#include "plan/geometry.h"
#include "row_layout.h"

namespace fusednorm::cuda {

/// Null data: the problem has no such array.
inline RowArray row_array(const void* data, const RowLayout& layout, DType dtype) {
  RowArray array;
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  array.data = static_cast<std::byte*>(const_cast<void*>(data));
  array.row_bytes = layout.row_stride * element;
  array.outer_bytes = layout.outer_stride * element;
  array.dtype = dtype;
  array.element_bytes = static_cast<int>(element);
  return array;
}

/// How far a thread moves in memory when it moves `row_step` rows (0: that is not the same for all
/// rows). Sets even_steps, and one level of rows where two are not needed.
inline void set_steps(RowMap& map, std::int64_t row_step, std::initializer_list<RowArray*> arrays) {
  bool one_level = true;
  for (const RowArray* array : arrays) {
    one_level = one_level && (map.inner_rows == 0 || array->data == nullptr ||
                              array->outer_bytes == map.inner_rows * array->row_bytes);
  }
  if (one_level) map.inner_rows = 0;
  map.even_steps = row_step > 0 && (one_level || row_step % map.inner_rows == 0) ? 1 : 0;
  if (map.even_steps == 0) return;
  for (RowArray* array : arrays) {
    array->step_bytes =
        one_level ? row_step * array->row_bytes : row_step / map.inner_rows * array->outer_bytes;
  }
}

/// How rows of `cols` columns may be read and written: in vectors, which have as many elements as
/// 16 bytes of `row` have, where every row of every array starts on a vector's boundary.
inline Access access_of(const RowMap& map, std::int64_t cols, DType row,
                        std::initializer_list<const RowArray*> arrays) {
  if (interleaves(cols, static_cast<int>(size_of(row)))) return Access::interleaved;
  for (const RowArray* array : arrays) {
    if (array->data == nullptr) continue;
    const std::int64_t bytes = std::min<std::int64_t>(
        vector_bytes,
        vector_bytes / static_cast<std::int64_t>(size_of(row)) * array->element_bytes);
    if (reinterpret_cast<std::uintptr_t>(array->data) % bytes != 0 ||
        array->row_bytes % bytes != 0 || (map.inner_rows > 0 && array->outer_bytes % bytes != 0)) {
      return Access::elements;
    }
  }
  return Access::vectors;
}

/// Whether no output of rows lies among the rows of an input, or in the 16 bytes before them: rows
/// that start anywhere are copied from the boundary before, so with bytes of their neighbours,
/// which others may be writing in place. Nobody reads those bytes from the copy, so a device would
/// do no harm; but a race is a race.
inline bool outputs_apart(const RowMap& map, std::int64_t cols,
                          std::initializer_list<const RowArray*> inputs,
                          std::initializer_list<const RowArray*> outputs) {
  const auto begin = [](const RowArray* array) {
    return reinterpret_cast<std::uintptr_t>(array->data);
  };
  const auto end = [&](const RowArray* array) {
    const std::int64_t inner = map.inner_rows > 0 ? std::min(map.inner_rows, map.rows) : map.rows;
    const std::int64_t last = (map.rows - 1) / inner * array->outer_bytes +
                              (inner - 1) * array->row_bytes + cols * array->element_bytes;
    return begin(array) + static_cast<std::uintptr_t>(last);
  };
  for (const RowArray* input : inputs) {
    for (const RowArray* output : outputs) {
      if (input->data == nullptr || output->data == nullptr) continue;
      if (begin(input) / vector_bytes * vector_bytes < end(output) && begin(output) < end(input))
        return false;
    }
  }
  return true;
}

template <typename Problem>
Parameters parameters_of(const Problem& p, const void* gamma, const void* beta) {
  Parameters parameters;
  parameters.gamma = static_cast<const std::byte*>(gamma);
  parameters.beta = static_cast<const std::byte*>(beta);
  parameters.gamma_offset = p.gamma_offset;
  parameters.dtype = p.param_dtype;
  const auto aligned = [](std::uintptr_t bytes) { return bytes % vector_bytes == 0; };
  parameters.vectorised = aligned(reinterpret_cast<std::uintptr_t>(gamma)) &&
                          aligned(reinterpret_cast<std::uintptr_t>(beta)) &&
                          (p.param_groups == 1 ||
                           aligned(static_cast<std::uintptr_t>(p.cols) * size_of(p.param_dtype)));
  return parameters;
}

/// Lanes of a narrow row, as kernels are told.
inline int log2_of(int lanes) {
  int log2 = 0;
  while (1 << log2 < lanes) ++log2;
  return log2;
}

}  // namespace fusednorm::cuda
