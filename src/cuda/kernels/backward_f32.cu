// SPDX-License-Identifier: Apache-2.0
// The backward kernels for rows in f32, from x.
#include "kernels/backward_tables.cuh"

namespace fusednorm::cuda {

BackwardFinder backward_kernels_f32() {
  return backward_kernels<float, false>();
}

}  // namespace fusednorm::cuda
