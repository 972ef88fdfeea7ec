// SPDX-License-Identifier: Apache-2.0
// The backward kernels for rows in f64, from y.
#include "kernels/backward_tables.cuh"

namespace fusednorm::cuda {

BackwardFinder backward_from_y_kernels_f64() {
  return backward_kernels<double, true>();
}

}  // namespace fusednorm::cuda
