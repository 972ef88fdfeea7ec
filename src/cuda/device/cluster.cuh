// SPDX-License-Identifier: Apache-2.0
// What kernels ask of a thread-block cluster, in PTX: cooperative_groups.h would double the time it
// takes to compile a kernel file. Before sm_90 there are no clusters; a plan never launches these
// kernels there.
#pragma once

#include <cstdint>
#include <cstring>

namespace fusednorm::cuda {

/// Kernels with clusters do nothing but stop where there are none: a fifth of the code.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
inline constexpr bool clusters_exist = false;
#else
inline constexpr bool clusters_exist = true;
#endif

/// A plan never launches a cluster where the code has none; if it did, outputs must not stay as
/// they are and look like results.
__device__ __forceinline__ void no_clusters_here() {
  __trap();
}

/// Writes `value` to the same place in the shared memory of block `rank`, at most 8 bytes at a
/// time.
template <typename T>
__device__ __forceinline__ void cluster_write(std::uint32_t place, int rank, const T& value) {
#if __CUDA_ARCH__ >= 900
  std::uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(place), "r"(rank));
  if constexpr (sizeof(T) == 4) {
    std::uint32_t word;
    memcpy(&word, &value, sizeof word);
    asm volatile("st.shared::cluster.b32 [%0], %1;" ::"r"(there), "r"(word) : "memory");
  } else {
    static_assert(sizeof(T) % 8 == 0);
    std::uint64_t words[sizeof(T) / 8];
    memcpy(words, &value, sizeof(T));
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(T) / 8); ++i) {
      asm volatile("st.shared::cluster.b64 [%0], %1;" ::"r"(there + 8 * i), "l"(words[i])
                   : "memory");
    }
  }
#endif
}
template <typename T>
__device__ __forceinline__ void cluster_write(T* place, int rank, const T& value) {
  cluster_write(static_cast<std::uint32_t>(__cvta_generic_to_shared(place)), rank, value);
}

/// A block's shared memory may be written from others once it has started. Every thread arrives on
/// entry, and waits before the first such write: by then the others have mostly come, too. Orders
/// no memory.
__device__ __forceinline__ void cluster_arrive_started() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void cluster_wait_started() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/// Every thread of the cluster arrives; what was written before is seen by all after.
__device__ __forceinline__ void cluster_barrier() {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
#endif
}

}  // namespace fusednorm::cuda
