// What the operators return, without computing it: shapes and dtypes for meta tensors, FakeTensor,
// torch.compile and torch.export, with symbolic sizes kept symbolic.
#include <ATen/ops/empty.h>

#include "checks.h"
#include "operators.h"

namespace fusednorm::operators::meta {
namespace {

Tensor empty(Shape sizes, const Tensor& like, at::ScalarType dtype) {
  return at::empty_symint(sizes, like.options().dtype(dtype));
}

Tensor empty_statistic(const Tensor& input, size_t inner_dims) {
  auto sizes = input.sym_sizes().vec();
  std::fill(sizes.end() - static_cast<std::ptrdiff_t>(inner_dims), sizes.end(), c10::SymInt(1));
  return empty(sizes, input, compute_type(input.scalar_type()));
}

Three empty_gradients(const Tensor& kept, at::ScalarType input_type, const Tensor& grad_out,
                      Shape normalized_shape, const Optional& weight, const Optional& bias,
                      Mask mask) {
  const auto parameter = parameter_type(weight, bias, input_type, grad_out.scalar_type());
  Three result;
  if (mask[0]) std::get<0>(result) = empty(kept.sym_sizes(), kept, input_type);
  if (mask[1]) std::get<1>(result) = empty(normalized_shape, kept, parameter);
  if (mask[2]) std::get<2>(result) = empty(normalized_shape, kept, parameter);
  return result;
}

}  // namespace

Tensor layer_norm(const Tensor& input, Shape normalized_shape, const Optional& weight,
                  const Optional& bias, double) {
  check_forward(input, normalized_shape, weight, bias, std::nullopt);
  return empty(input.sym_sizes(), input, input.scalar_type());
}

Three forward(const Tensor& input, Shape normalized_shape, const Optional& weight,
              const Optional& bias, double, Dtype dtype) {
  check_forward(input, normalized_shape, weight, bias, dtype);
  return {empty(input.sym_sizes(), input, dtype.value_or(input.scalar_type())),
          empty_statistic(input, normalized_shape.size()),
          empty_statistic(input, normalized_shape.size())};
}

Two efficient_forward(const Tensor& input, Shape normalized_shape, const Optional& weight,
                      const Optional& bias, double, Dtype dtype) {
  check_forward(input, normalized_shape, weight, bias, dtype);
  return {empty(input.sym_sizes(), input, dtype.value_or(input.scalar_type())),
          empty_statistic(input, normalized_shape.size())};
}

Three backward(const Tensor& grad_out, const Tensor& input, Shape normalized_shape,
               const Tensor& mean, const Tensor& rstd, const Optional& weight, const Optional& bias,
               Mask mask) {
  check_backward(grad_out, "input", input, input.scalar_type(), normalized_shape, &mean, rstd,
                 weight, bias);
  return empty_gradients(input, input.scalar_type(), grad_out, normalized_shape, weight, bias,
                         mask);
}

Three efficient_backward(const Tensor& grad_out, const Tensor& output, Shape normalized_shape,
                         const Tensor& rstd, const Optional& weight, const Optional& bias,
                         Mask mask, Dtype dtype) {
  const auto input_type = dtype.value_or(output.scalar_type());
  check_backward(grad_out, "output", output, input_type, normalized_shape, nullptr, rstd, weight,
                 bias);
  return empty_gradients(output, input_type, grad_out, normalized_shape, weight, bias, mask);
}

}  // namespace fusednorm::operators::meta
