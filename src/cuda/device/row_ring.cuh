// SPDX-License-Identifier: Apache-2.0
// The rows that come next, on their way to shared memory while this one is worked on: a ring of
// slots, filled by cp.async. A lane copies and reads only its own part of a row, so that waiting
// takes no barrier, and what is copied needs no registers. Before sm_80 there is no cp.async, and
// rows are loaded when their turn comes.
#pragma once

#include "device/access.cuh"
#include "device/arguments.h"
#include "plan/sizes.h"

namespace fusednorm::cuda {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
inline constexpr bool copies_exist = false;
#else
inline constexpr bool copies_exist = true;
#endif
template <typename Tile, bool from_y = false>
inline constexpr bool rings_exist = copies_exist&& has_ring(sizeof(typename Tile::Storage), from_y);

/// Bytes from one 16-byte piece of a lane's part of a row to its next: a warp's lanes lie side by
/// side, so that no two meet in a bank.
inline constexpr int plane_bytes = warp_lanes * vector_bytes;

/// Pieces of at most 16 bytes that one vector of a tile takes at `size` bytes an element.
template <typename Tile, int size>
inline constexpr int vector_planes = (Tile::vector * size + vector_bytes - 1) / vector_bytes;
template <typename Tile>
__device__ __forceinline__ int planes_of(int element_bytes) {
  return Tile::vectors * (element_bytes * Tile::vector > vector_bytes
                              ? element_bytes * Tile::vector / vector_bytes
                              : 1);
}

/// Starts a copy of 4, 8 or 16 bytes, of which `there` exist: the rest becomes zero. 16 bytes pass
/// the L1 by.
template <int bytes, int to_offset, int from_offset>
__device__ __forceinline__ void copy_async(unsigned to, const void* from, int there) {
#if __CUDA_ARCH__ >= 800
  const std::size_t place = __cvta_generic_to_global(from);
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0 + %1], [%2 + %3], 16, %4;" ::"r"(to),
                 "n"(to_offset), "l"(place), "n"(from_offset), "r"(there)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0 + %1], [%2 + %3], %4, %5;" ::"r"(to),
                 "n"(to_offset), "l"(place), "n"(from_offset), "n"(bytes), "r"(there)
                 : "memory");
#endif
}
/// All of them exist.
template <int bytes, int to_offset, int from_offset>
__device__ __forceinline__ void copy_async(unsigned to, const void* from) {
#if __CUDA_ARCH__ >= 800
  const std::size_t place = __cvta_generic_to_global(from);
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0 + %1], [%2 + %3], 16;" ::"r"(to), "n"(to_offset),
                 "l"(place), "n"(from_offset)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0 + %1], [%2 + %3], %4;" ::"r"(to), "n"(to_offset),
                 "l"(place), "n"(from_offset), "n"(bytes)
                 : "memory");
#endif
}

/// Starts copying a lane's part of a row of whole vectors to `slot`. `full`: all of it exists.
template <typename Tile, int size, bool full>
__device__ __forceinline__ void copy_tile(unsigned slot, const std::byte* from, Extent extent) {
  constexpr int planes = vector_planes<Tile, size>, bytes = Tile::vector * size / planes;
  each_vector<Tile, size>(from, extent, [&](auto k, const std::byte* at, auto offset) {
    const auto pieces = [&](const auto& piece) { each<planes>(piece); };
    if constexpr (full || k.value < Tile::always) {
      pieces([&](auto p) {
        copy_async<bytes, (k.value * planes + p.value) * plane_bytes,
                   offset.value + p.value * bytes>(slot, at);
      });
    } else {
      const int there = extent.left<Tile>(k.value) > 0 ? bytes : 0;
      pieces([&](auto p) {
        copy_async<bytes, (k.value * planes + p.value) * plane_bytes,
                   offset.value + p.value * bytes>(slot, at, there);
      });
    }
  });
}

/// A piece of a slot in registers: two or four words.
using Two = std::integral_constant<int, 2>;
using Four = std::integral_constant<int, 4>;
template <int offset>
__device__ __forceinline__ void load_piece(std::uint32_t* to, unsigned slot, Four) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4 + %5];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(slot), "n"(offset)
               : "memory");
}
template <int offset>
__device__ __forceinline__ void load_piece(std::uint32_t* to, unsigned slot, Two) {
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2 + %3];"
               : "=r"(to[0]), "=r"(to[1])
               : "r"(slot), "n"(offset)
               : "memory");
}
template <int offset>
__device__ __forceinline__ void load_piece(float* to, unsigned slot, Four) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4 + %5];"
               : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
               : "r"(slot), "n"(offset)
               : "memory");
}
template <int offset>
__device__ __forceinline__ void load_piece(float* to, unsigned slot, Two) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2 + %3];"
               : "=f"(to[0]), "=f"(to[1])
               : "r"(slot), "n"(offset)
               : "memory");
}
template <int offset>
__device__ __forceinline__ void load_piece(double* to, unsigned slot, Two) {
  asm volatile("ld.shared.v2.f64 {%0, %1}, [%2 + %3];"
               : "=d"(to[0]), "=d"(to[1])
               : "r"(slot), "n"(offset)
               : "memory");
}

/// Where a kernel's row comes from: memory, when it is wanted, or a slot that was filled before.
template <typename Tile, bool full>
struct FromMemory {
  Extent extent;

  /// Of two arrays, all loads before the first is used.
  template <int size, int other_size>
  __device__ __forceinline__ void load_two(Words<Tile, size>& words, const std::byte* at, int,
                                           Words<Tile, other_size>& other,
                                           const std::byte* other_at, int) const {
    with_access<Tile, full>(extent, [&](auto access) {
      load_tile_words<Tile, size, access.value>(words, at, extent);
      load_tile_words<Tile, other_size, access.value>(other, other_at, extent);
    });
  }

  template <int size>
  __device__ __forceinline__ void load(Words<Tile, size>& words, const std::byte* at, int) const {
    with_access<Tile, full>(
        extent, [&](auto access) { load_tile_words<Tile, size, access.value>(words, at, extent); });
  }
};
template <typename Tile>
struct FromSlot {
  unsigned slot;

  template <int size, int other_size>
  __device__ __forceinline__ void load_two(Words<Tile, size>& words, const std::byte* at, int plane,
                                           Words<Tile, other_size>& other,
                                           const std::byte* other_at, int other_plane) const {
    load<size>(words, at, plane);
    load<other_size>(other, other_at, other_plane);
  }

  /// `plane`: how many pieces of other arrays lie before this one's.
  template <int size>
  __device__ __forceinline__ void load(Words<Tile, size>& words, const std::byte*,
                                       int plane) const {
    constexpr int planes = Tile::vectors * vector_planes<Tile, size>;
    constexpr int piece_words = Tile::pairs * pair_words<size> / planes;
    const unsigned at = slot + plane * plane_bytes;
    each<planes>([&](auto p) {
      load_piece<p.value * plane_bytes>(words + p.value * piece_words, at,
                                        std::integral_constant<int, piece_words>());
    });
  }
};

/// One or the other, which is known at run time: memory where `slot` is 0.
template <typename Tile, bool full>
struct FromEither {
  Extent extent;
  unsigned slot;

  template <int size>
  __device__ __forceinline__ void load(Words<Tile, size>& words, const std::byte* at,
                                       int plane) const {
    if (rings_exist<Tile> && slot != 0)
      FromSlot<Tile>{slot}.template load<size>(words, at, plane);
    else
      FromMemory<Tile, full>{extent}.template load<size>(words, at, plane);
  }
};

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
