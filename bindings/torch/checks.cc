// SPDX-License-Identifier: Apache-2.0
// The conditions of checks.h, each with its sentence.
#include "checks.h"

#include <c10/util/irange.h>

#include <cmath>

namespace fusednorm::operators {
namespace {

at::IntArrayRef sizes_of(const Tensor& tensor, const int64_t*) {
  return tensor.sizes();
}
Shape sizes_of(const Tensor& tensor, const c10::SymInt*) {
  return tensor.sym_sizes();
}

bool holds(bool condition) {
  return condition;
}
bool same(int64_t left, int64_t right) {
  return left == right;
}
c10::SymBool same(const c10::SymInt& left, const c10::SymInt& right) {
  return left.sym_eq(right);
}
bool holds(const c10::SymBool& condition) {
  return condition.expect_true(__FILE__, __LINE__);
}

template <typename Array>
bool same_sizes(const Array& left, const Array& right) {
  if (left.size() != right.size()) return false;
  for (const auto i : c10::irange(left.size())) {
    if (!holds(same(left[i], right[i]))) return false;
  }
  return true;
}

bool is_supported(at::ScalarType dtype) {
  return dtype == at::kFloat || dtype == at::kDouble || dtype == at::kHalf ||
         dtype == at::kBFloat16;
}

bool is_narrow(at::ScalarType dtype) {
  return dtype == at::kHalf || dtype == at::kBFloat16;
}

void check_dense(const char* op, const char* name, const Tensor& tensor) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !tensor.is_quantized(), op, ": ", name, " must be a dense tensor, but it is quantized, ",
      tensor.scalar_type(), ": call fusednorm.revert(model) before torch.ao.quantization.convert");
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == at::kStrided, op, ": ", name,
                              " must be a dense tensor, but its layout is ", tensor.layout());
}

void check_same_device(const char* op, const char* name, const Tensor& tensor,
                       const char* other_name, const Tensor& other) {
  TORCH_CHECK(tensor.device() == other.device(), op, ": ", name, " must be on the device of ",
              other_name, ", ", other.device(), ", but it is on ", tensor.device());
}

template <typename Array>
void check_same_shape(const char* op, const char* name, const Tensor& tensor,
                      const char* other_name, const Tensor& other, const Array& shape) {
  const auto sizes = sizes_of(tensor, shape.data());
  const auto expected = sizes_of(other, shape.data());
  TORCH_CHECK(same_sizes<Array>(sizes, expected), op, ": ", name, " must have the shape of ",
              other_name, ", ", expected, ", but it has shape ", sizes);
}

template <typename Array>
void check_normalized_shape(const char* name, const Tensor& input, const Array& shape) {
  const auto sizes = sizes_of(input, shape.data());
  TORCH_CHECK(shape.size() >= 1,
              "Expected normalized_shape to be at least 1-dimensional, but got "
              "normalized_shape=",
              shape, " for ", name, " of shape ", sizes);
  TORCH_CHECK(sizes.size() >= shape.size() &&
                  same_sizes<Array>(sizes.slice(sizes.size() - shape.size()), shape),
              "Given normalized_shape=", shape, ", expected ", name,
              " to end in these dimensions, but got ", name, " of shape ", sizes);
}

/// Whether weight or bias is a table with a row for each head: the last dimensions of the input,
/// more of them than are normalised.
template <typename Array>
bool is_table(const Array& sizes, const Array& input_sizes, const Array& shape) {
  return sizes.size() > shape.size() && sizes.size() <= input_sizes.size() &&
         same_sizes<Array>(sizes, input_sizes.slice(input_sizes.size() - sizes.size()));
}

bool is_accepted(at::ScalarType parameter, at::ScalarType input, bool narrow_parameters) {
  return parameter == input || (parameter == at::kFloat && is_narrow(input)) ||
         (narrow_parameters && input == at::kFloat && is_narrow(parameter));
}

/// "Float (the dtype of input)", "BFloat16 (the dtype of input) or Float", ...
std::string accepted_dtypes(at::ScalarType input, bool narrow_parameters) {
  std::string text = std::string(c10::toString(input)) + " (the dtype of input)";
  if (is_narrow(input)) text += " or Float";
  if (input == at::kFloat && narrow_parameters) text += ", Half or BFloat16";
  return text;
}

/// weight or bias, against the tensor that they were or will be applied to.
template <typename Arguments, typename Array>
void check_parameter(const Arguments& arguments, const char* name, const Tensor* parameter,
                     const char* input_name, const Tensor& input, const Array& shape) {
  if (parameter == nullptr) return;
  const auto* op = operator_name(arguments);
  const auto sizes = sizes_of(*parameter, shape.data());
  const auto input_sizes = sizes_of(input, shape.data());
  TORCH_CHECK((sizes.size() == shape.size() && same_sizes<Array>(sizes, shape)) ||
                  is_table<Array>(sizes, input_sizes, shape),
              "Expected ", name, " to be of same shape as normalized_shape, but got ", name,
              " of shape ", sizes, " and normalized_shape=", shape,
              sizes.size() > shape.size() ? " (or, for parameters of every head, the last" : "",
              sizes.size() > shape.size() ? " dimensions of input)" : "");
  check_dense(op, name, *parameter);
  check_same_device(op, name, *parameter, input_name, input);
  const auto dtype = parameter->scalar_type();
  TORCH_CHECK(is_accepted(dtype, arguments.input_type(), arguments.narrow_parameters), op, ": ",
              name, " must be ",
              accepted_dtypes(arguments.input_type(), arguments.narrow_parameters), ", but it is ",
              dtype);
}

template <typename Arguments, typename Array>
void check_parameters(const Arguments& arguments, const char* input_name, const Tensor& input,
                      const Array& shape) {
  const auto* weight = arguments.weight;
  const auto* bias = arguments.bias;
  const auto* op = operator_name(arguments);
  check_parameter(arguments, "weight", weight, input_name, input, shape);
  check_parameter(arguments, "bias", bias, input_name, input, shape);
  TORCH_CHECK_VALUE(std::isfinite(arguments.offset), op,
                    ": offset must be a finite number, but it is ", arguments.offset);
  if (weight == nullptr || bias == nullptr) return;
  TORCH_CHECK(weight->scalar_type() == bias->scalar_type(), op,
              ": weight and bias must share a dtype, but weight is ", weight->scalar_type(),
              " and bias is ", bias->scalar_type());
  TORCH_CHECK(weight->dim() == bias->dim(), op,
              ": weight and bias must share a shape, but weight has shape ",
              sizes_of(*weight, shape.data()), " and bias has shape ",
              sizes_of(*bias, shape.data()));
}

template <typename Array>
void check_residual(const ForwardArguments& arguments, const Array& shape) {
  if (!arguments.has_residual()) return;
  const auto* op = operator_name(arguments);
  const auto& input = *arguments.input;
  const auto& residual = *arguments.residual;
  check_dense(op, "residual", residual);
  check_same_device(op, "residual", residual, "input", input);
  check_same_shape(op, "residual", residual, "input", input, shape);
  const auto dtype = residual.scalar_type();
  const auto input_dtype = input.scalar_type();
  TORCH_CHECK(dtype == input_dtype || (dtype == at::kFloat && is_narrow(input_dtype)), op,
              ": residual must be ", accepted_dtypes(input_dtype, /*narrow_parameters=*/false),
              ", but it is ", dtype);
}

template <typename Array>
void check_arguments(const ForwardArguments& arguments, const Array& shape) {
  const auto* op = operator_name(arguments);
  const auto& input = *arguments.input;
  check_dense(op, "input", input);
  check_normalized_shape("input", input, shape);
  const auto input_dtype = arguments.input_type();
  TORCH_CHECK_NOT_IMPLEMENTED(is_supported(input_dtype), op,
                              ": input must be a tensor of Float, Double, Half or BFloat16, not "
                              "implemented for '",
                              input_dtype, "'");
  check_residual(arguments, shape);
  check_parameters(arguments, "input", input, shape);
  const auto dtype = arguments.output_type();
  TORCH_CHECK(dtype == input_dtype || dtype == parameter_type(arguments), op,
              ": dtype must be that of input, ", input_dtype,
              ", or of weight and bias (Float where they are left out), but it is ", dtype);
  if (!arguments.in_place) return;
  TORCH_CHECK(!input.is_same(*arguments.residual), op,
              "_: input and residual must be two tensors, but they are one: both are written to");
  TORCH_CHECK(dtype == input_dtype, op, "_: rounding=\"", name_of(arguments.rounding),
              "\" gives an output of dtype ", dtype, ", which cannot replace input of dtype ",
              input_dtype, ": use ", op);
}

template <typename Array>
void check_statistic(const BackwardArguments& arguments, const char* name, const Tensor& statistic,
                     const Array& shape) {
  const auto* op = operator_name(arguments);
  const auto* saved_name = arguments.saved_name();
  const auto& saved = *arguments.saved;
  check_dense(op, name, statistic);
  check_same_device(op, name, statistic, saved_name, saved);
  const auto input_dtype = arguments.input_type();
  TORCH_CHECK(statistic.scalar_type() == compute_type(input_dtype), op, "_backward: ", name,
              " must be ", compute_type(input_dtype), " for input of dtype ", input_dtype,
              ", but it is ", statistic.scalar_type());
  const auto saved_sizes = sizes_of(saved, shape.data());
  const auto rows = saved_sizes.slice(0, saved_sizes.size() - shape.size());
  const auto sizes = sizes_of(statistic, shape.data());
  bool fits =
      sizes.size() == saved_sizes.size() && same_sizes<Array>(sizes.slice(0, rows.size()), rows);
  for (auto i = rows.size(); fits && i < sizes.size(); ++i) fits = sizes[i] == 1;
  TORCH_CHECK(fits, op, "_backward: ", name, " must have the shape of ", saved_name,
              " with ones for normalized_shape, but ", name, " has shape ", sizes, " and ",
              saved_name, " has shape ", saved_sizes);
}

/// grad_out and grad_sum, as far as they are given.
template <typename Array>
void check_gradients(const BackwardArguments& arguments, const Array& shape) {
  const auto* op = operator_name(arguments);
  const auto backward = std::string(op) + "_backward";
  const auto* saved_name = arguments.saved_name();
  const auto& saved = *arguments.saved;
  const std::pair<const char*, const Tensor*> named[] = {{"grad_out", arguments.grad_out},
                                                         {"grad_sum", arguments.grad_sum}};
  for (const auto& [name, gradient] : named) {
    if (gradient == nullptr) continue;
    check_dense(op, name, *gradient);
    check_same_device(op, name, *gradient, saved_name, saved);
    check_same_shape(backward.c_str(), name, *gradient, saved_name, saved, shape);
  }
  TORCH_CHECK(arguments.grad_out != nullptr || arguments.grad_sum != nullptr, backward,
              ": grad_out or grad_sum must be given, but both are None");
  const auto dtype = arguments.output_type();
  const auto input_dtype = arguments.input_type();
  TORCH_CHECK(dtype == input_dtype || dtype == parameter_type(arguments), backward,
              ": grad_out must have the dtype of input, ", input_dtype,
              ", or of weight and bias (Float where they are left out), but it is ", dtype);
  TORCH_CHECK(arguments.source == Source::x || saved.scalar_type() == dtype, backward, ": ",
              saved_name, " must have the dtype of grad_out, ", dtype, ", but it is ",
              saved.scalar_type());
  if (!arguments.of_sum) return;
  const auto sum_dtype = saved.scalar_type();
  TORCH_CHECK(sum_dtype == input_dtype || (sum_dtype == at::kFloat && is_narrow(input_dtype)),
              backward, ": sum must be ", accepted_dtypes(input_dtype, /*narrow_parameters=*/false),
              ", but it is ", sum_dtype);
  TORCH_CHECK(arguments.grad_sum == nullptr || arguments.grad_sum->scalar_type() == sum_dtype,
              backward, ": grad_sum must have the dtype of sum, ", sum_dtype, ", but it is ",
              arguments.grad_sum->scalar_type());
  TORCH_CHECK(!arguments.mask.residual || sum_dtype != input_dtype, backward,
              ": output_mask[1] must be False where residual has the dtype of input, ", input_dtype,
              ": the gradient of input is that of residual");
}

template <typename Array>
void check_arguments(const BackwardArguments& arguments, const Array& shape) {
  const auto* op = operator_name(arguments);
  const auto* saved_name = arguments.saved_name();
  const auto& saved = *arguments.saved;
  check_dense(op, saved_name, saved);
  check_normalized_shape(saved_name, saved, shape);
  TORCH_CHECK_NOT_IMPLEMENTED(
      is_supported(arguments.input_type()) && is_supported(saved.scalar_type()), op,
      "_backward: ", saved_name,
      " must be a tensor of Float, Double, Half or "
      "BFloat16, not implemented for '",
      saved.scalar_type(), "'");
  check_parameters(arguments, saved_name, saved, shape);
  check_gradients(arguments, shape);
  if (arguments.mean != nullptr) check_statistic(arguments, "mean", *arguments.mean, shape);
  check_statistic(arguments, "rstd", *arguments.rstd, shape);
}

}  // namespace

void check(const ForwardArguments& arguments, at::IntArrayRef normalized_shape) {
  check_arguments(arguments, normalized_shape);
}
void check(const ForwardArguments& arguments, Shape normalized_shape) {
  check_arguments(arguments, normalized_shape);
}
void check(const BackwardArguments& arguments, at::IntArrayRef normalized_shape) {
  check_arguments(arguments, normalized_shape);
}
void check(const BackwardArguments& arguments, Shape normalized_shape) {
  check_arguments(arguments, normalized_shape);
}

void refuse_layout(const c10::FunctionSchema& schema, const torch::jit::Stack& stack) {
  const auto& parameters = schema.arguments();
  const auto op = schema.name().substr(schema.name().rfind(':') + 1);
  const auto values = torch::jit::last(stack, parameters.size());
  for (const auto i : c10::irange(parameters.size())) {
    if (!values[i].isTensor() || !values[i].toTensor().defined()) continue;
    const auto& tensor = values[i].toTensor();
    const auto* name = parameters[i].name().c_str();
    TORCH_CHECK_NOT_IMPLEMENTED(!tensor.is_nested(), op, ": ", name,
                                " must be a dense tensor, but it is a nested tensor");
    check_dense(op.c_str(), name, tensor);
  }
  TORCH_CHECK_NOT_IMPLEMENTED(false, op, ": every tensor must be dense");
}

}  // namespace fusednorm::operators
