// What the autograd rules of the forward and of the backward operators share.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <mutex>
#include <numeric>

#include "checks.h"
#include "derivatives.h"
#include "fusednorm/problem.h"

namespace fusednorm::operators::autograd {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

inline Optional optional(const Tensor& tensor) {
  return tensor.defined() ? Optional(tensor) : std::nullopt;
}

inline Tensor value_of(const Optional& tensor) {
  return tensor.has_value() ? *tensor : Tensor();
}

inline Tensor cast(const Tensor& tensor, at::ScalarType dtype) {
  return tensor.defined() ? tensor.to(dtype) : tensor;
}

inline Tensor primal(const Tensor& tensor) {
  return torch::autograd::isFwGradDefined(tensor) ? tensor._fw_primal(/*level=*/0) : tensor;
}

inline Tensor tangent(const Tensor& tensor) {
  return torch::autograd::isFwGradDefined(tensor) ? tensor._fw_grad(/*level=*/0) : Tensor();
}

inline void set_tangent(const Tensor& output, const Tensor& value) {
  if (output.defined() && value.defined()) {
    output._set_fw_grad(value, /*level=*/0, /*is_inplace_op=*/false);
  }
}

/// The normalised values and their factors in the compute dtype, from what a node kept.
inline derivatives::Saved saved_values(Source source, const Tensor& kept, const Tensor& mean,
                                       const Tensor& rstd, const Tensor& weight,
                                       const Tensor& bias) {
  const auto compute = rstd.scalar_type();
  return source == Source::x
             ? derivatives::saved_from_input(cast(kept, compute), mean, rstd, cast(weight, compute))
             : derivatives::saved_from_output(cast(kept, compute), rstd, cast(weight, compute),
                                              cast(bias, compute));
}

}  // namespace fusednorm::operators::autograd
