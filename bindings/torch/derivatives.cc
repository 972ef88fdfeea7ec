// SPDX-License-Identifier: Apache-2.0
// The formulas of derivatives.h. Each line is one term of the derivation in docs/pytorch.md.
#include "derivatives.h"

#include <ATen/ops/mean.h>
#include <ATen/ops/sum.h>

#include <numeric>

namespace fusednorm::operators::derivatives {
namespace {

std::vector<int64_t> row_dims(const Tensor& tensor, const Norm& norm) {
  std::vector<int64_t> dims(tensor.dim() - norm.parameter);
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

std::vector<int64_t> column_dims(const Tensor& tensor, const Norm& norm) {
  std::vector<int64_t> dims(norm.inner);
  std::iota(dims.begin(), dims.end(), tensor.dim() - norm.inner);
  return dims;
}

Tensor row_mean(const Tensor& tensor, const Norm& norm) {
  return tensor.mean(column_dims(tensor, norm), /*keepdim=*/true);
}

Tensor times(const Tensor& tensor, const Tensor& factor) {
  return factor.defined() ? tensor * factor : tensor;
}

/// t - <t> - h <t h>: removes the components of t along shift (not for rms_norm) and scale of the
/// row. Symmetric.
Tensor project(const Tensor& tensor, const Tensor& normalized, const Norm& norm) {
  const auto unscaled = tensor - normalized * row_mean(tensor * normalized, norm);
  return norm.operation == Operation::rms_norm ? unscaled : unscaled - row_mean(tensor, norm);
}

/// To `dtype` and back: what is left of a value that is stored.
Tensor rounded(const Tensor& tensor, at::ScalarType dtype) {
  return tensor.to(dtype).to(tensor.scalar_type());
}

}  // namespace

Tensor sum_of(const Tensor& left, const Tensor& right) {
  if (!left.defined()) return right;
  return right.defined() ? left + right : left;
}

Tensor sum_rows(const Tensor& tensor, const Norm& norm) {
  const auto dims = row_dims(tensor, norm);
  return dims.empty() ? tensor : tensor.sum(dims);  // an empty list would mean all norm
}

Tensor sum_columns(const Tensor& tensor, const Norm& norm) {
  return tensor.sum(column_dims(tensor, norm), /*keepdim=*/true);
}

Saved saved_from_input(const Tensor& input, const Tensor& mean, const Tensor& rstd,
                       const Tensor& weight) {
  return {(mean.defined() ? input - mean : input) * rstd, rstd, weight};
}

Saved saved_from_output(const Tensor& output, const Tensor& rstd, const Tensor& weight,
                        const Tensor& bias) {
  const auto shifted = bias.defined() ? output - bias : output;
  return {weight.defined() ? shifted / weight : shifted, rstd, weight};
}

Tensor input_gradient_of_statistics(const Tensor& grad_mean, const Tensor& grad_rstd,
                                    const Saved& saved, const Norm& norm) {
  // d mean / d x = 1 / N and d rstd / d x = -rstd^2 h / N
  Tensor sum;
  if (grad_mean.defined()) sum = grad_mean.expand_as(saved.normalized);
  if (grad_rstd.defined()) {
    sum = sum_of(sum, -(grad_rstd * saved.rstd * saved.rstd * saved.normalized));
  }
  if (!sum.defined()) return sum;
  c10::SymInt count = 1;
  const auto sizes = saved.normalized.sym_sizes();
  for (const auto& size : sizes.slice(sizes.size() - norm.inner)) count = count * size;
  return sum / at::Scalar(count);
}

ForwardResults forward(const ForwardArguments& arguments) {
  const auto norm = norm_of(arguments);
  const auto compute = compute_type(arguments.input_type());
  const auto output_type = arguments.output_type();
  ForwardResults results;
  auto x = arguments.input->to(compute);
  if (arguments.has_residual()) {
    results.sum = (x + arguments.residual->to(compute)).to(arguments.residual->scalar_type());
    x = results.sum.to(compute);
  }
  if (norm.operation == Operation::layer_norm) {
    results.mean = row_mean(x, norm);
    x = x - results.mean;
  }
  results.rstd = (row_mean(x * x, norm) + arguments.epsilon()).rsqrt();
  auto y = x * results.rstd;
  const bool once = arguments.rounding == Rounding::once;
  if (!once) {
    y = rounded(y, arguments.rounding == Rounding::via_x ? arguments.row().scalar_type()
                                                         : parameter_type(arguments));
  }
  if (arguments.weight != nullptr) y = y * (arguments.weight->to(compute) + arguments.offset);
  if (!once) y = rounded(y, output_type);
  if (arguments.bias != nullptr) y = y + *arguments.bias;
  results.output = y.to(output_type);
  return results;
}

ForwardResults forward_tangents(const Tensor& input, const Tensor& weight, const Tensor& bias,
                                const Saved& saved, const Norm& norm) {
  ForwardResults result;
  if (input.defined()) {
    result.output = times(saved.rstd * project(input, saved.normalized, norm), saved.weight);
    result.sum = input;
    if (norm.operation == Operation::layer_norm) result.mean = row_mean(input, norm);
    result.rstd = -(saved.rstd * saved.rstd * row_mean(input * saved.normalized, norm));
  }
  if (weight.defined()) result.output = sum_of(result.output, saved.normalized * weight);
  if (bias.defined()) result.output = sum_of(result.output, bias.expand_as(saved.normalized));
  return result;
}

BackwardGradients backward_gradients(const Tensor& grad_dx, const Tensor& grad_dw,
                                     const Tensor& grad_db, const Tensor& grad_out,
                                     const Saved& saved, const Norm& norm) {
  const auto& [h, rstd, weight] = saved;
  BackwardGradients result;
  if (!grad_out.defined()) return result;  // dx is ds alone
  if (grad_dx.defined()) {
    const auto g = times(grad_out, weight);
    const auto through_g = rstd * project(grad_dx, h, norm);
    result.grad_out = times(through_g, weight);
    if (weight.defined()) result.weight = sum_rows(grad_out * through_g, norm);
    result.normalized = -rstd * (grad_dx * row_mean(g * h, norm) + g * row_mean(grad_dx * h, norm));
    result.rstd = sum_columns(grad_dx * project(g, h, norm), norm);
  }
  if (grad_dw.defined()) {
    result.grad_out = sum_of(result.grad_out, grad_dw * h);
    result.normalized = sum_of(result.normalized, grad_dw * grad_out);
  }
  if (grad_db.defined()) result.grad_out = sum_of(result.grad_out, grad_db.expand_as(grad_out));
  return result;
}

BackwardResults backward_tangents(const Tensor& grad_out_tangent, const Tensor& normalized_tangent,
                                  const Tensor& rstd_tangent, const Tensor& weight_tangent,
                                  const Tensor& grad_out, const Saved& saved, const Norm& norm) {
  if (!grad_out.defined()) return {};  // dx is ds alone
  const auto& [h, rstd, weight] = saved;
  const auto g = times(grad_out, weight);
  Tensor dx, dw, db;
  Tensor g_tangent;
  if (grad_out_tangent.defined()) {
    g_tangent = times(grad_out_tangent, weight);
    dw = sum_rows(grad_out_tangent * h, norm);
    db = sum_rows(grad_out_tangent, norm);
  }
  if (weight_tangent.defined()) g_tangent = sum_of(g_tangent, grad_out * weight_tangent);
  if (g_tangent.defined()) dx = rstd * project(g_tangent, h, norm);
  if (normalized_tangent.defined()) {
    dx = sum_of(dx, -rstd * (normalized_tangent * row_mean(g * h, norm) +
                             h * row_mean(g * normalized_tangent, norm)));
    dw = sum_of(dw, sum_rows(grad_out * normalized_tangent, norm));
  }
  if (rstd_tangent.defined()) dx = sum_of(dx, rstd_tangent * project(g, h, norm));
  return {dx, Tensor(), dw, db};
}

}  // namespace fusednorm::operators::derivatives
