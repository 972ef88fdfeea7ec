// The backward kernels for x and y in bf16.
#include "backward_tables.cuh"

namespace fusednorm::cuda {

BackwardFinder backward_mixed_finder_bf16(bool from_y);  // backward_bf16_mixed.cu

BackwardFinder backward_finder_bf16(bool mixed, bool from_y) {
  if (mixed) return backward_mixed_finder_bf16(from_y);
  return from_y ? backward_kernels<__nv_bfloat16, __nv_bfloat16, true>()
                : backward_kernels<__nv_bfloat16, __nv_bfloat16, false>();
}

}  // namespace fusednorm::cuda
