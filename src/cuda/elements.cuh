// A row, or a segment of one, between memory and registers: 16 bytes an access where rows allow it,
// converted in pairs, one rounding at the store.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "arguments.h"
#include "arithmetic.cuh"
#include "geometry.h"

namespace fusednorm::cuda {

template <typename T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// The part of a row that a group of lanes holds: `vectors` vectors a lane, side by side across
/// lanes.
template <typename TX, int lanes_, int vectors_>
struct Tile {
  using C = Compute<TX>;
  static constexpr int lanes = lanes_;
  static constexpr int vectors = vectors_;
  static constexpr int vector = vector_bytes / static_cast<int>(sizeof(TX));
  static constexpr int elements = vectors * vector;
  static constexpr int pairs = elements / 2;
  static constexpr int cols = lanes * elements;
  using Values = Pair<C>[pairs];

  /// The column of pair `p` of lane 0. Lane l's lies l vectors further.
  static __host__ __device__ constexpr int column(int p) {
    return p / (vector / 2) * lanes * vector + p % (vector / 2) * 2;
  }
};

/// What of a lane's part of a tile exists and how it may be accessed. A pair whose column(p) is
/// below `count` exists. Kernels have a `full` path for tiles of which everything exists, in whole
/// vectors.
struct Extent {
  int count;
  bool vectorised;

  template <typename Tile>
  static __device__ __forceinline__ Extent of(std::int64_t left, int lane, bool vectorised) {
    const int cols = left >= Tile::cols ? Tile::cols : left > 0 ? static_cast<int>(left) : 0;
    return {cols - lane * Tile::vector, vectorised};
  }
};

template <typename T>
__device__ __forceinline__ Compute<T> to_compute(T value) {
  if constexpr (std::is_same_v<T, __half>)
    return __half2float(value);
  else if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __bfloat162float(value);
  else
    return value;
}

template <typename T, typename C>
__device__ __forceinline__ T from_compute(C value) {
  if constexpr (std::is_same_v<T, __half>)
    return __float2half_rn(value);
  else if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __float2bfloat16_rn(value);
  else
    return static_cast<T>(value);
}

/// Two neighbouring elements.
template <typename T>
__device__ __forceinline__ Pair<Compute<T>> unpack(std::uint32_t word) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
  } else {
    __half2 halves;
    memcpy(&halves, &word, sizeof word);
    return __half22float2(halves);
  }
}

template <typename T>
__device__ __forceinline__ std::uint32_t pack(float2 pair) {
  std::uint32_t word;
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    const __nv_bfloat162 packed = __floats2bfloat162_rn(pair.x, pair.y);
    memcpy(&word, &packed, sizeof word);
  } else {
    const __half2 packed = __floats2half2_rn(pair.x, pair.y);
    memcpy(&word, &packed, sizeof word);
  }
  return word;
}

/// `count` elements of T at `from`, 16-byte aligned pieces, into pairs of C. T may be narrower or
/// wider than the tile's own type: y in the parameters' dtype.
template <typename T, typename C, int count>
__device__ __forceinline__ void load_vector(Pair<C>* to, const T* from) {
  if constexpr (sizeof(T) == 2) {
    static_assert(count == 8);
    const uint4 raw = __ldcs(reinterpret_cast<const uint4*>(from));
    to[0] = unpack<T>(raw.x);
    to[1] = unpack<T>(raw.y);
    to[2] = unpack<T>(raw.z);
    to[3] = unpack<T>(raw.w);
  } else if constexpr (std::is_same_v<T, float>) {
    if constexpr (count == 2) {
      const float2 raw = __ldcs(reinterpret_cast<const float2*>(from));
      to[0] = {static_cast<C>(raw.x), static_cast<C>(raw.y)};
    } else {
#pragma unroll
      for (int i = 0; i < count / 4; ++i) {
        const float4 raw = __ldcs(reinterpret_cast<const float4*>(from) + i);
        to[2 * i] = {raw.x, raw.y};
        to[2 * i + 1] = {raw.z, raw.w};
      }
    }
  } else {
    static_assert(count == 2);
    to[0] = __ldcs(reinterpret_cast<const double2*>(from));
  }
}

template <typename T, typename C, int count>
__device__ __forceinline__ void store_vector(T* to, const Pair<C>* from) {
  if constexpr (sizeof(T) == 2) {
    static_assert(count == 8);
    __stcs(reinterpret_cast<uint4*>(to),
           make_uint4(pack<T>(from[0]), pack<T>(from[1]), pack<T>(from[2]), pack<T>(from[3])));
  } else if constexpr (std::is_same_v<T, float>) {
    if constexpr (count == 2) {
      __stcs(reinterpret_cast<float2*>(to),
             make_float2(static_cast<float>(from[0].x), static_cast<float>(from[0].y)));
    } else {
#pragma unroll
      for (int i = 0; i < count / 4; ++i) {
        __stcs(reinterpret_cast<float4*>(to) + i,
               make_float4(from[2 * i].x, from[2 * i].y, from[2 * i + 1].x, from[2 * i + 1].y));
      }
    }
  } else {
    static_assert(count == 2);
    __stcs(reinterpret_cast<double2*>(to), from[0]);
  }
}

/// Loads a lane's part of a tile; `from` is the lane's first column. Columns that do not exist are
/// zero.
template <typename Tile, bool full, typename T>
__device__ __forceinline__ void load_tile(typename Tile::Values& values, const T* from,
                                          Extent extent) {
  using C = typename Tile::C;
  constexpr int vector = Tile::vector;
#pragma unroll
  for (int k = 0; k < Tile::vectors; ++k) {
    constexpr int pitch = Tile::lanes * vector;
    Pair<C>* to = values + k * (vector / 2);
    const bool inside = full || k * pitch + vector <= extent.count;
    if (full || (inside && extent.vectorised)) {
      load_vector<T, C, vector>(to, from + k * pitch);
    } else if (inside) {
#pragma unroll
      for (int j = 0; j < vector; j += 2) {
        to[j / 2].x = to_compute(from[k * pitch + j]);
        to[j / 2].y = to_compute(from[k * pitch + j + 1]);
      }
    } else {
#pragma unroll
      for (int j = 0; j < vector; j += 2) {
        to[j / 2].x = k * pitch + j < extent.count ? to_compute(from[k * pitch + j]) : C(0);
        to[j / 2].y = k * pitch + j + 1 < extent.count ? to_compute(from[k * pitch + j + 1]) : C(0);
      }
    }
  }
}

template <typename Tile, bool full, typename T>
__device__ __forceinline__ void store_tile(T* to, const typename Tile::Values& values,
                                           Extent extent) {
  using C = typename Tile::C;
  constexpr int vector = Tile::vector;
#pragma unroll
  for (int k = 0; k < Tile::vectors; ++k) {
    constexpr int pitch = Tile::lanes * vector;
    const Pair<C>* from = values + k * (vector / 2);
    const bool inside = full || k * pitch + vector <= extent.count;
    if (full || (inside && extent.vectorised)) {
      store_vector<T, C, vector>(to + k * pitch, from);
    } else if (inside) {
#pragma unroll
      for (int j = 0; j < vector; j += 2) {
        to[k * pitch + j] = from_compute<T>(from[j / 2].x);
        to[k * pitch + j + 1] = from_compute<T>(from[j / 2].y);
      }
    } else {
#pragma unroll
      for (int j = 0; j < vector; j += 2) {
        if (k * pitch + j < extent.count) to[k * pitch + j] = from_compute<T>(from[j / 2].x);
        if (k * pitch + j + 1 < extent.count)
          to[k * pitch + j + 1] = from_compute<T>(from[j / 2].y);
      }
    }
  }
}

/// Zero in the columns that do not exist. Whole vectors are passed over.
template <typename Tile>
__device__ __forceinline__ void clear_missing(typename Tile::Values& values, int count) {
#pragma unroll
  for (int k = 0; k < Tile::vectors; ++k) {
    constexpr int pitch = Tile::lanes * Tile::vector;
    if (k * pitch + Tile::vector <= count) continue;
#pragma unroll
    for (int p = k * Tile::vector / 2; p < (k + 1) * Tile::vector / 2; ++p) {
      if (Tile::column(p) >= count) values[p].x = 0;
      if (Tile::column(p) + 1 >= count) values[p].y = 0;
    }
  }
}

/// gamma[column] or beta[column] in the compute type.
template <typename TX>
__device__ __forceinline__ Compute<TX> parameter(const void* data, ParamKind kind,
                                                 std::int64_t column, Compute<TX> otherwise) {
  if (kind == ParamKind::absent) return otherwise;
  if (kind == ParamKind::same_as_x) return to_compute(static_cast<const TX*>(data)[column]);
  return static_cast<const float*>(data)[column];
}

/// A lane's part of gamma or beta from column `begin`, the lane's first. Columns that do not exist
/// hold `otherwise`, so that they yield no NaN.
template <typename Tile, typename TX>
__device__ __forceinline__ void load_parameters(typename Tile::Values& values, const void* data,
                                                ParamKind kind, std::int64_t begin, int count,
                                                Compute<TX> otherwise) {
#pragma unroll
  for (int p = 0; p < Tile::pairs; ++p) {
    const int column = Tile::column(p);
    values[p].x = column < count ? parameter<TX>(data, kind, begin + column, otherwise) : otherwise;
    values[p].y =
        column + 1 < count ? parameter<TX>(data, kind, begin + column + 1, otherwise) : otherwise;
  }
}

/// A tile that a thread keeps in shared memory for itself alone, to save registers: no barrier is
/// needed, and threads lie side by side, so no two meet in a bank.
template <typename Tile>
struct Kept {
  using C = typename Tile::C;
  static constexpr int bytes_per_thread = Tile::elements * static_cast<int>(sizeof(C));
  static constexpr int pairs_per_piece = vector_bytes / static_cast<int>(2 * sizeof(C));
  uint4* own;  ///< this thread's first 16 bytes; the next lie blockDim.x further

  __device__ __forceinline__ void store(const typename Tile::Values& values) const {
#pragma unroll
    for (int p = 0; p < Tile::pairs; p += pairs_per_piece) {
      uint4 piece;
      memcpy(&piece, &values[p], sizeof piece);
      own[p / pairs_per_piece * blockDim.x] = piece;
    }
  }
  __device__ __forceinline__ Pair<C> operator[](int p) const {
    const uint4 piece = own[p / pairs_per_piece * blockDim.x];
    Pair<C> pairs[pairs_per_piece];
    memcpy(pairs, &piece, sizeof piece);
    return pairs[p % pairs_per_piece];
  }
};

}  // namespace fusednorm::cuda
