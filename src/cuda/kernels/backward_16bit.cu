// SPDX-License-Identifier: Apache-2.0
// The backward kernels for rows in f16 or bf16, from x.
#include "kernels/backward_tables.cuh"

namespace fusednorm::cuda {

BackwardFinder backward_kernels_16bit() {
  return backward_kernels<Half16, false>();
}

}  // namespace fusednorm::cuda
