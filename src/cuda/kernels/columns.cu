// SPDX-License-Identifier: Apache-2.0
// The column sums and the copy of every dtype.
#include "kernels/backward_copy.cuh"
#include "kernels/columns.cuh"
#include "kernels/kernels.h"

namespace fusednorm::cuda {

KernelAddress columns_kernel(DType compute) {
  return compute == DType::f64 ? reinterpret_cast<KernelAddress>(&backward_columns<double>)
                               : reinterpret_cast<KernelAddress>(&backward_columns<float>);
}

KernelAddress copy_kernel(DType compute) {
  return compute == DType::f64 ? reinterpret_cast<KernelAddress>(&backward_copy<double>)
                               : reinterpret_cast<KernelAddress>(&backward_copy<float>);
}

}  // namespace fusednorm::cuda
