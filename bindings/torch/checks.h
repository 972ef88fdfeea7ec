// SPDX-License-Identifier: Apache-2.0
// Refuses bad arguments with the exception type that PyTorch's layer_norm raises and a sentence
// that names the argument, its value and what was expected.
//
// Kernels check shapes as integers, meta functions as SymInt, so that a traced program carries the
// same conditions; hence normalized_shape apart from the other arguments.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

#include "arguments.h"

namespace fusednorm::operators {

/// input is a dense floating-point tensor whose last dimensions are normalized_shape. residual, if
/// given, has its shape and dtype, or is f32 beside 16-bit input. weight and bias, if given, have
/// normalized_shape or, with parameters of their own for every head, more of input's last
/// dimensions; they share shape and dtype: that of input, f32 or, where the operator allows it,
/// 16-bit beside f32. dtype, if given, is that of input or of weight and bias. In place, the output
/// has the dtype of input.
void check(const ForwardArguments&, at::IntArrayRef normalized_shape);
void check(const ForwardArguments&, Shape normalized_shape);

/// As forward for the saved tensor, weight and bias; grad_out and grad_sum, of which one may be
/// absent, have the shape of the saved tensor; mean, if the operator has it, and rstd hold one
/// value per row.
void check(const BackwardArguments&, at::IntArrayRef normalized_shape);
void check(const BackwardArguments&, Shape normalized_shape);

/// Raises for the tensor on the stack that is not dense: sparse, quantized, MKLDNN or nested.
void refuse_layout(const c10::FunctionSchema&, const torch::jit::Stack&);

}  // namespace fusednorm::operators
