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

/// Every thread of the cluster arrives; what was written before is seen by all after.
__device__ __forceinline__ void cluster_barrier() {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
#endif
}

/// Tells block `rank` that this warp has nothing to send for a row, and has read the row before.
__device__ __forceinline__ void cluster_pass(std::uint32_t barrier, int rank) {
#if __CUDA_ARCH__ >= 900
  std::uint32_t signal;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(signal) : "r"(barrier), "r"(rank));
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(signal) : "memory");
#endif
}

/// Sends `value` to the same place in the shared memory of block `rank`: arrives at the mbarrier
/// there, which then waits for the value's bytes. A releasing cluster barrier would flush instead.
/// The arrival tells that this warp has read what was sent before, the bytes that the value is
/// there.
template <typename T>
__device__ __forceinline__ void cluster_send(std::uint32_t place, std::uint32_t barrier, int rank,
                                             const T& value) {
#if __CUDA_ARCH__ >= 900
  std::uint32_t there, signal;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(place), "r"(rank));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(signal) : "r"(barrier), "r"(rank));
  asm volatile("mbarrier.arrive.expect_tx.shared::cluster.b64 _, [%0], %1;" ::"r"(signal),
               "n"(sizeof(T))
               : "memory");
  if constexpr (sizeof(T) == 4) {
    std::uint32_t word;
    memcpy(&word, &value, sizeof word);
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(there),
        "r"(word), "r"(signal)
        : "memory");
  } else if constexpr (sizeof(T) == 8) {
    std::uint64_t word;
    memcpy(&word, &value, sizeof word);
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(there),
        "l"(word), "r"(signal)
        : "memory");
  } else {
    static_assert(sizeof(T) % 16 == 0);
    std::uint64_t words[sizeof(T) / 8];
    memcpy(words, &value, sizeof(T));
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(T) / 16); ++i) {
      asm volatile(
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b64 [%0], {%1, %2}, [%3];" ::
              "r"(there + 16 * i),
          "l"(words[2 * i]), "l"(words[2 * i + 1]), "r"(signal)
          : "memory");
    }
  }
#endif
}

/// When every warp of the cluster has sent its part of a row to this block, or passed: two
/// mbarriers take turns, as the slots do. A warp sends a row's part after it has read the row
/// before, and sends the next only after all have sent this one: the slots of the row before the
/// last have been read when they are written.
/// Arrivals and waits have the scope of a block, as CUTLASS has it for the same purpose: at that of
/// the cluster ptxas adds MEMBAR.ALL.GPU and CCTL.IVALL to each row.
struct ClusterRounds {
  std::uint32_t barriers;  ///< two mbarriers, 8 bytes each
  int round = 0;

  __device__ __forceinline__ explicit ClusterRounds(std::uint64_t* two)
      : barriers(static_cast<std::uint32_t>(__cvta_generic_to_shared(two))) {}

  __device__ __forceinline__ std::uint32_t barrier() const { return barriers + round % 2 * 8; }

  /// Every thread of the cluster calls it, once; other blocks may send after it. `senders`: sends
  /// to this block for one row, also of warps that pass.
  __device__ __forceinline__ void start(int senders) const {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x == 0) {
      for (int i = 0; i < 2; ++i) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barriers + i * 8), "r"(senders)
                     : "memory");
      }
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
#endif
    cluster_barrier();
  }

  /// Until the row's parts are here.
  __device__ __forceinline__ void wait() {
#if __CUDA_ARCH__ >= 900
    const std::uint32_t here = barrier(), parity = round / 2 % 2;
    std::uint32_t done = 0;
    while (done == 0) {
      asm volatile(
          "{\n"
          ".reg .pred p;\n"
          "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
          "selp.u32 %0, 1, 0, p;\n"
          "}"
          : "=r"(done)
          : "r"(here), "r"(parity)
          : "memory");
    }
#endif
    ++round;
  }
};

}  // namespace fusednorm::cuda
