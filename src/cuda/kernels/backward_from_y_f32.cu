// SPDX-License-Identifier: Apache-2.0
// The backward kernels for rows in f32, from y.
#include "kernels/backward_tables.cuh"

namespace fusednorm::cuda {

BackwardFinder backward_from_y_kernels_f32() {
  return backward_kernels<float, true>();
}

}  // namespace fusednorm::cuda
