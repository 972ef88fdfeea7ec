// SPDX-License-Identifier: Apache-2.0
// The backward kernels for rows in f16 or bf16, from y.
#include "kernels/backward_tables.cuh"

namespace fusednorm::cuda {

BackwardFinder backward_from_y_kernels_16bit() {
  return backward_kernels<Half16, true>();
}

}  // namespace fusednorm::cuda
