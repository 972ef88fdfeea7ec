// The list of operators: their schemas, and which kernel serves each dispatch key.
#include <torch/library.h>

#include "operators.h"

namespace fusednorm::operators {
namespace {

template <typename Signature>
c10::TypedOperatorHandle<Signature> find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

#define FUSEDNORM_KERNELS(library, place)                                                  \
  library.impl("layer_norm", TORCH_FN(place::layer_norm));                                 \
  library.impl("layer_norm_forward", TORCH_FN(place::forward));                            \
  library.impl("layer_norm_backward", TORCH_FN(place::backward));                          \
  library.impl("layer_norm_memory_efficient_forward", TORCH_FN(place::efficient_forward)); \
  library.impl("layer_norm_memory_efficient_backward", TORCH_FN(place::efficient_backward));

TORCH_LIBRARY(fusednorm, library) {
  library.def(
      "layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, "
      "Tensor? bias=None, float eps=1e-05) -> Tensor",
      {at::Tag::pt2_compliant_tag});
  library.def(
      "layer_norm_forward(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, "
      "Tensor? bias=None, float eps=1e-05, ScalarType? dtype=None) -> (Tensor, Tensor, Tensor)",
      {at::Tag::pt2_compliant_tag});
  library.def(
      "layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, "
      "Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) "
      "-> (Tensor, Tensor, Tensor)",
      {at::Tag::pt2_compliant_tag});
  library.def(
      "layer_norm_memory_efficient_forward(Tensor input, SymInt[] normalized_shape, "
      "Tensor? weight=None, Tensor? bias=None, float eps=1e-05, ScalarType? dtype=None) "
      "-> (Tensor, Tensor)",
      {at::Tag::pt2_compliant_tag});
  library.def(
      "layer_norm_memory_efficient_backward(Tensor grad_out, Tensor output, "
      "SymInt[] normalized_shape, Tensor rstd, Tensor? weight, Tensor? bias, "
      "bool[3] output_mask, ScalarType? dtype=None) -> (Tensor, Tensor, Tensor)",
      {at::Tag::pt2_compliant_tag});
}

TORCH_LIBRARY_IMPL(fusednorm, CPU, library){FUSEDNORM_KERNELS(library, cpu)}
#if FUSEDNORM_WITH_CUDA
TORCH_LIBRARY_IMPL(fusednorm, CUDA, library){FUSEDNORM_KERNELS(library, cuda)}
#endif

TORCH_LIBRARY_IMPL(fusednorm, Meta, library){FUSEDNORM_KERNELS(library, meta)}

TORCH_LIBRARY_IMPL(fusednorm, Autograd, library){FUSEDNORM_KERNELS(library, autograd)}

// As PyTorch's own rule: CUDA computes in f32, the CPU in the dtype that it is given.
TORCH_LIBRARY_IMPL(fusednorm, AutocastCUDA, library) {
  library.impl("layer_norm", TORCH_FN(autocast::layer_norm));
  library.impl("layer_norm_forward", TORCH_FN(autocast::forward));
  library.impl("layer_norm_memory_efficient_forward", TORCH_FN(autocast::efficient_forward));
}

// Layouts without rows in memory: refused with the argument's name rather than by the dispatcher.
#define FUSEDNORM_REFUSE(key)                   \
  TORCH_LIBRARY_IMPL(fusednorm, key, library) { \
    FUSEDNORM_KERNELS(library, refuse)          \
  }
FUSEDNORM_REFUSE(SparseCPU)
FUSEDNORM_REFUSE(SparseCUDA)
FUSEDNORM_REFUSE(SparseMeta)
FUSEDNORM_REFUSE(SparseCsrCPU)
FUSEDNORM_REFUSE(SparseCsrCUDA)
FUSEDNORM_REFUSE(SparseCsrMeta)
FUSEDNORM_REFUSE(QuantizedCPU)
FUSEDNORM_REFUSE(QuantizedCUDA)
FUSEDNORM_REFUSE(MkldnnCPU)
FUSEDNORM_REFUSE(NestedTensorCPU)
FUSEDNORM_REFUSE(NestedTensorCUDA)

}  // namespace

// A handle never changes once it is found, so each is looked up at its first use and kept.
const c10::TypedOperatorHandle<LayerNorm>& layer_norm_handle() {
  static const auto handle = find<LayerNorm>("fusednorm::layer_norm");
  return handle;
}
const c10::TypedOperatorHandle<Forward>& forward_handle() {
  static const auto handle = find<Forward>("fusednorm::layer_norm_forward");
  return handle;
}
const c10::TypedOperatorHandle<Backward>& backward_handle() {
  static const auto handle = find<Backward>("fusednorm::layer_norm_backward");
  return handle;
}
const c10::TypedOperatorHandle<EfficientForward>& efficient_forward_handle() {
  static const auto handle =
      find<EfficientForward>("fusednorm::layer_norm_memory_efficient_forward");
  return handle;
}
const c10::TypedOperatorHandle<EfficientBackward>& efficient_backward_handle() {
  static const auto handle =
      find<EfficientBackward>("fusednorm::layer_norm_memory_efficient_backward");
  return handle;
}

}  // namespace fusednorm::operators
