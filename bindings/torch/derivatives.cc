// SPDX-License-Identifier: Apache-2.0
// The formulas of derivatives.h. Each line is one term of the derivation in docs/pytorch.md.
#include "derivatives.h"

#include <ATen/ops/mean.h>
#include <ATen/ops/sum.h>

#include <numeric>

namespace fusednorm::operators::derivatives {
namespace {

std::vector<int64_t> row_dims(const Tensor& tensor, Dimensions dimensions) {
  std::vector<int64_t> dims(tensor.dim() - dimensions.inner);
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

std::vector<int64_t> column_dims(const Tensor& tensor, Dimensions dimensions) {
  std::vector<int64_t> dims(dimensions.inner);
  std::iota(dims.begin(), dims.end(), tensor.dim() - dimensions.inner);
  return dims;
}

Tensor row_mean(const Tensor& tensor, Dimensions dimensions) {
  return tensor.mean(column_dims(tensor, dimensions), /*keepdim=*/true);
}

Tensor times(const Tensor& tensor, const Tensor& factor) {
  return factor.defined() ? tensor * factor : tensor;
}

/// t - <t> - h <t h>: removes the components of t along shift and scale of the row. Symmetric.
Tensor project(const Tensor& tensor, const Tensor& normalized, Dimensions dimensions) {
  return tensor - row_mean(tensor, dimensions) -
         normalized * row_mean(tensor * normalized, dimensions);
}

}  // namespace

Tensor add(const Tensor& left, const Tensor& right) {
  if (!left.defined()) return right;
  return right.defined() ? left + right : left;
}

Tensor sum_rows(const Tensor& tensor, Dimensions dimensions) {
  const auto dims = row_dims(tensor, dimensions);
  return dims.empty() ? tensor : tensor.sum(dims);  // an empty list would mean all dimensions
}

Tensor sum_columns(const Tensor& tensor, Dimensions dimensions) {
  return tensor.sum(column_dims(tensor, dimensions), /*keepdim=*/true);
}

Saved saved_from_input(const Tensor& input, const Tensor& mean, const Tensor& rstd,
                       const Tensor& weight) {
  return {(input - mean) * rstd, rstd, weight};
}

Saved saved_from_output(const Tensor& output, const Tensor& rstd, const Tensor& weight,
                        const Tensor& bias) {
  const auto shifted = bias.defined() ? output - bias : output;
  return {weight.defined() ? shifted / weight : shifted, rstd, weight};
}

Tensor input_gradient_of_statistics(const Tensor& grad_mean, const Tensor& grad_rstd,
                                    const Saved& saved, Dimensions dimensions) {
  // d mean / d x = 1 / N and d rstd / d x = -rstd^2 h / N
  Tensor sum;
  if (grad_mean.defined()) sum = grad_mean.expand_as(saved.normalized);
  if (grad_rstd.defined()) {
    sum = add(sum, -(grad_rstd * saved.rstd * saved.rstd * saved.normalized));
  }
  if (!sum.defined()) return sum;
  c10::SymInt count = 1;
  const auto sizes = saved.normalized.sym_sizes();
  for (const auto& size : sizes.slice(sizes.size() - dimensions.inner)) count = count * size;
  return sum / at::Scalar(count);
}

ForwardResults forward(const ForwardArguments& arguments) {
  const Dimensions dimensions{static_cast<int64_t>(arguments.normalized_shape.size())};
  const auto x = arguments.input->to(compute_type(arguments.input_type()));
  const auto mean = row_mean(x, dimensions);
  const auto centred = x - mean;
  const auto rstd = (row_mean(centred * centred, dimensions) + arguments.eps).rsqrt();
  auto y = centred * rstd;
  if (arguments.weight != nullptr) y = y * *arguments.weight;
  if (arguments.bias != nullptr) y = y + *arguments.bias;
  return {y.to(arguments.output_type()), mean, rstd};
}

ForwardResults forward_tangents(const Tensor& input, const Tensor& weight, const Tensor& bias,
                                const Saved& saved, Dimensions dimensions) {
  ForwardResults result;
  if (input.defined()) {
    result.output = times(saved.rstd * project(input, saved.normalized, dimensions), saved.weight);
    result.mean = row_mean(input, dimensions);
    result.rstd = -(saved.rstd * saved.rstd * row_mean(input * saved.normalized, dimensions));
  }
  if (weight.defined()) result.output = add(result.output, saved.normalized * weight);
  if (bias.defined()) result.output = add(result.output, bias.expand_as(saved.normalized));
  return result;
}

BackwardGradients backward_gradients(const Tensor& grad_dx, const Tensor& grad_dw,
                                     const Tensor& grad_db, const Tensor& grad_out,
                                     const Saved& saved, Dimensions dimensions) {
  const auto& [h, rstd, weight] = saved;
  BackwardGradients result;
  if (grad_dx.defined()) {
    const auto g = times(grad_out, weight);
    const auto through_g = rstd * project(grad_dx, h, dimensions);
    result.grad_out = times(through_g, weight);
    if (weight.defined()) result.weight = sum_rows(grad_out * through_g, dimensions);
    result.normalized =
        -rstd * (grad_dx * row_mean(g * h, dimensions) + g * row_mean(grad_dx * h, dimensions));
    result.rstd = sum_columns(grad_dx * project(g, h, dimensions), dimensions);
  }
  if (grad_dw.defined()) {
    result.grad_out = add(result.grad_out, grad_dw * h);
    result.normalized = add(result.normalized, grad_dw * grad_out);
  }
  if (grad_db.defined()) result.grad_out = add(result.grad_out, grad_db.expand_as(grad_out));
  return result;
}

BackwardResults backward_tangents(const Tensor& grad_out_tangent, const Tensor& normalized_tangent,
                                  const Tensor& rstd_tangent, const Tensor& weight_tangent,
                                  const Tensor& grad_out, const Saved& saved,
                                  Dimensions dimensions) {
  const auto& [h, rstd, weight] = saved;
  const auto g = times(grad_out, weight);
  Tensor dx, dw, db;
  Tensor g_tangent;
  if (grad_out_tangent.defined()) {
    g_tangent = times(grad_out_tangent, weight);
    dw = sum_rows(grad_out_tangent * h, dimensions);
    db = sum_rows(grad_out_tangent, dimensions);
  }
  if (weight_tangent.defined()) g_tangent = add(g_tangent, grad_out * weight_tangent);
  if (g_tangent.defined()) dx = rstd * project(g_tangent, h, dimensions);
  if (normalized_tangent.defined()) {
    dx = add(dx, -rstd * (normalized_tangent * row_mean(g * h, dimensions) +
                          h * row_mean(g * normalized_tangent, dimensions)));
    dw = add(dw, sum_rows(grad_out * normalized_tangent, dimensions));
  }
  if (rstd_tangent.defined()) dx = add(dx, rstd_tangent * project(g, h, dimensions));
  return {dx, dw, db};
}

}  // namespace fusednorm::operators::derivatives
