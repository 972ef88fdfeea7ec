// SPDX-License-Identifier: Apache-2.0
// The arguments and results of every operator, by name.
//
// The structs are the union over all operators: an operator of register.cc lists which of these
// fields its schema has and in which order, and dispatch.h converts between the two. Everything
// below the dispatcher (kernels, meta functions, checks, derivatives) takes and returns these.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/core/SymIntArrayRef.h>

#include <array>
#include <optional>

#include "fusednorm/problem.h"

namespace fusednorm::operators {

using at::Tensor;
using Shape = c10::SymIntArrayRef;
using Optional = std::optional<Tensor>;
using Dtype = std::optional<at::ScalarType>;
using Mask = std::array<bool, 3>;

/// Tensors are borrowed for the length of a call; null where an argument is absent.
struct ForwardArguments {
  Operation operation = Operation::layer_norm;
  Source source = Source::x;  ///< what the backward pass will start from: input or output
  bool save_mean = false;
  bool save_rstd = false;
  const Tensor* input = nullptr;
  const Tensor* weight = nullptr;
  const Tensor* bias = nullptr;
  Shape normalized_shape{};
  double eps = 0;
  Dtype dtype{};  ///< of the output; absent: that of input

  at::ScalarType input_type() const { return input->scalar_type(); }
  at::ScalarType output_type() const { return dtype.value_or(input_type()); }
  /// In the order of the gradients that the backward pass returns.
  std::array<const Tensor*, 3> differentiable() const { return {input, weight, bias}; }
};

/// A result that the operator does not have is an undefined tensor.
struct ForwardResults {
  Tensor output;
  Tensor mean;
  Tensor rstd;
};

struct BackwardArguments {
  Operation operation = Operation::layer_norm;
  Source source = Source::x;
  const Tensor* grad_out = nullptr;
  const Tensor* saved = nullptr;  ///< the input or, where source is y, the output of forward
  const Tensor* mean = nullptr;   ///< absent where source is y
  const Tensor* rstd = nullptr;
  const Tensor* weight = nullptr;
  const Tensor* bias = nullptr;
  Shape normalized_shape{};
  Mask mask{};
  Dtype dtype{};  ///< of the input; absent: that of `saved`

  at::ScalarType input_type() const { return dtype.value_or(saved->scalar_type()); }
  at::ScalarType output_type() const { return grad_out->scalar_type(); }
  const char* saved_name() const { return source == Source::x ? "input" : "output"; }
  std::array<const Tensor*, 6> differentiable() const {
    return {grad_out, saved, mean, rstd, weight, bias};
  }
};

/// A gradient that the mask leaves out is an undefined tensor (None in Python), as in PyTorch's
/// native_layer_norm_backward.
struct BackwardResults {
  Tensor input;
  Tensor weight;
  Tensor bias;
};

/// The dtype of sums, mean and rstd.
inline at::ScalarType compute_type(at::ScalarType dtype) {
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

/// The dtype of weight and bias; if both are absent, the one that lets input and output differ.
template <typename Arguments>
at::ScalarType parameter_type(const Arguments& arguments) {
  if (arguments.weight != nullptr) return arguments.weight->scalar_type();
  if (arguments.bias != nullptr) return arguments.bias->scalar_type();
  const auto input = arguments.input_type();
  return input == arguments.output_type() ? input : at::kFloat;
}

// The kernels of each device, and of tensors without memory. cuda:: exists in builds with CUDA.
#define FUSEDNORM_DECLARE_KERNELS(device)        \
  namespace device {                             \
  ForwardResults run(const ForwardArguments&);   \
  BackwardResults run(const BackwardArguments&); \
  }
FUSEDNORM_DECLARE_KERNELS(cpu)
FUSEDNORM_DECLARE_KERNELS(cuda)
FUSEDNORM_DECLARE_KERNELS(meta)
#undef FUSEDNORM_DECLARE_KERNELS

}  // namespace fusednorm::operators
