// The kernels of one device: tensors in, a problem with raw pointers to the core, tensors out.
//
// Backend says how to allocate and how to run:
//   static Tensor empty(IntArrayRef sizes, ScalarType, const Tensor& like);
//   static void run(const Problem&, const Buffers&, const Tensor& like);
//
// Rows with one uniform stride go to the core as they lie in memory; anything else is copied once.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/MaybeOwned.h>
#include <c10/util/SmallVector.h>

#include <cmath>

#include "checks.h"
#include "derivatives.h"
#include "fusednorm/problem.h"
#include "operators.h"

namespace fusednorm::operators {

inline DType dtype_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return DType::f64;
    case at::kHalf:
      return DType::f16;
    case at::kBFloat16:
      return DType::bf16;
    default:
      return DType::f32;
  }
}

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

/// The distance between rows, or nothing where rows are not evenly spaced runs of memory.
/// Dimensions of size one have no say: their stride is never used.
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
    // An expanded dimension repeats its row (stride 0), and overlapping windows share elements:
    // neither is a row stride of at least cols.
    if (strides[i] != expected || row_stride < extent.cols) return std::nullopt;
    expected *= sizes[i];
  }
  return row_stride == 0 ? extent.cols : row_stride;
}

/// A tensor as rows that the core can read; holds the copy where one was needed.
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

/// An optional array without gaps: parameters and statistics.
class Array {
 public:
  explicit Array(const Tensor* tensor) {
    if (tensor != nullptr && tensor->defined()) tensor_ = tensor->expect_contiguous();
  }
  explicit Array(const Optional& tensor) : Array(tensor.has_value() ? &*tensor : nullptr) {}
  const void* data() const { return tensor_->defined() ? tensor_->const_data_ptr() : nullptr; }
  bool given() const { return tensor_->defined(); }

 private:
  c10::MaybeOwned<Tensor> tensor_ = c10::MaybeOwned<Tensor>::owned(std::in_place);
};

inline void* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.mutable_data_ptr() : nullptr;
}

template <typename Backend>
struct Kernels {
  static Three run_forward(const Tensor& input, at::IntArrayRef normalized_shape,
                           const Optional& weight, const Optional& bias, double eps, Dtype dtype,
                           bool save_mean, bool save_rstd) {
    check_forward(input, normalized_shape, weight, bias, dtype);
    const auto inner_dims = normalized_shape.size();
    const auto extent = extent_of(input, inner_dims);
    const auto input_type = input.scalar_type();
    const auto output_type = dtype.value_or(input_type);
    if (!(eps >= 0) || std::isinf(eps)) {
      return derivatives::forward(input, weight.value_or(Tensor()), bias.value_or(Tensor()), eps,
                                  compute_type(input_type), output_type,
                                  {static_cast<int64_t>(inner_dims)});
    }
    const Rows x(input, inner_dims, extent);
    const Array gamma(weight);
    const Array beta(bias);

    ForwardProblem problem;
    problem.rows = extent.rows;
    problem.cols = extent.cols;
    problem.x_dtype = dtype_of(input_type);
    problem.y_dtype = dtype_of(output_type);
    problem.param_dtype = dtype_of(parameter_type(weight, bias, input_type, output_type));
    problem.has_gamma = gamma.given();
    problem.has_beta = beta.given();
    problem.save_mean = save_mean;
    problem.save_rstd = save_rstd;
    problem.eps = eps;
    problem.x_row_stride = x.stride();

    Three result{Backend::empty(input.sizes(), output_type, input), Tensor(), Tensor()};
    auto& [y, mean, rstd] = result;
    if (save_mean || save_rstd) {
      c10::SmallVector<int64_t, 6> sizes(input.sizes().begin(), input.sizes().end());
      std::fill(sizes.end() - static_cast<std::ptrdiff_t>(inner_dims), sizes.end(), 1);
      if (save_mean) mean = Backend::empty(sizes, compute_type(input_type), input);
      if (save_rstd) rstd = Backend::empty(sizes, compute_type(input_type), input);
    }
    Backend::run(problem,
                 ForwardBuffers{x.data(), gamma.data(), beta.data(), y.mutable_data_ptr(),
                                data_or_null(mean), data_or_null(rstd)},
                 input);
    return result;
  }

  static Three run_backward(const Tensor& grad_out, Source source, const Tensor& kept,
                            at::ScalarType input_type, at::IntArrayRef normalized_shape,
                            const Tensor* mean, const Tensor& rstd, const Optional& weight,
                            const Optional& bias, Mask mask) {
    check_backward(grad_out, source == Source::x ? "input" : "output", kept, input_type,
                   normalized_shape, mean, rstd, weight, bias);
    const auto inner_dims = normalized_shape.size();
    const auto extent = extent_of(kept, inner_dims);
    const auto parameter = parameter_type(weight, bias, input_type, grad_out.scalar_type());
    const Rows dy(grad_out, inner_dims, extent);
    const Rows values(kept, inner_dims, extent);
    const Array gamma(weight);
    const Array beta(source == Source::y ? bias : Optional());
    const Array mean_array(mean);
    const Array rstd_array(&rstd);

    BackwardProblem problem;
    problem.rows = extent.rows;
    problem.cols = extent.cols;
    problem.x_dtype = dtype_of(input_type);
    problem.y_dtype = dtype_of(grad_out.scalar_type());
    problem.param_dtype = dtype_of(parameter);
    problem.source = source;
    problem.has_gamma = gamma.given();
    problem.has_beta = beta.given();
    problem.want_dx = mask[0];
    problem.want_dgamma = mask[1];
    problem.want_dbeta = mask[2];
    problem.dy_row_stride = dy.stride();
    problem.source_row_stride = values.stride();

    Three result;
    auto& [dx, dgamma, dbeta] = result;
    if (mask[0]) dx = Backend::empty(kept.sizes(), input_type, kept);
    if (mask[1]) dgamma = Backend::empty(normalized_shape, parameter, kept);
    if (mask[2]) dbeta = Backend::empty(normalized_shape, parameter, kept);
    if (!mask[0] && !mask[1] && !mask[2]) return result;

    BackwardBuffers buffers;
    buffers.dy = dy.data();
    (source == Source::x ? buffers.x : buffers.y) = values.data();
    buffers.gamma = gamma.data();
    buffers.beta = beta.data();
    buffers.mean = mean_array.data();
    buffers.rstd = rstd_array.data();
    buffers.dx = data_or_null(dx);
    buffers.dgamma = data_or_null(dgamma);
    buffers.dbeta = data_or_null(dbeta);
    Backend::run(problem, buffers, kept);
    return result;
  }

  static Tensor layer_norm(const Tensor& input, at::IntArrayRef normalized_shape,
                           const Optional& weight, const Optional& bias, double eps) {
    return std::get<0>(run_forward(input, normalized_shape, weight, bias, eps, std::nullopt,
                                   /*save_mean=*/false, /*save_rstd=*/false));
  }

  static Three forward(const Tensor& input, at::IntArrayRef normalized_shape,
                       const Optional& weight, const Optional& bias, double eps, Dtype dtype) {
    return run_forward(input, normalized_shape, weight, bias, eps, dtype, /*save_mean=*/true,
                       /*save_rstd=*/true);
  }

  static Two efficient_forward(const Tensor& input, at::IntArrayRef normalized_shape,
                               const Optional& weight, const Optional& bias, double eps,
                               Dtype dtype) {
    auto [y, mean, rstd] = run_forward(input, normalized_shape, weight, bias, eps, dtype,
                                       /*save_mean=*/false, /*save_rstd=*/true);
    return {std::move(y), std::move(rstd)};
  }

  static Three backward(const Tensor& grad_out, const Tensor& input,
                        at::IntArrayRef normalized_shape, const Tensor& mean, const Tensor& rstd,
                        const Optional& weight, const Optional& bias, Mask mask) {
    return run_backward(grad_out, Source::x, input, input.scalar_type(), normalized_shape, &mean,
                        rstd, weight, bias, mask);
  }

  static Three efficient_backward(const Tensor& grad_out, const Tensor& output,
                                  at::IntArrayRef normalized_shape, const Tensor& rstd,
                                  const Optional& weight, const Optional& bias, Mask mask,
                                  Dtype dtype) {
    return run_backward(grad_out, Source::y, output, dtype.value_or(output.scalar_type()),
                        normalized_shape, nullptr, rstd, weight, bias, mask);
  }
};

/// Gives the five kernels of a device the names that register.cc lists.
#define FUSEDNORM_DEFINE_KERNELS(Backend)                                                          \
  Tensor layer_norm(const Tensor& input, at::IntArrayRef shape, const Optional& weight,            \
                    const Optional& bias, double eps) {                                            \
    return Kernels<Backend>::layer_norm(input, shape, weight, bias, eps);                          \
  }                                                                                                \
  Three forward(const Tensor& input, at::IntArrayRef shape, const Optional& weight,                \
                const Optional& bias, double eps, Dtype dtype) {                                   \
    return Kernels<Backend>::forward(input, shape, weight, bias, eps, dtype);                      \
  }                                                                                                \
  Three backward(const Tensor& grad_out, const Tensor& input, at::IntArrayRef shape,               \
                 const Tensor& mean, const Tensor& rstd, const Optional& weight,                   \
                 const Optional& bias, Mask mask) {                                                \
    return Kernels<Backend>::backward(grad_out, input, shape, mean, rstd, weight, bias, mask);     \
  }                                                                                                \
  Two efficient_forward(const Tensor& input, at::IntArrayRef shape, const Optional& weight,        \
                        const Optional& bias, double eps, Dtype dtype) {                           \
    return Kernels<Backend>::efficient_forward(input, shape, weight, bias, eps, dtype);            \
  }                                                                                                \
  Three efficient_backward(const Tensor& grad_out, const Tensor& output, at::IntArrayRef shape,    \
                           const Tensor& rstd, const Optional& weight, const Optional& bias,       \
                           Mask mask, Dtype dtype) {                                               \
    return Kernels<Backend>::efficient_backward(grad_out, output, shape, rstd, weight, bias, mask, \
                                                dtype);                                            \
  }

}  // namespace fusednorm::operators
