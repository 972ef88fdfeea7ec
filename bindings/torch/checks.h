// Refuses bad arguments with the exception type that PyTorch's layer_norm raises and a sentence
// that names the argument, what it is and what it should be.
//
// Shapes are checked as integers by the kernels and as SymInt by the meta functions, so that a
// traced program carries the same conditions.
#pragma once

#include "operators.h"

namespace fusednorm::operators {

/// input is a dense tensor of floating point whose last dimensions are normalized_shape; weight and
/// bias, where given, have that shape, live on its device and share a dtype: its own, or f32.
/// dtype, where given, is that of input or of weight and bias.
void check_forward(const Tensor& input, at::IntArrayRef normalized_shape, const Optional& weight,
                   const Optional& bias, Dtype dtype);
void check_forward(const Tensor& input, Shape normalized_shape, const Optional& weight,
                   const Optional& bias, Dtype dtype);

/// `source` (called `source_name`) is the input or, in the memory-efficient form, the output of
/// the forward pass; grad_out has its shape; mean, where given, and rstd hold one value a row.
void check_backward(const Tensor& grad_out, const char* source_name, const Tensor& source,
                    at::ScalarType input_dtype, at::IntArrayRef normalized_shape,
                    const Tensor* mean, const Tensor& rstd, const Optional& weight,
                    const Optional& bias);
void check_backward(const Tensor& grad_out, const char* source_name, const Tensor& source,
                    at::ScalarType input_dtype, Shape normalized_shape, const Tensor* mean,
                    const Tensor& rstd, const Optional& weight, const Optional& bias);

/// The dtype of sums, mean and rstd.
inline at::ScalarType compute_type(at::ScalarType dtype) {
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

/// The dtype of weight and bias; where neither is given, the one that lets input and y differ.
inline at::ScalarType parameter_type(const Optional& weight, const Optional& bias,
                                     at::ScalarType input, at::ScalarType output) {
  if (weight.has_value() && weight->defined()) return weight->scalar_type();
  if (bias.has_value() && bias->defined()) return bias->scalar_type();
  return input == output ? input : at::kFloat;
}

inline bool given(const Optional& tensor) {
  return tensor.has_value() && tensor->defined();
}

}  // namespace fusednorm::operators
