// The backward kernels for x and y in f16.
#include "backward_tables.cuh"

namespace fusednorm::cuda {

BackwardFinder backward_mixed_finder_f16(bool from_y);  // backward_f16_mixed.cu

BackwardFinder backward_finder_f16(bool mixed, bool from_y) {
  if (mixed) return backward_mixed_finder_f16(from_y);
  return from_y ? backward_kernels<__half, __half, true>()
                : backward_kernels<__half, __half, false>();
}

}  // namespace fusednorm::cuda
