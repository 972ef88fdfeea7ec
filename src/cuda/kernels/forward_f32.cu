// SPDX-License-Identifier: Apache-2.0
// The forward kernels for rows in f32.
#include "kernels/forward_tables.cuh"

namespace fusednorm::cuda {

ForwardFinder forward_kernels_f32() {
  return forward_kernels<float>();
}

}  // namespace fusednorm::cuda
