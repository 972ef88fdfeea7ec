// The forward kernels for x in f32.
#include "forward_tables.cuh"

namespace fusednorm::cuda {

ForwardFinder forward_finder_f32(bool) {
  return forward_kernels<float, float>();
}

}  // namespace fusednorm::cuda
