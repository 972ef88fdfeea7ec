// SPDX-License-Identifier: Apache-2.0
// What threads put into shared memory, for themselves or for each other.
#pragma once

#include "device/tile.cuh"

namespace fusednorm::cuda {

/// A number in shared memory, by its address there.
__device__ __forceinline__ void store_shared(unsigned place, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(place), "f"(value) : "memory");
}
__device__ __forceinline__ void store_shared(unsigned place, double value) {
  asm volatile("st.shared.f64 [%0], %1;" ::"r"(place), "d"(value) : "memory");
}
template <typename C>
__device__ __forceinline__ C load_shared(unsigned place) {
  C value;
  if constexpr (sizeof(C) == 4)
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(place) : "memory");
  else
    asm volatile("ld.shared.f64 %0, [%1];" : "=d"(value) : "r"(place) : "memory");
  return value;
}

/// A tile that a thread keeps in shared memory, to save registers. A warp's lanes lie side by side,
/// so no two meet in a bank.
template <typename Tile>
struct Kept {
  using C = typename Tile::C;
  static constexpr int pairs_per_piece = Tile::pairs_per_piece, pieces = Tile::pieces;
  static constexpr int warp_pieces = pieces * warp_lanes;  ///< 16 bytes each
  uint4* own;  ///< this thread's first 16 bytes; the next lie a warp's width further

  /// In `block`, which has room for `warp + 1` warps or more. Where each warp has a place of its
  /// own, no barrier is needed.
  __device__ __forceinline__ Kept(uint4* block, int warp)
      : own(block + warp * warp_pieces + threadIdx.x % warp_lanes) {}
  __device__ __forceinline__ explicit Kept(uint4* block) : Kept(block, threadIdx.x / warp_lanes) {}

  __device__ __forceinline__ void store(const typename Tile::Values& values) const {
#pragma unroll
    for (int p = 0; p < Tile::pairs; p += pairs_per_piece) {
      uint4 piece;
      memcpy(&piece, &values[p], sizeof piece);
      own[p / pairs_per_piece * warp_lanes] = piece;
    }
  }
  __device__ __forceinline__ void load(typename Tile::Values& values) const {
#pragma unroll
    for (int p = 0; p < Tile::pairs; ++p) values[p] = (*this)[p];
  }
  __device__ __forceinline__ Pair<C> operator[](int p) const {
    const uint4 piece = own[p / pairs_per_piece * warp_lanes];
    Pair<C> pairs[pairs_per_piece];
    memcpy(pairs, &piece, sizeof piece);
    return pairs[p % pairs_per_piece];
  }
};

}  // namespace fusednorm::cuda
