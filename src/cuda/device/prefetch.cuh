// SPDX-License-Identifier: Apache-2.0
// Rows that have no ring may be prefetched into the L2, one row ahead: that takes no shared memory
// and no alignment, and of the way from memory to a lane it is most of the time.
#pragma once

#include "device/access.cuh"
#include "device/slots.cuh"

namespace fusednorm::cuda {

/// Where the model of time says that it gains: 16-bit rows forward, and rows of several warps in a
/// backward from y. Not on sm_75, whose memory is slow enough without; nor rows of 64 columns and
/// less, of which a warp has several under way, and no registers to spare.
template <typename Tile>
inline constexpr bool prefetches_forward = copies_exist && sizeof(typename Tile::Storage) == 2 &&
                                           !(Tile::spread && Tile::lanes < warp_lanes);
template <typename Tile, bool from_y>
inline constexpr bool prefetches_backward = copies_exist&& from_y&& Tile::spread &&
                                            sizeof(typename Tile::Storage) < 8;

/// Asks the L2 for a lane's part of a row; `from` is the lane's first column, `left` columns before
/// the row's end. A lane asks for 16 bytes of each vector, wherever its elements lie: together they
/// touch every sector once or twice.
template <typename Tile, int size>
__device__ __forceinline__ void prefetch_tile(const std::byte* from, int left, Extent extent) {
  int into = 0;
  if (extent.access == Access::interleaved && Tile::apart > 1)
    into = static_cast<int>(threadIdx.x % Tile::lanes) * (Tile::vector - 1);
  each_vector<Tile, size>(from, extent, [&](auto k, const std::byte* at, auto offset) {
    const int before = into + k.value * (Tile::spread ? extent.pitch : Tile::pitch);
    if (k.value < Tile::always || before < left) {
      asm volatile(
          "prefetch.global.L2 [%0 + %1];" ::"l"(__cvta_generic_to_global(at + into * size)),
          "n"(offset.value));
    }
  });
}

/// The same for an array whose elements have the row's size or the other.
template <typename Tile>
__device__ __forceinline__ void prefetch_row(const std::byte* from, int element_bytes, int left,
                                             Extent extent) {
  with_size<Tile>(element_bytes,
                  [&](auto size) { prefetch_tile<Tile, size.value>(from, left, extent); });
}

}  // namespace fusednorm::cuda
