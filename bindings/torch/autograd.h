// SPDX-License-Identifier: Apache-2.0
// Autograd of every operator: what a call has to be recorded for, and the calls that record it.
//
// Each operator is differentiated as the function its schema says it is: mean and rstd are outputs
// with derivatives, and the backward operators have derivatives of their own. So second derivatives
// follow from the chain rule, and none is silently zero.
#pragma once

#include <c10/util/FunctionRef.h>

#include "derivatives.h"
#include "node.h"

namespace fusednorm::operators::autograd {

/// Which derivatives may be asked of a call's results.
struct Recording {
  bool gradient = false;  ///< reverse mode
  bool tangent = false;   ///< forward mode
  explicit operator bool() const { return gradient || tangent; }
};

template <typename Arguments>
Recording recording_of(const Arguments& arguments) {
  Recording recording;
  const bool enabled = c10::GradMode::is_enabled();
  for (const auto* tensor : arguments.differentiable()) {
    if (tensor == nullptr) continue;
    recording.gradient |= enabled && tensor->requires_grad();
    recording.tangent |= torch::autograd::isFwGradDefined(*tensor);
  }
  return recording;
}

/// How a forward operator is differentiated.
struct Derivative {
  BackwardResults (*backward)(const BackwardArguments&);  ///< calls the backward operator
  bool returns_statistics;  ///< mean and rstd are results of the operator, not
                            ///< of `run` alone
};

/// Raises where a derivative would be asked of a call in place.
void refuse_in_place(const ForwardArguments&, Recording);

/// Records a call whose kernel is `run`; it computes the statistics in any case.
ForwardResults record(const ForwardArguments&, Recording, Derivative,
                      c10::function_ref<ForwardResults()> run);
BackwardResults record(const BackwardArguments&, Recording,
                       c10::function_ref<BackwardResults()> run);

// ---- shared by both

inline const Tensor* address_of(const Tensor& tensor) {
  return tensor.defined() ? &tensor : nullptr;
}

inline Tensor value_of(const Tensor* tensor) {
  return tensor != nullptr ? *tensor : Tensor();
}

inline Tensor cast(const Tensor& tensor, at::ScalarType dtype) {
  return tensor.defined() ? tensor.to(dtype) : tensor;
}

/// weight + offset, in the compute dtype.
inline Tensor with_offset(const Tensor& weight, double offset) {
  return weight.defined() && offset != 0 ? weight + offset : weight;
}

inline Tensor primal(const Tensor& tensor) {
  return torch::autograd::isFwGradDefined(tensor) ? tensor._fw_primal(/*level=*/0) : tensor;
}

inline Tensor tangent(const Tensor& tensor) {
  return torch::autograd::isFwGradDefined(tensor) ? tensor._fw_grad(/*level=*/0) : Tensor();
}

/// The tangent has the dtype of its output.
inline void set_tangent(const Tensor& output, const Tensor& value) {
  if (!output.defined() || !value.defined()) return;
  output._set_fw_grad(cast(value, output.scalar_type()), /*level=*/0,
                      /*is_inplace_op=*/false);
}

/// The normalised values and their factors in the compute dtype, from what a node saved.
inline derivatives::Saved normalized_values(Source source, double offset, const Tensor& saved,
                                            const Tensor& mean, const Tensor& rstd,
                                            const Tensor& weight, const Tensor& bias) {
  const auto compute = rstd.scalar_type();
  const auto values = cast(saved, compute);
  const auto gamma = with_offset(cast(weight, compute), offset);
  return source == Source::x
             ? derivatives::saved_from_input(values, mean, rstd, gamma)
             : derivatives::saved_from_output(values, rstd, gamma, cast(bias, compute));
}

/// The name of an operation inside those of its nodes.
inline const char* class_name(Operation operation) {
  return operation == Operation::rms_norm ? "RMSNorm" : "LayerNorm";
}

}  // namespace fusednorm::operators::autograd
