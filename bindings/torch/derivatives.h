// SPDX-License-Identifier: Apache-2.0
// The calculus of the norms in differentiable ATen operations: first derivatives of the rarely used
// outputs, tangents, and the derivatives of the backward pass. docs/pytorch.md derives them.
//
// Notation, one row of N elements:   h = (x - mean) rstd   (normalised values)
//   forward    y  = h w + b
//   backward   g = dy w,  dx = rstd (g - <g> - h <g h>) + ds,  dw = sum dy h,  db = sum dy
// <.> is the mean over a row; sums for dw and db go over rows. rms_norm: no mean, and no <g>. x is
// input + residual where there is one, and ds the gradient of that sum; w is weight + offset. All
// tensors here are in the compute dtype; an undefined tensor stands for an absent argument or zero.
#pragma once

#include <ATen/TensorOperators.h>

#include "outputs.h"

namespace fusednorm::operators::derivatives {

/// Which norm, how many trailing dimensions make up a row, and how many weight and bias have (more,
/// where every head has its own).
struct Norm {
  Operation operation = Operation::layer_norm;
  int64_t inner = 0;
  int64_t parameter = 0;
};
template <typename Arguments>
Norm norm_of(const Arguments& arguments) {
  return {arguments.operation, static_cast<int64_t>(arguments.normalized_shape.size()),
          static_cast<int64_t>(parameter_dims(arguments))};
}

/// The normalised values, computed from x, mean and rstd or from y, w and b, and their factors.
struct Saved {
  Tensor normalized;
  Tensor rstd;
  Tensor weight;  ///< with its offset; may be undefined: 1
};
/// mean is undefined for rms_norm.
Saved saved_from_input(const Tensor& input, const Tensor& mean, const Tensor& rstd,
                       const Tensor& weight);
Saved saved_from_output(const Tensor& output, const Tensor& rstd, const Tensor& weight,
                        const Tensor& bias);

/// Adds the gradients of two tensors of which either may be undefined.
Tensor sum_of(const Tensor& left, const Tensor& right);

/// The contribution to dx of gradients of mean and rstd.
Tensor input_gradient_of_statistics(const Tensor& grad_mean, const Tensor& grad_rstd,
                                    const Saved& saved, const Norm&);

/// Tangents of y, x, mean and rstd from those of x, w and b.
ForwardResults forward_tangents(const Tensor& input, const Tensor& weight, const Tensor& bias,
                                const Saved& saved, const Norm&);

/// Derivatives of the backward pass for cotangents of dx, dw and db.
struct BackwardGradients {
  Tensor grad_out;
  Tensor normalized;  ///< through h; the caller goes on to x, mean, rstd or to y, w, b
  Tensor rstd;        ///< the factor in dx alone
  Tensor weight;      ///< the factor in g alone
};
BackwardGradients backward_gradients(const Tensor& grad_dx, const Tensor& grad_dw,
                                     const Tensor& grad_db, const Tensor& grad_out,
                                     const Saved& saved, const Norm&);

/// Tangents of dx, dw and db from those of dy, h, rstd and w.
BackwardResults backward_tangents(const Tensor& grad_out_tangent, const Tensor& normalized_tangent,
                                  const Tensor& rstd_tangent, const Tensor& weight_tangent,
                                  const Tensor& grad_out, const Saved& saved, const Norm&);

/// The forward pass as ATen operations, for an eps that the core refuses and PyTorch computes with:
/// negative, infinite or NaN.
ForwardResults forward(const ForwardArguments&);

/// Sums over everything but the dimensions of weight and bias.
Tensor sum_rows(const Tensor& tensor, const Norm&);
/// Sums over a row, which stays as dimensions of size one.
Tensor sum_columns(const Tensor& tensor, const Norm&);

}  // namespace fusednorm::operators::derivatives
