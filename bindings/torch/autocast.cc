// Autocast on CUDA: layer_norm computes in f32, as PyTorch's own does.
#include <ATen/autocast_mode.h>

#include "operators.h"

namespace fusednorm::operators::autocast {
namespace {

class Float {
 public:
  Tensor operator()(const Tensor& tensor) const {
    return at::autocast::cached_cast(at::kFloat, tensor, c10::DeviceType::CUDA);
  }
  Optional operator()(const Optional& tensor) const {
    return at::autocast::cached_cast(at::kFloat, tensor, c10::DeviceType::CUDA);
  }

 private:
  c10::impl::ExcludeDispatchKeyGuard no_autocast_{
      c10::DispatchKeySet(c10::DispatchKey::AutocastCUDA)};
};

// y follows the inputs to f32; f64 is left alone, as autocast leaves f64 tensors alone.
Dtype output_type(Dtype dtype, const Tensor& input) {
  return dtype.has_value() && input.scalar_type() != at::kDouble ? Dtype(at::kFloat) : dtype;
}

}  // namespace

Tensor layer_norm(const Tensor& input, Shape normalized_shape, const Optional& weight,
                  const Optional& bias, double eps) {
  const Float cast;
  return layer_norm_handle().call(cast(input), normalized_shape, cast(weight), cast(bias), eps);
}

Three forward(const Tensor& input, Shape normalized_shape, const Optional& weight,
              const Optional& bias, double eps, Dtype dtype) {
  const Float cast;
  return forward_handle().call(cast(input), normalized_shape, cast(weight), cast(bias), eps,
                               output_type(dtype, input));
}

Two efficient_forward(const Tensor& input, Shape normalized_shape, const Optional& weight,
                      const Optional& bias, double eps, Dtype dtype) {
  const Float cast;
  return efficient_forward_handle().call(cast(input), normalized_shape, cast(weight), cast(bias),
                                         eps, output_type(dtype, input));
}

}  // namespace fusednorm::operators::autocast
