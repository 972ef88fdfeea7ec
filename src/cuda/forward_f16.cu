// The forward kernels for x in f16.
#include "forward_tables.cuh"

namespace fusednorm::cuda {

ForwardFinder forward_finder_f16(bool mixed) {
  return mixed ? forward_kernels<__half, float>() : forward_kernels<__half, __half>();
}

}  // namespace fusednorm::cuda
