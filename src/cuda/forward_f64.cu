// The forward kernels for x in f64.
#include "forward_tables.cuh"

namespace fusednorm::cuda {

ForwardFinder forward_finder_f64(bool mixed) {
  return mixed ? forward_kernels<double, float>() : forward_kernels<double, double>();
}

}  // namespace fusednorm::cuda
