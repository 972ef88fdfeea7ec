// The backward kernels for x and y in f64.
#include "backward_tables.cuh"

namespace fusednorm::cuda {

BackwardFinder backward_mixed_finder_f64(bool from_y);  // backward_f64_mixed.cu

BackwardFinder backward_finder_f64(bool mixed, bool from_y) {
  if (mixed) return backward_mixed_finder_f64(from_y);
  return from_y ? backward_kernels<double, double, true>()
                : backward_kernels<double, double, false>();
}

}  // namespace fusednorm::cuda
