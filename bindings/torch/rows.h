// SPDX-License-Identifier: Apache-2.0
// Tensors as the core sees them: rows with a stride, and arrays without gaps. Rows with one uniform
// stride are read in place; any other layout is copied once.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/MaybeOwned.h>

#include <optional>

#include "arguments.h"

namespace fusednorm::operators {

struct Extent {
  int64_t rows = 1;
  int64_t cols = 1;
};

inline Extent extent_of(const Tensor& tensor, size_t inner_dims) {
  Extent extent;
  const auto sizes = tensor.sizes();
  const auto outer_dims = sizes.size() - inner_dims;
  for (size_t i = 0; i < sizes.size(); ++i)
    (i < outer_dims ? extent.rows : extent.cols) *= sizes[i];
  return extent;
}

/// The row stride, or nothing if the rows are not contiguous or not evenly spaced. Dimensions of
/// size one are skipped: their stride is never used.
inline std::optional<int64_t> row_stride_of(const Tensor& tensor, size_t inner_dims,
                                            const Extent& extent) {
  if (tensor.is_contiguous()) return extent.cols;
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  const auto outer_dims = sizes.size() - inner_dims;
  int64_t expected = 1;
  for (size_t i = sizes.size(); i-- > outer_dims;) {
    if (sizes[i] != 1 && strides[i] != expected) return std::nullopt;
    expected *= sizes[i];
  }
  int64_t row_stride = 0;
  for (size_t i = outer_dims; i-- > 0;) {
    if (sizes[i] == 1) continue;
    if (row_stride == 0) {
      row_stride = strides[i];
      expected = row_stride;
    }
    // Expanded dimensions (stride 0) and overlapping windows have a row stride below cols.
    if (strides[i] != expected || row_stride < extent.cols) return std::nullopt;
    expected *= sizes[i];
  }
  return row_stride == 0 ? extent.cols : row_stride;
}

/// A tensor as rows that the core can read; owns the copy if one was needed.
class Rows {
 public:
  Rows(const Tensor& tensor, size_t inner_dims, const Extent& extent) {
    if (const auto stride = row_stride_of(tensor, inner_dims, extent)) {
      tensor_ = c10::MaybeOwned<Tensor>::borrowed(tensor);
      stride_ = *stride;
    } else {
      tensor_ = c10::MaybeOwned<Tensor>::owned(tensor.contiguous());
      stride_ = extent.cols;
    }
  }
  const void* data() const { return tensor_->const_data_ptr(); }
  int64_t stride() const { return stride_; }

 private:
  c10::MaybeOwned<Tensor> tensor_;
  int64_t stride_ = 0;
};

/// An optional array without gaps: a parameter or a statistic.
class Array {
 public:
  explicit Array(const Tensor* tensor) {
    if (tensor != nullptr) tensor_ = tensor->expect_contiguous();
  }
  const void* data() const { return given() ? tensor_->const_data_ptr() : nullptr; }
  bool given() const { return tensor_->defined(); }

 private:
  c10::MaybeOwned<Tensor> tensor_ = c10::MaybeOwned<Tensor>::owned(std::in_place);
};

}  // namespace fusednorm::operators
