// SPDX-License-Identifier: Apache-2.0
// The backward kernels for rows in f64, from x.
#include "kernels/backward_tables.cuh"

namespace fusednorm::cuda {

BackwardFinder backward_kernels_f64() {
  return backward_kernels<double, false>();
}

}  // namespace fusednorm::cuda
