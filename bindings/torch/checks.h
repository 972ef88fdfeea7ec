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

/// input is a dense floating-point tensor whose last dimensions are normalized_shape; weight and
/// bias, if given, have that shape, are on its device and share a dtype: its own, or f32. dtype, if
/// given, is that of input or of weight and bias.
void check(const ForwardArguments&, at::IntArrayRef normalized_shape);
void check(const ForwardArguments&, Shape normalized_shape);

/// As forward for the saved tensor, weight and bias; grad_out has the shape of the saved tensor;
/// mean, if the operator has it, and rstd hold one value per row.
void check(const BackwardArguments&, at::IntArrayRef normalized_shape);
void check(const BackwardArguments&, Shape normalized_shape);

/// Raises for the tensor on the stack that is not dense: sparse, quantized, MKLDNN or nested.
void refuse_layout(Operation, const c10::FunctionSchema&, const torch::jit::Stack&);

}  // namespace fusednorm::operators
