// SPDX-License-Identifier: Apache-2.0
// How a row, or a segment of one, lies on the registers of its lanes, and which of it exists.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "device/arithmetic.cuh"
#include "plan/geometry.h"

namespace fusednorm::cuda {

/// The element of a 16-bit row. Whether it is f16 or bf16 is asked where it is converted: one
/// branch a row, and half the kernels.
enum class Half16 : std::uint16_t {};

/// `S` is how the row that is normalised is stored: Half16, float or double.
template <typename S>
using Compute = std::conditional_t<std::is_same_v<S, double>, double, float>;

/// The part of a row that a group of lanes holds: `vectors` vectors a lane. They lie side by side
/// across the group's lanes or, `spread`, as far apart as Extent::pitch says: across all lanes of a
/// row of several warps, so that only the last vector of a lane can be incomplete, or across a
/// number of lanes that is known at run time. The first `always` are complete in every row; the
/// geometry sees to it. The elements of a vector are neighbouring columns or, interleaved, a column
/// of every lane apart: the vectors of all lanes are the same columns either way.
template <typename S, int lanes_, int vectors_, int always_ = 0, bool spread_ = false>
struct Tile {
  using Storage = S;
  using C = Compute<S>;
  static constexpr int lanes = lanes_;
  static constexpr int vectors = vectors_;
  static constexpr int always = always_;
  static constexpr bool spread = spread_;
  static constexpr bool last_only = always > 0;  ///< only the last vector may be incomplete
  /// Columns from one element of an interleaved vector to its next; 1: they are not interleaved
  /// after all. So it is where the number of lanes is not known, in rows of 64 columns and less,
  /// and in f64, whose vectors are two elements.
  static constexpr int apart = sizeof(S) < 8 && (!spread || lanes == warp_lanes) ? lanes : 1;
  static constexpr int vector = vector_bytes / static_cast<int>(sizeof(S));
  static constexpr int elements = vectors * vector;
  static constexpr int pairs = elements / 2;
  static constexpr int registers = elements * static_cast<int>(sizeof(C) / 4);
  /// Of the compute type, 16 bytes each.
  static constexpr int pairs_per_piece = vector_bytes / static_cast<int>(2 * sizeof(C));
  static constexpr int pieces = pairs / pairs_per_piece;
  static constexpr int cols = lanes * elements;
  static constexpr int pitch = lanes * vector;
  using Values = Pair<C>[pairs];
};

/// body(std::integral_constant<int, 0>) … body(std::integral_constant<int, count - 1>): addresses
/// become immediates.
template <int count, typename Body, int... index>
__device__ __forceinline__ void each_of(const Body& body, std::integer_sequence<int, index...>) {
  (body(std::integral_constant<int, index>()), ...);
}
template <int count, typename Body>
__device__ __forceinline__ void each(const Body& body) {
  each_of<count>(body, std::make_integer_sequence<int, count>());
}

/// The value, kept in a register: the compiler would rather compute it anew for every row. A
/// pointer is to global memory, and stays known to be.
template <typename T>
__device__ __forceinline__ T kept(T value) {
  if constexpr (std::is_pointer_v<T>) {
    std::size_t place = __cvta_generic_to_global(value);
    asm("" : "+l"(place));
    return static_cast<T>(__cvta_global_to_generic(place));
  } else {
    if constexpr (std::is_same_v<T, float>)
      asm("" : "+f"(value));
    else if constexpr (std::is_same_v<T, double>)
      asm("" : "+d"(value));
    else
      asm("" : "+r"(value));
    return value;
  }
}

/// The value, found anew where this stands: what is computed from it is not kept in registers
/// through a loop around it.
__device__ __forceinline__ std::int64_t found_anew(std::int64_t value) {
  asm volatile("" : "+l"(value));
  return value;
}
/// The thread's lane, found anew.
__device__ __forceinline__ int own_lane() {
  int lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

template <int value>
inline constexpr int log2_constant = value == 1 ? 0 : 1 + log2_constant<value / 2>;
template <>
inline constexpr int log2_constant<1> = 0;

/// The first column of a lane, from where its group of lanes begins.
template <typename Tile>
__device__ __forceinline__ int first_column(int lane, Access access) {
  return access == Access::interleaved && Tile::apart > 1 ? lane : lane * Tile::vector;
}

/// What of a lane's part of a tile exists and how it may be accessed.
struct Extent {
  int count;      ///< elements that the lane would have if it had any number of vectors
  int last;       ///< what count leaves for the last vector
  int step;       ///< what count falls by from one vector to the next
  int pitch;      ///< columns from one vector of a lane to its next
  bool complete;  ///< everything exists, in all lanes of the warp
  Access access;

  /// Of a lane whose first column is `cols` columns before the end.
  template <typename Tile>
  static __device__ __forceinline__ Extent make(int cols, int pitch, bool complete, Access access) {
    // Of an interleaved row the next element is `apart` columns further, of others the next column
    // as far as there are vectors.
    const bool interleaved = access == Access::interleaved && Tile::apart > 1;
    const int count = interleaved ? (cols + Tile::apart - 1) >> log2_constant<Tile::apart> : cols;
    const int step = interleaved ? pitch >> log2_constant<Tile::apart> : pitch;
    return {count, kept(count - (Tile::vectors - 1) * step), step, pitch, complete, access};
  }

  /// Of a segment on `lanes` lanes, `left` columns before the row's end and `most` columns long.
  template <typename Tile>
  static __device__ __forceinline__ Extent of(std::int64_t left, int most, int lanes, int lane,
                                              Access access) {
    const int cols = left >= most ? most : left > 0 ? static_cast<int>(left) : 0;
    return make<Tile>(cols - first_column<Tile>(lane, access), lanes * Tile::vector,
                      cols == lanes * Tile::elements, access);
  }
  template <typename Tile>
  static __device__ __forceinline__ Extent of(std::int64_t left, int lane, Access access) {
    return of<Tile>(left, Tile::cols, Tile::lanes, lane, access);
  }

  /// Of a row that is spread over `warps` warps, of which this is `warp`; it may be none of them.
  template <typename Tile>
  static __device__ __forceinline__ Extent spread(int cols, int warp, int warps, int lane,
                                                  Access access) {
    const int pitch = warps * Tile::pitch, first = warp * Tile::pitch;
    if (warp >= warps) return {0, 0, 0, pitch, false, access};
    return make<Tile>(cols - first - first_column<Tile>(lane, access), pitch,
                      cols >= (Tile::vectors - 1) * pitch + first + Tile::pitch, access);
  }

  /// Of a row that is not there.
  __device__ __forceinline__ Extent none() const { return {0, 0, 0, pitch, false, access}; }

  /// The same of a row that is known to be aligned, so that the compiler knows, too.
  __device__ __forceinline__ Extent aligned() const {
    return {count, last, step, pitch, complete, Access::vectors};
  }

  /// Elements of vector `k` that exist: the first ones. More than a vector has, or below 0, for all
  /// or none.
  template <typename Tile>
  __device__ __forceinline__ int left(int k) const {
    return k == Tile::vectors - 1 ? last : count - k * step;
  }
};

/// body(p) for each pair of a lane's part of a row, then finish(k) for the vectors k that may be
/// incomplete. Where only the last can be, lanes without any of it pass it over.
template <typename Tile, bool full, typename Body, typename Finish>
__device__ __forceinline__ void each_pair(Extent extent, const Body& body, const Finish& finish) {
  constexpr bool skips = !full && Tile::last_only;
  constexpr int certain = skips ? Tile::always : Tile::vectors;
#pragma unroll
  for (int p = 0; p < certain * Tile::vector / 2; ++p) body(p);
  if constexpr (skips) {
    if (extent.last > 0) {
#pragma unroll
      for (int p = certain * Tile::vector / 2; p < Tile::pairs; ++p) body(p);
      finish(Tile::vectors - 1);
    }
  } else if constexpr (!full) {
#pragma unroll
    for (int k = 0; k < Tile::vectors; ++k) finish(k);
  }
}
template <typename Tile, bool full, typename Body>
__device__ __forceinline__ void each_pair(Extent extent, const Body& body) {
  each_pair<Tile, full>(extent, body, [](int) {});
}

/// As each_pair, with zero in the columns of `values` that do not exist.
template <typename Tile, bool full, typename Body>
__device__ __forceinline__ void each_pair_cleared(typename Tile::Values& values, Extent extent,
                                                  const Body& body) {
  each_pair<Tile, full>(extent, body, [&](int k) {
    const int left = extent.left<Tile>(k);
    if (left >= Tile::vector) return;
#pragma unroll
    for (int j = 0; j < Tile::vector; j += 2) {
      if (j >= left) values[(k * Tile::vector + j) / 2].x = 0;
      if (j + 1 >= left) values[(k * Tile::vector + j) / 2].y = 0;
    }
  });
}

/// The tile of kernels that give a row several warps. Rows that are not whole segments are spread
/// over all of them, so that only the last vector asks what exists. `roomy` tiles serve geometries
/// of fewer vectors, too, and clusters, which may have warps that no column reaches.
template <typename S, int vectors, bool roomy, bool whole>
using WideTile = Tile<S, warp_lanes, vectors, roomy ? 0 : vectors - 1, !whole>;

/// Where a lane's part of a row lies in a kernel that gives a row several warps, `segment` being
/// its warp: a function of cols alone. Rows of whole segments keep each segment together, so that
/// addresses are constants; others are spread. Such rows are short enough for an int.
template <typename Tile, bool whole>
struct WidePlace {
  int first;  ///< the lane's first column
  Extent extent;

  template <typename Arguments>
  __device__ __forceinline__ WidePlace(const Arguments& a, int segment, int lane)
      : first(segment * Tile::cols + lane * Tile::vector), extent{Tile::cols - lane * Tile::vector,
                                                                  Tile::vector,
                                                                  Tile::pitch,
                                                                  Tile::pitch,
                                                                  true,
                                                                  Access::vectors} {
    if constexpr (!whole) {
      const int cols = static_cast<int>(a.cols), segments = static_cast<int>(a.segments);
      const int segment_cols = a.vectors * Tile::pitch;
      if (cols == segments * segment_cols) {
        first = segment * segment_cols + lane * Tile::vector;  // whole vectors
        extent = Extent::of<Tile>(cols - segment * segment_cols, segment_cols, warp_lanes, lane,
                                  a.access);
      } else {
        first = segment * Tile::pitch + first_column<Tile>(lane, a.access);
        extent = Extent::spread<Tile>(cols, segment, segments, lane, a.access);
      }
    }
  }
};

/// The address `bytes` further. By pointer arithmetic: through an integer the compiler loses sight
/// of global memory, and what is left is a generic access.
template <typename T>
__device__ __forceinline__ T* advance(T* from, std::int64_t bytes) {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  return reinterpret_cast<T*>(reinterpret_cast<Byte*>(from) + bytes);
}

}  // namespace fusednorm::cuda
