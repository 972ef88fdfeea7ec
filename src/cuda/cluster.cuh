// What kernels ask of a thread-block cluster. Before sm_90 there are none; a plan never launches
// these kernels there.
#pragma once

#include <cooperative_groups.h>

namespace fusednorm::cuda {

/// Writes `value` to the same place in the shared memory of block `rank` of the cluster.
template <typename T>
__device__ __forceinline__ void cluster_write(T* place, int rank, const T& value) {
#if __CUDA_ARCH__ >= 900
  *cooperative_groups::this_cluster().map_shared_rank(place, rank) = value;
#endif
}

__device__ __forceinline__ void cluster_barrier() {
#if __CUDA_ARCH__ >= 900
  cooperative_groups::this_cluster().sync();
#endif
}

}  // namespace fusednorm::cuda
