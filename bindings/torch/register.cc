// SPDX-License-Identifier: Apache-2.0
// The dispatch keys that each operator of operators.h is registered for. Two are elsewhere: CUDA in
// cuda.cc, and the vmap rules (FuncTorchBatched) in python/fusednorm/_vmap.py.
#include "operators.h"

namespace fusednorm::operators {
namespace {

TORCH_LIBRARY(fusednorm, library) {
  Operators::for_each([&]<typename Operator>() {
    library.def((std::string(Operator::name) + Operator::schema).c_str(),
                {at::Tag::pt2_compliant_tag});
  });
}

FUSEDNORM_KERNEL(CPU, template device<cpu::run>)
FUSEDNORM_KERNEL(Meta, template device<meta::run>)
FUSEDNORM_KERNEL(Autograd, autograd)

// PyTorch counts the versions of a tensor that is written to.
TORCH_LIBRARY_IMPL(fusednorm, ADInplaceOrView, library) {
  Operators::for_each([&]<typename Operator>() {
    if constexpr (is_in_place<Operator>) {
      library.impl(Operator::name, &Kernels<Operator>::count_versions);
    }
  });
}

// As PyTorch's own rule: CUDA computes in f32, the CPU in the dtype of the input. An operator in
// place keeps the dtypes of what it writes to.
TORCH_LIBRARY_IMPL(fusednorm, AutocastCUDA, library) {
  Operators::for_each([&]<typename Operator>() {
    if constexpr (is_forward<Operator> && !is_in_place<Operator>) {
      library.impl(Operator::name, &Kernels<Operator>::autocast);
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
