// SPDX-License-Identifier: Apache-2.0
// The forward kernels for rows in f64.
#include "kernels/forward_tables.cuh"

namespace fusednorm::cuda {

ForwardFinder forward_kernels_f64() {
  return forward_kernels<double>();
}

}  // namespace fusednorm::cuda
