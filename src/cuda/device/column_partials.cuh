// SPDX-License-Identifier: Apache-2.0
// The column sums of a block: added up over its groups of threads and left as a row of partials,
// from which kernels/columns.cuh sums dgamma and dbeta.
#pragma once

#include "device/access.cuh"
#include "device/arguments.h"

namespace fusednorm::cuda {

/// Partials are in the compute type: a vector of the tile is 16 or 32 bytes of it.
template <typename Tile>
__device__ __forceinline__ void store_partials(std::byte* to, const typename Tile::Values& values,
                                               Extent extent) {
  constexpr int size = static_cast<int>(sizeof(typename Tile::C));
  store_tile<Tile, false, size>(to, values, size == 8 ? DType::f64 : DType::f32, extent);
}

/// The column sums that a block's groups of threads hold, added up by halves and written as one row
/// of partials, number `partial()` of a.map.groups * a.partial_count; then cleared. Thread `thread`
/// of each group holds the same columns. Every thread of the block calls it.
template <typename Tile, typename Partial, typename Index>
__device__ __forceinline__ void leave_partials(const BackwardArguments& a, uint4* shared,
                                               typename Tile::Values& dgamma,
                                               typename Tile::Values& dbeta, const Partial& partial,
                                               int group, int groups, int thread, int group_threads,
                                               Index first, Extent extent) {
  using C = typename Tile::C;
  using P = Pair<C>;
  constexpr int pairs_per_piece = Tile::pairs_per_piece, pieces = Tile::pieces;
  for (int left = groups; left > 1;) {
    const int half = (left + 1) / 2;
    uint4* slot =
        shared + (group < half ? group : group - half) * 2 * pieces * group_threads + thread;
    if (group >= half && group < left) {
#pragma unroll
      for (int i = 0; i < pieces; ++i) {
        memcpy(slot + i * group_threads, &dgamma[i * pairs_per_piece], sizeof(uint4));
        memcpy(slot + (pieces + i) * group_threads, &dbeta[i * pairs_per_piece], sizeof(uint4));
      }
    }
    __syncthreads();
    if (group + half < left) {
#pragma unroll
      for (int i = 0; i < pieces; ++i) {
        P other[2][pairs_per_piece];
        memcpy(other[0], slot + i * group_threads, sizeof(uint4));
        memcpy(other[1], slot + (pieces + i) * group_threads, sizeof(uint4));
#pragma unroll
        for (int j = 0; j < pairs_per_piece; ++j) {
          dgamma[i * pairs_per_piece + j] = add(dgamma[i * pairs_per_piece + j], other[0][j]);
          dbeta[i * pairs_per_piece + j] = add(dbeta[i * pairs_per_piece + j], other[1][j]);
        }
      }
    }
    left = half;
    if (left > 1) __syncthreads();
  }
  if (groups > 1) __syncthreads();  // before the next partials take the slots
  if (group == 0) {
    // One loop for both, so that the code that writes a row of partials exists once.
    std::byte* out = static_cast<std::byte*>(a.partials) +
                     (partial() * a.cols + first) * static_cast<int>(sizeof(C));
    if (extent.access == Access::elements) extent.access = Access::vectors;
#pragma unroll 1
    for (int which = 0; which < 2; ++which) {
      store_partials<Tile>(out, dgamma, extent);
      out += a.map.groups * a.partial_count * a.cols * static_cast<int>(sizeof(C));
#pragma unroll
      for (int p = 0; p < Tile::pairs; ++p) dgamma[p] = dbeta[p];
    }
  }
  fill(dgamma, both(C(0)));
  fill(dbeta, both(C(0)));
}

}  // namespace fusednorm::cuda
