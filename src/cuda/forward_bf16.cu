// The forward kernels for x in bf16.
#include "forward_tables.cuh"

namespace fusednorm::cuda {

ForwardFinder forward_finder_bf16(bool mixed) {
  return mixed ? forward_kernels<__nv_bfloat16, float>()
               : forward_kernels<__nv_bfloat16, __nv_bfloat16>();
}

}  // namespace fusednorm::cuda
