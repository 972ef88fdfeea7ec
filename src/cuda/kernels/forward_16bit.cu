// SPDX-License-Identifier: Apache-2.0
// The forward kernels for rows in f16 or bf16.
#include "kernels/forward_tables.cuh"

namespace fusednorm::cuda {

ForwardFinder forward_kernels_16bit() {
  return forward_kernels<Half16>();
}

}  // namespace fusednorm::cuda
