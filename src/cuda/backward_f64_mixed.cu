// The backward kernels for x in f64 and y in f32. A file of its own, so that two cores can share
// the build.
#include "backward_tables.cuh"

namespace fusednorm::cuda {

BackwardFinder backward_mixed_finder_f64(bool from_y) {
  return from_y ? backward_kernels<double, float, true>()
                : backward_kernels<double, float, false>();
}

}  // namespace fusednorm::cuda
