// The backward kernels for x in f32, and the column sums of every dtype.
#include "backward_tables.cuh"

namespace fusednorm::cuda {

BackwardFinder backward_finder_f32(bool, bool from_y) {
  return from_y ? backward_kernels<float, float, true>() : backward_kernels<float, float, false>();
}

KernelAddress columns_kernel(DType param, DType compute) {
  if (compute == DType::f64) {
    return param == DType::f64 ? reinterpret_cast<KernelAddress>(&backward_columns<double, double>)
                               : reinterpret_cast<KernelAddress>(&backward_columns<float, double>);
  }
  switch (param) {
    case DType::f16:
      return reinterpret_cast<KernelAddress>(&backward_columns<__half, float>);
    case DType::bf16:
      return reinterpret_cast<KernelAddress>(&backward_columns<__nv_bfloat16, float>);
    default:
      return reinterpret_cast<KernelAddress>(&backward_columns<float, float>);
  }
}

}  // namespace fusednorm::cuda
