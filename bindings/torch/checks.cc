// SPDX-License-Identifier: Apache-2.0
// The conditions of checks.h, each with its sentence.
#include "checks.h"

#include <c10/util/irange.h>

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

void check_dense(Operation operation, const char* name, const Tensor& tensor) {
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == at::kStrided && !tensor.is_quantized(),
                              name_of(operation), ": ", name,
                              " must be a dense (strided) tensor, but got one of layout ",
                              tensor.layout(), " and dtype ", tensor.scalar_type());
}

void check_same_device(Operation operation, const char* name, const Tensor& tensor,
                       const char* other_name, const Tensor& other) {
  TORCH_CHECK(tensor.device() == other.device(), name_of(operation), ": ", name,
              " must be on the device of ", other_name, ", ", other.device(), ", but it is on ",
              tensor.device());
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

/// weight or bias, against the tensor that they were or will be applied to.
template <typename Array>
void check_parameter(Operation operation, const char* name, const Tensor* parameter,
                     const char* input_name, const Tensor& input, at::ScalarType input_dtype,
                     const Array& shape) {
  if (parameter == nullptr) return;
  const auto sizes = sizes_of(*parameter, shape.data());
  TORCH_CHECK(same_sizes<Array>(sizes, shape), "Expected ", name,
              " to be of same shape as normalized_shape, but got ", name, " of shape ", sizes,
              " and normalized_shape=", shape);
  check_dense(operation, name, *parameter);
  check_same_device(operation, name, *parameter, input_name, input);
  const auto dtype = parameter->scalar_type();
  TORCH_CHECK(dtype == input_dtype || dtype == at::kFloat, name_of(operation), ": ", name,
              " must have the dtype of input, ", input_dtype, ", or be Float, but it is ", dtype);
}

template <typename Arguments, typename Array>
void check_parameters(const Arguments& arguments, const char* input_name, const Tensor& input,
                      const Array& shape) {
  const auto* weight = arguments.weight;
  const auto* bias = arguments.bias;
  const auto dtype = arguments.input_type();
  check_parameter(arguments.operation, "weight", weight, input_name, input, dtype, shape);
  check_parameter(arguments.operation, "bias", bias, input_name, input, dtype, shape);
  if (weight == nullptr || bias == nullptr) return;
  TORCH_CHECK(weight->scalar_type() == bias->scalar_type(), name_of(arguments.operation),
              ": weight and bias must share a dtype, but weight is ", weight->scalar_type(),
              " and bias is ", bias->scalar_type());
}

template <typename Array>
void check_arguments(const ForwardArguments& arguments, const Array& shape) {
  const auto operation = arguments.operation;
  const auto& input = *arguments.input;
  check_dense(operation, "input", input);
  check_normalized_shape("input", input, shape);
  const auto input_dtype = arguments.input_type();
  TORCH_CHECK_NOT_IMPLEMENTED(is_supported(input_dtype), name_of(operation),
                              ": input must be a tensor of Float, Double, Half or BFloat16, not "
                              "implemented for '",
                              input_dtype, "'");
  check_parameters(arguments, "input", input, shape);
  const auto dtype = arguments.output_type();
  TORCH_CHECK(dtype == input_dtype || dtype == parameter_type(arguments), name_of(operation),
              ": dtype must be that of input, ", input_dtype,
              ", or of weight and bias (Float where they are left out), but it is ", dtype);
}

template <typename Array>
void check_statistic(const BackwardArguments& arguments, const char* name, const Tensor& statistic,
                     const Array& shape) {
  const auto operation = arguments.operation;
  const auto* saved_name = arguments.saved_name();
  const auto& saved = *arguments.saved;
  check_dense(operation, name, statistic);
  check_same_device(operation, name, statistic, saved_name, saved);
  const auto input_dtype = arguments.input_type();
  TORCH_CHECK(statistic.scalar_type() == compute_type(input_dtype), name_of(operation),
              "_backward: ", name, " must be ", compute_type(input_dtype), " for input of dtype ",
              input_dtype, ", but it is ", statistic.scalar_type());
  const auto saved_sizes = sizes_of(saved, shape.data());
  const auto rows = saved_sizes.slice(0, saved_sizes.size() - shape.size());
  const auto sizes = sizes_of(statistic, shape.data());
  bool fits =
      sizes.size() == saved_sizes.size() && same_sizes<Array>(sizes.slice(0, rows.size()), rows);
  for (auto i = rows.size(); fits && i < sizes.size(); ++i) fits = sizes[i] == 1;
  TORCH_CHECK(fits, name_of(operation), "_backward: ", name, " must have the shape of ", saved_name,
              " with ones for normalized_shape, but ", name, " has shape ", sizes, " and ",
              saved_name, " has shape ", saved_sizes);
}

template <typename Array>
void check_grad_out(const BackwardArguments& arguments, const Array& shape) {
  const auto operation = arguments.operation;
  const auto* saved_name = arguments.saved_name();
  const auto& saved = *arguments.saved;
  const auto& grad_out = *arguments.grad_out;
  check_same_device(operation, "grad_out", grad_out, saved_name, saved);
  const auto saved_sizes = sizes_of(saved, shape.data());
  const auto sizes = sizes_of(grad_out, shape.data());
  TORCH_CHECK(same_sizes<Array>(sizes, saved_sizes), name_of(operation),
              "_backward: grad_out must have the shape of ", saved_name, ", ", saved_sizes,
              ", but it has shape ", sizes);
  const auto dtype = grad_out.scalar_type();
  const auto input_dtype = arguments.input_type();
  TORCH_CHECK(dtype == input_dtype || dtype == parameter_type(arguments), name_of(operation),
              "_backward: grad_out must have the dtype of input, ", input_dtype,
              ", or of weight and bias (Float where they are left out), but it is ", dtype);
  TORCH_CHECK(arguments.source == Source::x || saved.scalar_type() == dtype, name_of(operation),
              "_backward: ", saved_name, " must have the dtype of grad_out, ", dtype,
              ", but it is ", saved.scalar_type());
}

template <typename Array>
void check_arguments(const BackwardArguments& arguments, const Array& shape) {
  const auto operation = arguments.operation;
  const auto* saved_name = arguments.saved_name();
  const auto& saved = *arguments.saved;
  check_dense(operation, saved_name, saved);
  check_dense(operation, "grad_out", *arguments.grad_out);
  check_normalized_shape(saved_name, saved, shape);
  TORCH_CHECK_NOT_IMPLEMENTED(
      is_supported(arguments.input_type()) && is_supported(saved.scalar_type()), name_of(operation),
      "_backward: ", saved_name,
      " must be a tensor of Float, Double, Half or "
      "BFloat16, not implemented for '",
      saved.scalar_type(), "'");
  check_parameters(arguments, saved_name, saved, shape);
  check_grad_out(arguments, shape);
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

void refuse_layout(Operation operation, const c10::FunctionSchema& schema,
                   const torch::jit::Stack& stack) {
  const auto& parameters = schema.arguments();
  const auto values = torch::jit::last(stack, parameters.size());
  for (const auto i : c10::irange(parameters.size())) {
    if (!values[i].isTensor() || !values[i].toTensor().defined()) continue;
    const auto& tensor = values[i].toTensor();
    const auto* name = parameters[i].name().c_str();
    TORCH_CHECK_NOT_IMPLEMENTED(!tensor.is_nested(), name_of(operation), ": ", name,
                                " must be a dense (strided) tensor, but got a nested tensor");
    check_dense(operation, name, tensor);
  }
  TORCH_CHECK_NOT_IMPLEMENTED(false, name_of(operation), ": every tensor must be dense (strided)");
}

}  // namespace fusednorm::operators
