// SPDX-License-Identifier: Apache-2.0
// The column sums of every dtype.
#include "kernels/columns.cuh"
#include "kernels/kernels.h"

namespace fusednorm::cuda {

KernelAddress columns_kernel(DType compute) {
  return compute == DType::f64 ? reinterpret_cast<KernelAddress>(&backward_columns<double>)
                               : reinterpret_cast<KernelAddress>(&backward_columns<float>);
}

}  // namespace fusednorm::cuda
