// The operators as C++ functions: their types, and one kernel for each dispatch key that has one.
//
//   forward     (input, normalized_shape, weight, bias, eps)           -> y
//   + stats     the same and the dtype of y                            -> y, mean, rstd
//   backward    (grad_out, input, normalized_shape, mean, rstd, weight, bias, mask)
//                                                                      -> dx, dweight, dbias
//   memory-efficient: the pair that keeps y instead of input and needs no mean.
//
// An output that the mask leaves out is an undefined tensor (None in Python), as in PyTorch's own
// native_layer_norm_backward. Kernels that run on real memory take sizes as integers; those that a
// tracer sees take them as SymInt.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/ScalarType.h>
#include <c10/core/SymIntArrayRef.h>

#include <array>
#include <optional>
#include <tuple>

namespace fusednorm::operators {

using at::Tensor;
using Shape = c10::SymIntArrayRef;
using Optional = std::optional<Tensor>;
using Dtype = std::optional<at::ScalarType>;
using Mask = std::array<bool, 3>;
using One = Tensor;
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

// The dispatcher's entry of each operator; `call` dispatches, `redispatch` goes on below a key.
using LayerNorm = One(const Tensor& input, Shape, const Optional& weight, const Optional& bias,
                      double eps);
using Forward = Three(const Tensor& input, Shape, const Optional& weight, const Optional& bias,
                      double eps, Dtype);
using Backward = Three(const Tensor& grad_out, const Tensor& input, Shape, const Tensor& mean,
                       const Tensor& rstd, const Optional& weight, const Optional& bias, Mask);
using EfficientForward = Two(const Tensor& input, Shape, const Optional& weight,
                             const Optional& bias, double eps, Dtype);
using EfficientBackward = Three(const Tensor& grad_out, const Tensor& output, Shape,
                                const Tensor& rstd, const Optional& weight, const Optional& bias,
                                Mask, Dtype);

const c10::TypedOperatorHandle<LayerNorm>& layer_norm_handle();
const c10::TypedOperatorHandle<Forward>& forward_handle();
const c10::TypedOperatorHandle<Backward>& backward_handle();
const c10::TypedOperatorHandle<EfficientForward>& efficient_forward_handle();
const c10::TypedOperatorHandle<EfficientBackward>& efficient_backward_handle();

// Kernels that call the core. cuda:: exists in builds with CUDA only.
#define FUSEDNORM_DEVICE_KERNELS                                                                   \
  Tensor layer_norm(const Tensor& input, at::IntArrayRef normalized_shape, const Optional& weight, \
                    const Optional& bias, double eps);                                             \
  Three forward(const Tensor& input, at::IntArrayRef normalized_shape, const Optional& weight,     \
                const Optional& bias, double eps, Dtype dtype);                                    \
  Three backward(const Tensor& grad_out, const Tensor& input, at::IntArrayRef normalized_shape,    \
                 const Tensor& mean, const Tensor& rstd, const Optional& weight,                   \
                 const Optional& bias, Mask mask);                                                 \
  Two efficient_forward(const Tensor& input, at::IntArrayRef normalized_shape,                     \
                        const Optional& weight, const Optional& bias, double eps, Dtype dtype);    \
  Three efficient_backward(const Tensor& grad_out, const Tensor& output,                           \
                           at::IntArrayRef normalized_shape, const Tensor& rstd,                   \
                           const Optional& weight, const Optional& bias, Mask mask, Dtype dtype);

namespace cpu {
FUSEDNORM_DEVICE_KERNELS
}
namespace cuda {
FUSEDNORM_DEVICE_KERNELS
}
#undef FUSEDNORM_DEVICE_KERNELS

// Kernels that see shapes but no memory, or that turn one call into others.
#define FUSEDNORM_SYMBOLIC_KERNELS    \
  LayerNorm layer_norm;               \
  Forward forward;                    \
  Backward backward;                  \
  EfficientForward efficient_forward; \
  EfficientBackward efficient_backward;

namespace meta {
FUSEDNORM_SYMBOLIC_KERNELS
}
namespace autocast {
LayerNorm layer_norm;
Forward forward;
EfficientForward efficient_forward;
}  // namespace autocast
namespace refuse {
FUSEDNORM_SYMBOLIC_KERNELS
}
#undef FUSEDNORM_SYMBOLIC_KERNELS

namespace autograd {
Tensor layer_norm(c10::DispatchKeySet, const Tensor& input, Shape, const Optional& weight,
                  const Optional& bias, double eps);
Three forward(c10::DispatchKeySet, const Tensor& input, Shape, const Optional& weight,
              const Optional& bias, double eps, Dtype);
Three backward(c10::DispatchKeySet, const Tensor& grad_out, const Tensor& input, Shape,
               const Tensor& mean, const Tensor& rstd, const Optional& weight, const Optional& bias,
               Mask);
Two efficient_forward(c10::DispatchKeySet, const Tensor& input, Shape, const Optional& weight,
                      const Optional& bias, double eps, Dtype);
Three efficient_backward(c10::DispatchKeySet, const Tensor& grad_out, const Tensor& output, Shape,
                         const Tensor& rstd, const Optional& weight, const Optional& bias, Mask,
                         Dtype);
}  // namespace autograd

}  // namespace fusednorm::operators
