// SPDX-License-Identifier: Apache-2.0
// Tensors as the core sees them: rows with one stride or two, and arrays without gaps. Rows that
// are evenly spaced, or come in evenly spaced groups of evenly spaced rows (the heads of q inside a
// packed qkv), are used where they lie; any other layout is copied once.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/MaybeOwned.h>

#include <initializer_list>
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

/// Where rows begin, in elements: row r at (r / inner_rows) * outer_stride + (r % inner_rows) *
/// row_stride. inner_rows 0: one level, and no outer stride.
struct RowLayout {
  int64_t row_stride = 0;
  int64_t inner_rows = 0;
  int64_t outer_stride = 0;
};

/// Whether rows of two levels share elements: they do not where the rows of a group end before the
/// next group, or each group lies between two rows of the others.
inline bool overlap(const RowLayout& layout, const Extent& extent) {
  const auto groups = extent.rows / layout.inner_rows;
  const auto inner_extent = (layout.inner_rows - 1) * layout.row_stride + extent.cols;
  const auto outer_extent = (groups - 1) * layout.outer_stride + extent.cols;
  return layout.outer_stride < inner_extent &&
         (layout.outer_stride < extent.cols || layout.row_stride < outer_extent);
}

/// The layout of a tensor's rows, or nothing if they are not contiguous, overlap, or have more than
/// two strides. Dimensions of size one are skipped: their stride is never used.
inline std::optional<RowLayout> layout_of(const Tensor& tensor, size_t inner_dims,
                                          const Extent& extent) {
  RowLayout layout;
  layout.row_stride = extent.cols;
  if (tensor.is_contiguous()) return layout;
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  const auto outer_dims = sizes.size() - inner_dims;
  int64_t expected = 1;
  for (size_t i = sizes.size(); i-- > outer_dims;) {
    if (sizes[i] != 1 && strides[i] != expected) return std::nullopt;
    expected *= sizes[i];
  }
  int64_t rows = 1;      // in the dimensions seen so far
  int64_t distance = 0;  // from the start of these to the start of the next, if evenly spaced
  for (size_t i = outer_dims; i-- > 0;) {
    if (sizes[i] == 1) continue;
    const auto stride = strides[i];
    if (rows == 1) {
      // Expanded dimensions (stride 0) and overlapping windows have a row stride below cols.
      if (stride < extent.cols) return std::nullopt;
      layout.row_stride = stride;
    } else if (stride != distance) {
      if (layout.inner_rows != 0) return std::nullopt;
      layout.inner_rows = rows;
      layout.outer_stride = stride;
    }
    rows *= sizes[i];
    distance = stride * sizes[i];
  }
  if (layout.inner_rows != 0 && overlap(layout, extent)) return std::nullopt;
  return layout;
}

/// A tensor as rows that the core can use; owns the copy if one was needed. An absent tensor has
/// no rows.
class Rows {
 public:
  Rows(const Tensor* tensor, size_t inner_dims, const Extent& extent) : cols_(extent.cols) {
    if (tensor == nullptr) return;
    tensor_ = c10::MaybeOwned<Tensor>::borrowed(*tensor);
    if (const auto layout = layout_of(*tensor, inner_dims, extent)) {
      layout_ = *layout;
    } else {
      copy();
    }
  }

  /// Makes rows of one problem agree on its inner_rows, which it returns: that of the first of two
  /// levels. Another of two levels that does not fit is copied.
  static int64_t settle(std::initializer_list<Rows*> all) {
    int64_t inner_rows = 0;
    for (const auto* rows : all) {
      if (inner_rows == 0) inner_rows = rows->layout_.inner_rows;
    }
    if (inner_rows == 0) return 0;
    for (auto* rows : all) {
      if (rows->layout_.inner_rows == 0) {
        rows->layout_.outer_stride = inner_rows * rows->layout_.row_stride;
      } else if (rows->layout_.inner_rows != inner_rows) {
        rows->copy();
        rows->layout_.outer_stride = inner_rows * rows->cols_;
      }
    }
    return inner_rows;
  }

  bool given() const { return tensor_->defined(); }
  const void* data() const { return given() ? tensor_->const_data_ptr() : nullptr; }
  void* mutable_data() const { return given() ? tensor_->mutable_data_ptr() : nullptr; }
  int64_t row_stride() const { return layout_.row_stride; }
  int64_t outer_stride() const { return layout_.outer_stride; }

  /// After the rows were written to: copies them to where they came from, if they are a copy.
  void write_back(const Tensor& tensor) const {
    if (!tensor_->is_same(tensor)) tensor.copy_(*tensor_);
  }

 private:
  void copy() {
    tensor_ = c10::MaybeOwned<Tensor>::owned(tensor_->clone(at::MemoryFormat::Contiguous));
    layout_ = {cols_, 0, 0};
  }

  c10::MaybeOwned<Tensor> tensor_ = c10::MaybeOwned<Tensor>::owned(std::in_place);
  int64_t cols_ = 0;
  RowLayout layout_;
};

/// An optional array without gaps: parameters or a statistic.
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
