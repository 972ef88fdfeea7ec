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

void check_dense(const char* name, const Tensor& tensor) {
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == at::kStrided && !tensor.is_quantized(),
                              "layer_norm: ", name,
                              " must be a dense (strided) tensor, but got one of layout ",
                              tensor.layout(), " and dtype ", tensor.scalar_type());
}

void check_same_device(const char* name, const Tensor& tensor, const char* other_name,
                       const Tensor& other) {
  TORCH_CHECK(tensor.device() == other.device(), "layer_norm: ", name, " must be on the device of ",
              other_name, ", ", other.device(), ", but it is on ", tensor.device());
}

template <typename Array>
void check_normalized_shape(const char* name, const Tensor& input, const Array& shape) {
  TORCH_CHECK(shape.size() >= 1,
              "Expected normalized_shape to be at least 1-dimensional, but got normalized_shape=",
              shape, " for ", name, " of shape ", sizes_of(input, shape.data()));
  const auto sizes = sizes_of(input, shape.data());
  TORCH_CHECK(sizes.size() >= shape.size() &&
                  same_sizes<Array>(sizes.slice(sizes.size() - shape.size()), shape),
              "Given normalized_shape=", shape, ", expected ", name,
              " to end in these dimensions, but got ", name, " of shape ", sizes);
}

template <typename Array>
void check_parameter(const char* name, const Optional& parameter, const char* input_name,
                     const Tensor& input, at::ScalarType input_dtype, const Array& shape) {
  if (!given(parameter)) return;
  TORCH_CHECK(same_sizes<Array>(sizes_of(*parameter, shape.data()), shape), "Expected ", name,
              " to be of same shape as normalized_shape, but got ", name, " of shape ",
              sizes_of(*parameter, shape.data()), " and normalized_shape=", shape);
  check_dense(name, *parameter);
  check_same_device(name, *parameter, input_name, input);
  const auto dtype = parameter->scalar_type();
  TORCH_CHECK(dtype == input_dtype || dtype == at::kFloat, "layer_norm: ", name,
              " must have the dtype of input, ", input_dtype, ", or be Float, but it is ", dtype);
}

void check_parameters_agree(const Optional& weight, const Optional& bias) {
  TORCH_CHECK(!given(weight) || !given(bias) || weight->scalar_type() == bias->scalar_type(),
              "layer_norm: weight and bias must share a dtype, but weight is ",
              weight->scalar_type(), " and bias is ", bias->scalar_type());
}

template <typename Array>
void check_forward_arguments(const Tensor& input, const Array& shape, const Optional& weight,
                             const Optional& bias, Dtype dtype) {
  check_dense("input", input);
  check_normalized_shape("input", input, shape);
  const auto input_dtype = input.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(is_supported(input_dtype),
                              "layer_norm: input must be a tensor of Float, Double, Half or "
                              "BFloat16, not implemented for '",
                              input_dtype, "'");
  check_parameter("weight", weight, "input", input, input_dtype, shape);
  check_parameter("bias", bias, "input", input, input_dtype, shape);
  check_parameters_agree(weight, bias);
  if (!dtype.has_value()) return;
  TORCH_CHECK(*dtype == input_dtype || *dtype == parameter_type(weight, bias, input_dtype, *dtype),
              "layer_norm: dtype must be that of input, ", input_dtype,
              ", or of weight and bias (Float where they are left out), but it is ", *dtype);
}

template <typename Array>
void check_statistic(const char* name, const Tensor& statistic, const char* source_name,
                     const Tensor& source, at::ScalarType input_dtype, const Array& shape) {
  check_dense(name, statistic);
  check_same_device(name, statistic, source_name, source);
  TORCH_CHECK(statistic.scalar_type() == compute_type(input_dtype), "layer_norm_backward: ", name,
              " must be ", compute_type(input_dtype), " for input of dtype ", input_dtype,
              ", but it is ", statistic.scalar_type());
  const auto rows = sizes_of(source, shape.data()).slice(0, source.dim() - shape.size());
  const auto sizes = sizes_of(statistic, shape.data());
  bool fits = sizes.size() == static_cast<size_t>(source.dim()) &&
              same_sizes<Array>(sizes.slice(0, rows.size()), rows);
  for (auto i = rows.size(); fits && i < sizes.size(); ++i) fits = sizes[i] == 1;
  TORCH_CHECK(fits, "layer_norm_backward: ", name, " must have the shape of ", source_name,
              " with ones for normalized_shape, but ", name, " has shape ", sizes, " and ",
              source_name, " has shape ", sizes_of(source, shape.data()));
}

template <typename Array>
void check_backward_arguments(const Tensor& grad_out, const char* source_name, const Tensor& source,
                              at::ScalarType input_dtype, const Array& shape, const Tensor* mean,
                              const Tensor& rstd, const Optional& weight, const Optional& bias) {
  check_dense(source_name, source);
  check_dense("grad_out", grad_out);
  check_normalized_shape(source_name, source, shape);
  TORCH_CHECK_NOT_IMPLEMENTED(is_supported(input_dtype) && is_supported(source.scalar_type()),
                              "layer_norm_backward: ", source_name,
                              " must be a tensor of Float, Double, Half or BFloat16, not "
                              "implemented for '",
                              source.scalar_type(), "'");
  check_parameter("weight", weight, source_name, source, input_dtype, shape);
  check_parameter("bias", bias, source_name, source, input_dtype, shape);
  check_parameters_agree(weight, bias);
  check_same_device("grad_out", grad_out, source_name, source);
  TORCH_CHECK(same_sizes<Array>(sizes_of(grad_out, shape.data()), sizes_of(source, shape.data())),
              "layer_norm_backward: grad_out must have the shape of ", source_name, ", ",
              sizes_of(source, shape.data()), ", but it has shape ",
              sizes_of(grad_out, shape.data()));
  const auto grad_dtype = grad_out.scalar_type();
  TORCH_CHECK(grad_dtype == input_dtype ||
                  grad_dtype == parameter_type(weight, bias, input_dtype, grad_dtype),
              "layer_norm_backward: grad_out must have the dtype of input, ", input_dtype,
              ", or of weight and bias (Float where they are left out), but it is ", grad_dtype);
  if (mean != nullptr) {
    check_statistic("mean", *mean, source_name, source, input_dtype, shape);
  } else {
    TORCH_CHECK(source.scalar_type() == grad_dtype, "layer_norm_backward: ", source_name,
                " must have the dtype of grad_out, ", grad_dtype, ", but it is ",
                source.scalar_type());
  }
  check_statistic("rstd", rstd, source_name, source, input_dtype, shape);
}

}  // namespace

void check_forward(const Tensor& input, at::IntArrayRef normalized_shape, const Optional& weight,
                   const Optional& bias, Dtype dtype) {
  check_forward_arguments(input, normalized_shape, weight, bias, dtype);
}

void check_forward(const Tensor& input, Shape normalized_shape, const Optional& weight,
                   const Optional& bias, Dtype dtype) {
  check_forward_arguments(input, normalized_shape, weight, bias, dtype);
}

void check_backward(const Tensor& grad_out, const char* source_name, const Tensor& source,
                    at::ScalarType input_dtype, at::IntArrayRef normalized_shape,
                    const Tensor* mean, const Tensor& rstd, const Optional& weight,
                    const Optional& bias) {
  check_backward_arguments(grad_out, source_name, source, input_dtype, normalized_shape, mean, rstd,
                           weight, bias);
}

void check_backward(const Tensor& grad_out, const char* source_name, const Tensor& source,
                    at::ScalarType input_dtype, Shape normalized_shape, const Tensor* mean,
                    const Tensor& rstd, const Optional& weight, const Optional& bias) {
  check_backward_arguments(grad_out, source_name, source, input_dtype, normalized_shape, mean, rstd,
                           weight, bias);
}

// Tensors of these layouts get here by dispatch, from any argument; find the one that is at fault.
namespace refuse {
namespace {

void refuse(std::initializer_list<std::pair<const char*, const Tensor*>> arguments) {
  for (const auto& [name, tensor] : arguments) {
    if (tensor != nullptr && tensor->defined()) {
      TORCH_CHECK_NOT_IMPLEMENTED(!tensor->is_nested(), "layer_norm: ", name,
                                  " must be a dense (strided) tensor, but got a nested tensor");
      check_dense(name, *tensor);
    }
  }
  TORCH_CHECK_NOT_IMPLEMENTED(false, "layer_norm: every tensor must be dense (strided)");
}

const Tensor* address(const Optional& tensor) {
  return tensor.has_value() ? &*tensor : nullptr;
}

}  // namespace

Tensor layer_norm(const Tensor& input, Shape, const Optional& weight, const Optional& bias,
                  double) {
  refuse({{"input", &input}, {"weight", address(weight)}, {"bias", address(bias)}});
  return {};
}

Three forward(const Tensor& input, Shape, const Optional& weight, const Optional& bias, double,
              Dtype) {
  refuse({{"input", &input}, {"weight", address(weight)}, {"bias", address(bias)}});
  return {};
}

Two efficient_forward(const Tensor& input, Shape, const Optional& weight, const Optional& bias,
                      double, Dtype) {
  refuse({{"input", &input}, {"weight", address(weight)}, {"bias", address(bias)}});
  return {};
}

Three backward(const Tensor& grad_out, const Tensor& input, Shape, const Tensor& mean,
               const Tensor& rstd, const Optional& weight, const Optional& bias, Mask) {
  refuse({{"grad_out", &grad_out},
          {"input", &input},
          {"mean", &mean},
          {"rstd", &rstd},
          {"weight", address(weight)},
          {"bias", address(bias)}});
  return {};
}

Three efficient_backward(const Tensor& grad_out, const Tensor& output, Shape, const Tensor& rstd,
                         const Optional& weight, const Optional& bias, Mask, Dtype) {
  refuse({{"grad_out", &grad_out},
          {"output", &output},
          {"rstd", &rstd},
          {"weight", address(weight)},
          {"bias", address(bias)}});
  return {};
}

}  // namespace refuse
}  // namespace fusednorm::operators
