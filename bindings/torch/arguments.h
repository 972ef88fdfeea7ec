// SPDX-License-Identifier: Apache-2.0
// The arguments and results of every operator, by name.
//
// The structs are the union over all operators: an operator (operators_*.h) lists which of these
// fields its schema has and in which order, and dispatch.h converts between the two. Everything
// below the dispatcher (kernels, meta functions, checks, derivatives) takes and returns these.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/core/SymIntArrayRef.h>

#include <array>
#include <limits>
#include <optional>

#include "fusednorm/problem.h"

namespace fusednorm::operators {

using at::Tensor;
using Shape = c10::SymIntArrayRef;
using Optional = std::optional<Tensor>;
using Dtype = std::optional<at::ScalarType>;

/// The dtype of sums, mean and rstd.
inline at::ScalarType compute_type(at::ScalarType dtype) {
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

/// Tensors are borrowed for the length of a call; null where an argument is absent.
struct ForwardArguments {
  Operation operation = Operation::layer_norm;
  Source source = Source::x;  ///< what the backward pass will start from: input or output
  bool save_mean = false;
  bool save_rstd = false;
  bool in_place = false;           ///< the output replaces input, and the sum residual
  bool narrow_parameters = false;  ///< 16-bit weight and bias beside f32 input are accepted
  const Tensor* input = nullptr;
  const Tensor* residual = nullptr;  ///< input + residual is normalised, and a result
  const Tensor* weight = nullptr;
  const Tensor* bias = nullptr;
  Shape normalized_shape{};
  std::optional<double> eps{};  ///< absent: the epsilon of the compute type
  double offset = 0;            ///< added to weight
  Rounding rounding = Rounding::once;
  Dtype dtype{};  ///< of the output; absent: as `rounding` has it

  at::ScalarType input_type() const { return input->scalar_type(); }
  at::ScalarType output_type() const;
  double epsilon() const {
    return eps.value_or(compute_type(input_type()) == at::kDouble
                            ? std::numeric_limits<double>::epsilon()
                            : std::numeric_limits<float>::epsilon());
  }
  bool has_residual() const { return residual != nullptr; }
  /// The tensor whose dtype xhat is rounded to by via_x.
  const Tensor& row() const { return has_residual() ? *residual : *input; }
  /// In the order of the gradients that the backward pass returns.
  std::array<const Tensor*, 4> differentiable() const { return {input, residual, weight, bias}; }
};

/// A result that the operator does not have is an undefined tensor.
struct ForwardResults {
  Tensor output;
  Tensor sum;
  Tensor mean;
  Tensor rstd;
};

/// Which gradients are wanted.
struct Mask {
  bool input = false;
  bool residual = false;  ///< only where its dtype is not that of input: else one serves both
  bool weight = false;
  bool bias = false;
  bool any() const { return input || residual || weight || bias; }
};

struct BackwardArguments {
  Operation operation = Operation::layer_norm;
  Source source = Source::x;
  bool of_sum = false;               ///< of an operator with a residual: `saved` is the sum
  bool narrow_parameters = false;    ///< as in forward
  const Tensor* grad_out = nullptr;  ///< absent only beside grad_sum
  const Tensor* grad_sum = nullptr;  ///< of the sum; added to the gradients of input and residual
  const Tensor* saved = nullptr;     ///< the input, the sum or, where source is y, the output
  const Tensor* mean = nullptr;      ///< absent where source is y, and for rms_norm
  const Tensor* rstd = nullptr;
  const Tensor* weight = nullptr;
  const Tensor* bias = nullptr;
  Shape normalized_shape{};
  double offset = 0;
  Mask mask{};
  Dtype dtype{};  ///< of the input; absent: that of `saved`

  at::ScalarType input_type() const { return dtype.value_or(saved->scalar_type()); }
  at::ScalarType output_type() const {
    return grad_out != nullptr ? grad_out->scalar_type() : input_type();
  }
  bool has_residual() const { return of_sum; }
  const char* saved_name() const {
    return source == Source::y ? "output" : of_sum ? "sum" : "input";
  }
  std::array<const Tensor*, 7> differentiable() const {
    return {grad_out, grad_sum, saved, mean, rstd, weight, bias};
  }
};

/// A gradient that the mask leaves out is an undefined tensor (None in Python), as in PyTorch's
/// native_layer_norm_backward.
struct BackwardResults {
  Tensor input;
  Tensor residual;
  Tensor weight;
  Tensor bias;
};

/// The dtype of weight and bias, if either is given.
template <typename Arguments>
Dtype given_parameter_type(const Arguments& arguments) {
  if (arguments.weight != nullptr) return arguments.weight->scalar_type();
  if (arguments.bias != nullptr) return arguments.bias->scalar_type();
  return std::nullopt;
}

/// The dtype of weight and bias; if both are absent, the one that lets input and output differ.
template <typename Arguments>
at::ScalarType parameter_type(const Arguments& arguments) {
  if (const auto given = given_parameter_type(arguments)) return *given;
  const auto input = arguments.input_type();
  return input == arguments.output_type() ? input : at::kFloat;
}

inline at::ScalarType ForwardArguments::output_type() const {
  if (dtype.has_value()) return *dtype;
  const auto given = given_parameter_type(*this);
  if (rounding == Rounding::once || !given.has_value()) return input_type();
  return rounding == Rounding::via_param ? *given : c10::promoteTypes(input_type(), *given);
}

/// The operator in an error: its name without the suffix that tells its relatives apart.
template <typename Arguments>
const char* operator_name(const Arguments& arguments) {
  if (!arguments.has_residual()) return name_of(arguments.operation);
  return arguments.operation == Operation::rms_norm ? "add_rms_norm" : "add_layer_norm";
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
