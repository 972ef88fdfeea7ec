// SPDX-License-Identifier: Apache-2.0
// The CUDA kernels of the operators, where the library is built with CUDA.
#include "operators.h"

namespace fusednorm::operators {
namespace {

FUSEDNORM_KERNEL(CUDA, template device<cuda::run>)

}  // namespace
}  // namespace fusednorm::operators
