// SPDX-License-Identifier: Apache-2.0
// The rows that come next, on their way to shared memory while this one is worked on: a ring of
// slots. What is copied needs no registers, and waiting for it takes no barrier of the block.
#pragma once

#include "device/slots.cuh"

namespace fusednorm::cuda {

/// What lies behind the ring in a block's dynamic shared memory. Where code has no ring the address
/// is a constant, which saves registers: plans set nothing aside there.
template <typename Tile, bool from_y = false>
__device__ __forceinline__ uint4* behind_ring(uint4* shared, const Ring& ring) {
  return has_ring(sizeof(typename Tile::Storage), from_y) ? shared + ring.bytes / vector_bytes
                                                          : shared;
}

/// A lane's place in the ring.
struct RowRing {
  unsigned slot;  ///< its part of the row that comes next
  unsigned end;   ///< of the ring, where slots begin anew

  __device__ __forceinline__ RowRing(const Ring& ring, const void* shared)
      : slot(static_cast<unsigned>(__cvta_generic_to_shared(shared)) +
             threadIdx.x / warp_lanes * ring.warp_bytes + threadIdx.x % warp_lanes * vector_bytes),
        end(slot + ring.bytes) {}

  /// What was copied since the last call is a row, or nothing: every row counts, whether it exists
  /// or not.
  static __device__ __forceinline__ void requested() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
  }

  /// Until the row in `slot` is there. `requested` was called ring.stages times since it was for
  /// this row.
  static __device__ __forceinline__ void wait(const Ring& ring) {
#if __CUDA_ARCH__ >= 800
    static_assert(most_stages == 6);
    if (ring.stages == 2)
      asm volatile("cp.async.wait_group 1;" ::: "memory");
    else if (ring.stages == 3)
      asm volatile("cp.async.wait_group 2;" ::: "memory");
    else if (ring.stages == 4)
      asm volatile("cp.async.wait_group 3;" ::: "memory");
    else if (ring.stages == 5)
      asm volatile("cp.async.wait_group 4;" ::: "memory");
    else if (ring.stages == 6)
      asm volatile("cp.async.wait_group 5;" ::: "memory");
    else
      asm volatile("cp.async.wait_group 0;" ::: "memory");
#endif
  }

  /// Until nothing is under way. Lanes without a row have zeros copied that nobody waits for:
  /// before a slot gets other copies, and before the block leaves, they must have come.
  static __device__ __forceinline__ void drain(const Ring& ring) {
#if __CUDA_ARCH__ >= 800
    if (ring.stages != 0) asm volatile("cp.async.wait_all;" ::: "memory");
#endif
  }

  __device__ __forceinline__ void next(const Ring& ring) {
    slot += ring.stage_bytes;
    if (slot == end) slot -= ring.bytes;
  }
};

}  // namespace fusednorm::cuda
