// SPDX-License-Identifier: Apache-2.0
// The list of operators: schema, fields in the schema's order and derivative of each, and which
// dispatch keys they are registered for. dispatch.h explains the structs.
#include "keys.h"

namespace fusednorm::operators {
namespace {

// Short names: these stand once for every argument of every operator.
using F = ForwardArguments;
using B = BackwardArguments;

constexpr std::tuple gradients{&BackwardResults::input, &BackwardResults::weight,
                               &BackwardResults::bias};

struct LayerNormBackward {
  static constexpr auto name = "layer_norm_backward";
  static constexpr auto schema =
      "(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, Tensor rstd, "
      "Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)";
  static constexpr std::tuple arguments{&B::grad_out,       &B::saved, &B::normalized_shape,
                                        &B::mean,           &B::rstd,  optional(&B::weight),
                                        optional(&B::bias), &B::mask};
  static constexpr auto results = gradients;
  static B constants() { return {.source = Source::x}; }
};

struct LayerNormForward {
  static constexpr auto name = "layer_norm_forward";
  static constexpr auto schema =
      "(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
      "float eps=1e-05, ScalarType? dtype=None) -> (Tensor, Tensor, Tensor)";
  static constexpr std::tuple arguments{
      &F::input, &F::normalized_shape, optional(&F::weight), optional(&F::bias), &F::eps,
      &F::dtype};
  static constexpr std::tuple results{&ForwardResults::output, &ForwardResults::mean,
                                      &ForwardResults::rstd};
  static F constants() { return {.source = Source::x, .save_mean = true, .save_rstd = true}; }
  using Recorded = LayerNormForward;
  using Derivative = LayerNormBackward;
};

/// Computes statistics only where a derivative needs them.
struct LayerNorm {
  static constexpr auto name = "layer_norm";
  static constexpr auto schema =
      "(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
      "float eps=1e-05) -> Tensor";
  static constexpr std::tuple arguments{&F::input, &F::normalized_shape, optional(&F::weight),
                                        optional(&F::bias), &F::eps};
  static constexpr std::tuple results{&ForwardResults::output};
  static F constants() { return {.source = Source::x}; }
  using Recorded = LayerNormForward;
  using Derivative = LayerNormBackward;
};

struct MemoryEfficientBackward {
  static constexpr auto name = "layer_norm_memory_efficient_backward";
  static constexpr auto schema =
      "(Tensor grad_out, Tensor output, SymInt[] normalized_shape, Tensor rstd, Tensor? weight, "
      "Tensor? bias, bool[3] output_mask, ScalarType? dtype=None) -> (Tensor, Tensor, Tensor)";
  static constexpr std::tuple arguments{&B::grad_out,
                                        &B::saved,
                                        &B::normalized_shape,
                                        &B::rstd,
                                        optional(&B::weight),
                                        optional(&B::bias),
                                        &B::mask,
                                        &B::dtype};
  static constexpr auto results = gradients;
  static B constants() { return {.source = Source::y}; }
};

/// Saves the output instead of the input for the backward pass.
struct MemoryEfficientForward {
  static constexpr auto name = "layer_norm_memory_efficient_forward";
  static constexpr auto schema =
      "(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
      "float eps=1e-05, ScalarType? dtype=None) -> (Tensor, Tensor)";
  static constexpr auto arguments = LayerNormForward::arguments;
  static constexpr std::tuple results{&ForwardResults::output, &ForwardResults::rstd};
  static F constants() { return {.source = Source::y, .save_rstd = true}; }
  using Recorded = MemoryEfficientForward;
  using Derivative = MemoryEfficientBackward;
};

using Operators = List<LayerNorm, LayerNormForward, LayerNormBackward, MemoryEfficientForward,
                       MemoryEfficientBackward>;

TORCH_LIBRARY(fusednorm, library) {
  Operators::for_each([&]<typename Operator>() {
    library.def((std::string(Operator::name) + Operator::schema).c_str(),
                {at::Tag::pt2_compliant_tag});
  });
}

#define FUSEDNORM_KERNEL(key, kernel)                                    \
  TORCH_LIBRARY_IMPL(fusednorm, key, library) {                          \
    Operators::for_each([&]<typename Operator>() {                       \
      library.impl(Operator::name, TORCH_FN(Kernels<Operator>::kernel)); \
    });                                                                  \
  }
FUSEDNORM_KERNEL(CPU, template device<cpu::run>)
#if FUSEDNORM_WITH_CUDA
FUSEDNORM_KERNEL(CUDA, template device<cuda::run>)
#endif
FUSEDNORM_KERNEL(Meta, template device<meta::run>)
FUSEDNORM_KERNEL(Autograd, autograd)

// As PyTorch's own rule: CUDA computes in f32, the CPU in the dtype of the input.
TORCH_LIBRARY_IMPL(fusednorm, AutocastCUDA, library) {
  Operators::for_each([&]<typename Operator>() {
    if constexpr (is_forward<Operator>) {
      library.impl(Operator::name, TORCH_FN(Kernels<Operator>::autocast));
    }
  });
}

// Layouts without rows in memory: refused with the argument's name rather than by the dispatcher.
void refuse(torch::Library& library) {
  Operators::for_each([&]<typename Operator>() {
    library.impl(Operator::name,
                 torch::CppFunction::makeFromBoxedFunction<Kernels<Operator>::refuse>());
  });
}
#define FUSEDNORM_REFUSE(key)                   \
  TORCH_LIBRARY_IMPL(fusednorm, key, library) { \
    refuse(library);                            \
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
}  // namespace fusednorm::operators
