// SPDX-License-Identifier: Apache-2.0
// A slot of a ring in shared memory: a row on its way there by cp.async, and what lanes read of it.
// Of a row of whole vectors that start on their boundaries a lane copies and reads only its own
// part. Any other row is copied by its warp as it lies between boundaries of 16 bytes, and lanes
// read what others have copied. Before sm_80 there is no cp.async, and rows are loaded when their
// turn comes.
#pragma once

#include <algorithm>

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

/// Rows that are requested ahead may start anywhere: rows of a warp or more.
template <typename Tile, bool backward>
inline constexpr bool skewed_rows = Tile::lanes ==
                                    warp_lanes&& has_skewed_ring(sizeof(typename Tile::Storage),
                                                                 backward);

// A slot holds a lane's part of a row in pieces of 16 bytes. The pieces of a warp's lanes lie side
// by side, a plane, so that no two meet in a bank.
static_assert(plane_bytes == warp_lanes * vector_bytes);

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

/// Bytes that a lane copies of a row that starts anywhere, in pieces of at most 16: those of one
/// vector, whichever columns it will read.
template <typename Tile, int size>
inline constexpr int lane_bytes = Tile::vector* size;
template <typename Tile, int size>
inline constexpr int piece_bytes = std::min(lane_bytes<Tile, size>, vector_bytes);

/// The first column that a lane copies, where its own first is `first`.
template <typename Tile, typename Index>
__device__ __forceinline__ Index copied_column(Index first, Access access) {
  return access == Access::interleaved ? first + own_lane() * (Tile::vector - 1) : first;
}

/// Bytes from the boundary before an address of a piece to it: the same in all lanes.
template <typename Tile, int size>
__device__ __forceinline__ int skew_of(const std::byte* at) {
  return static_cast<int>(static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(at)) %
                          piece_bytes<Tile, size>);
}

/// Starts copying a warp's part of a row that starts anywhere: each of its vectors, which lie side
/// by side over the lanes, from the boundary before them to the one behind. `from` is the first
/// column that the lane copies, `left` bytes before the row's end. What is read before the row lies
/// in the same 16 bytes, so in memory that exists.
template <typename Tile, int size>
__device__ __forceinline__ void copy_skewed(unsigned slot, const std::byte* from, int left,
                                            Extent extent) {
  constexpr int own = lane_bytes<Tile, size>, piece = piece_bytes<Tile, size>;
  constexpr int planes = vector_planes<Tile, size>, vector_image = planes * skewed_plane_bytes;
  const int skew = skew_of<Tile, size>(from);
  from -= skew;
  left += skew;
  if constexpr (own != vector_bytes) slot += own_lane() * (own - vector_bytes);
  const auto pitch = [&](int k) { return k * (Tile::spread ? extent.pitch : Tile::pitch) * size; };
  each_vector<Tile, size>(from, extent, [&](auto k, const std::byte* at, auto offset) {
    each<planes>([&](auto p) {
      constexpr int along = p.value * piece, to = k.value * vector_image + along;
      if constexpr (k.value < Tile::always) {
        copy_async<piece, to, offset.value + along>(slot, at);
      } else {
        copy_async<piece, to, offset.value + along>(
            slot, at, max(0, min(left - pitch(k.value) - along, piece)));
      }
    });
  });
  // The piece behind each vector, a lane each.
  const int lane = own_lane();
  if (skew != 0 && lane < Tile::vectors) {
    const int behind = pitch(lane) - lane * own + warp_lanes * own;
    copy_async<piece, warp_lanes * own, 0>(slot + lane * (vector_image - own), from + behind,
                                           max(0, min(left - behind, piece)));
  }
}

/// Starts copying an array's part of a row to the `plane`-th plane of a slot. `skewed`: of a row
/// that starts anywhere, from the first column that the lane copies, `left` columns before the end
/// of what the warp has.
template <typename Tile, int size, bool full, bool skewed>
__device__ __forceinline__ void copy_part(unsigned slot, int plane, const std::byte* from, int left,
                                          Extent extent) {
  if constexpr (skewed)
    copy_skewed<Tile, size>(slot + plane * skewed_plane_bytes, from, left * size, extent);
  else
    copy_tile<Tile, size, full>(slot + plane * plane_bytes, from, extent);
}

/// Columns from the first that a lane copies to the end of what its warp has of a row, if anything.
template <typename Tile, typename Index>
__device__ __forceinline__ int columns_left(std::int64_t cols, Index copied, Extent extent) {
  const int left = static_cast<int>(cols - copied);
  if constexpr (!Tile::spread) return left;
  if (extent.step == 0) return -Tile::pitch;
  // The count of a segment that lies past the row is 0, wherever that is.
  return extent.access == Access::interleaved ? left : min(left, extent.count);
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

/// Two elements of a slot, the second `apart` bytes behind the first.
template <int offset, int apart>
__device__ __forceinline__ void load_slot_pair(std::uint32_t* to, unsigned at) {
  std::uint16_t low, high;
  asm volatile("ld.shared.u16 %0, [%1 + %2];" : "=h"(low) : "r"(at), "n"(offset) : "memory");
  asm volatile("ld.shared.u16 %0, [%1 + %2];"
               : "=h"(high)
               : "r"(at), "n"(offset + apart)
               : "memory");
  *to = low | static_cast<std::uint32_t>(high) << 16;
}
template <int offset, int apart>
__device__ __forceinline__ void load_slot_pair(float* to, unsigned at) {
  asm volatile("ld.shared.f32 %0, [%1 + %2];" : "=f"(to[0]) : "r"(at), "n"(offset) : "memory");
  asm volatile("ld.shared.f32 %0, [%1 + %2];"
               : "=f"(to[1])
               : "r"(at), "n"(offset + apart)
               : "memory");
}

/// The low word of an address that a copy began at, of which the last bits will be asked: kept in
/// the slot, for it would take registers.
__device__ __forceinline__ void store_origin(unsigned slot, const std::byte* from) {
  const auto low = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(from));
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(slot), "r"(low) : "memory");
}
__device__ __forceinline__ const std::byte* load_origin(unsigned slot) {
  unsigned low;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(low) : "r"(slot) : "memory");
  return reinterpret_cast<const std::byte*>(std::uintptr_t{low});
}

/// A lane's part of a row that copy_skewed has brought, `at` being the lane's first element.
/// Columns that do not exist were filled with zeros.
template <typename Tile, int size, Access access>
__device__ __forceinline__ void load_skewed(Words<Tile, size>& words, unsigned at) {
  constexpr int apart = bytes_apart<Tile, size, access>, in_pair = pair_words<size>;
  each<Tile::vectors>([&](auto k) {
    each<Tile::vector / 2>([&](auto j) {
      load_slot_pair<k.value * vector_planes<Tile, size> * skewed_plane_bytes + 2 * j.value * apart,
                     apart>(words + (k.value * Tile::vector / 2 + j.value) * in_pair, at);
    });
  });
}

/// Where a kernel's row comes from: memory, when it is wanted, or a slot that was filled before.
/// `where(copied)` is the address of the lane's first column or, `copied`, of the first that it
/// copied, of which the last bits are asked.
template <typename Tile, bool full>
struct FromMemory {
  Extent extent;

  /// Of two arrays, all loads before the first is used.
  template <int size, int other_size, typename Where, typename Second>
  __device__ __forceinline__ void load_two(Words<Tile, size>& words, const Where& where, int,
                                           Words<Tile, other_size>& other,
                                           const Second& other_where, int) const {
    const std::byte *at = where(std::false_type()), *other_at = other_where(std::false_type());
    with_access<Tile, full>(extent, [&](auto access) {
      load_tile_words<Tile, size, access.value>(words, at, extent);
      load_tile_words<Tile, other_size, access.value>(other, other_at, extent);
    });
  }

  template <int size, typename Where>
  __device__ __forceinline__ void load(Words<Tile, size>& words, const Where& where, int) const {
    const std::byte* at = where(std::false_type());
    with_access<Tile, full>(
        extent, [&](auto access) { load_tile_words<Tile, size, access.value>(words, at, extent); });
  }
};
/// `aligned`: it is known that rows are whole vectors that start on their boundaries.
template <typename Tile, bool aligned>
struct FromSlot {
  unsigned slot;
  Access access;

  template <int size, int other_size, typename Where, typename Second>
  __device__ __forceinline__ void load_two(Words<Tile, size>& words, const Where& where, int plane,
                                           Words<Tile, other_size>& other,
                                           const Second& other_where, int other_plane) const {
    load<size>(words, where, plane);
    load<other_size>(other, other_where, other_plane);
  }

  /// `plane`: how many pieces of other arrays lie before this one's.
  template <int size, typename Where>
  __device__ __forceinline__ void load(Words<Tile, size>& words, const Where& where,
                                       int plane) const {
    if constexpr (!aligned) {
      if (access != Access::vectors) return load_any<size>(words, where, plane);
    }
    constexpr int planes = Tile::vectors * vector_planes<Tile, size>;
    constexpr int piece_words = Tile::pairs * pair_words<size> / planes;
    const unsigned at = slot + plane * plane_bytes;
    each<planes>([&](auto p) {
      load_piece<p.value * plane_bytes>(words + p.value * piece_words, at,
                                        std::integral_constant<int, piece_words>());
    });
  }

  /// Of a row that starts anywhere, which other lanes have copied, too: they have waited, now all
  /// know it.
  template <int size, typename Where>
  __device__ __forceinline__ void load_any(Words<Tile, size>& words, const Where& where,
                                           int plane) const {
    __syncwarp();
    const bool interleaved = access == Access::interleaved;
    const int own = interleaved ? size : lane_bytes<Tile, size>;
    const unsigned at = slot + plane * skewed_plane_bytes + own_lane() * (own - vector_bytes) +
                        skew_of<Tile, size>(where(std::true_type()));
    if (interleaved)
      load_skewed<Tile, size, Access::interleaved>(words, at);
    else
      load_skewed<Tile, size, Access::elements>(words, at);
  }
};

/// One or the other, which is known at run time. Not by the slot: 0 is a shared address.
template <typename Tile, bool full, bool aligned>
struct FromEither {
  Extent extent;
  unsigned slot;
  bool in_slot;

  template <int size, typename Where>
  __device__ __forceinline__ void load(Words<Tile, size>& words, const Where& where,
                                       int plane) const {
    if (rings_exist<Tile> && in_slot)
      FromSlot<Tile, aligned>{slot, extent.access}.template load<size>(words, where, plane);
    else
      FromMemory<Tile, full>{extent}.template load<size>(words, where, plane);
  }
};

}  // namespace fusednorm::cuda
