// SPDX-License-Identifier: Apache-2.0
// The list of operators. A new one is added here, with its schema, fields and derivative in one of
// the operators_*.h; register.cc and cuda.cc then register it for every dispatch key. The
// rules for vmap are python/fusednorm/_vmap.py, by the names of arguments.
#pragma once

#include "keys.h"
#include "operators_add_norm.h"
#include "operators_layer_norm.h"
#include "operators_rms_norm.h"

namespace fusednorm::operators {

using Operators =
    List<LayerNorm, LayerNormForward, LayerNormBackward, LayerNormMemoryEfficientForward,
         LayerNormMemoryEfficientBackward, RoundedLayerNorm, RoundedLayerNormForward,
         RoundedLayerNormBackward, RmsNorm, RmsNormForward, RmsNormBackward,
         RmsNormMemoryEfficientForward, RmsNormMemoryEfficientBackward, AddRmsNorm,
         AddRmsNormForward, AddRmsNormBackward, AddRmsNormInPlace, AddLayerNorm,
         AddLayerNormForward, AddLayerNormBackward, AddLayerNormInPlace>;

}  // namespace fusednorm::operators

/// Registers one kernel of Kernels<Operator> (keys.h) for a dispatch key, for every operator. By
/// address: PyTorch's wrapper is then compiled once a signature, not once a kernel (TORCH_FN).
#define FUSEDNORM_KERNEL(key, kernel)                                                            \
  TORCH_LIBRARY_IMPL(fusednorm, key, library) {                                                  \
    Operators::for_each(                                                                         \
        [&]<typename Operator>() { library.impl(Operator::name, &Kernels<Operator>::kernel); }); \
  }
