// A row, or a segment of one, between memory and registers: 16 bytes an access where rows allow it,
// converted in pairs, one rounding at the store.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>
#include <utility>

#include "arguments.h"
#include "arithmetic.cuh"
#include "geometry.h"

namespace fusednorm::cuda {

template <typename T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// The part of a row that a group of lanes holds: `vectors` vectors a lane, side by side across
/// lanes.
/// Of the vectors, the first `always` are complete in every row; the geometry sees to it.
template <typename TX, int lanes_, int vectors_, int always_ = 0>
struct Tile {
  using C = Compute<TX>;
  static constexpr int lanes = lanes_;
  static constexpr int vectors = vectors_;
  static constexpr int always = always_;
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

/// What of a lane's part of a tile exists and how it may be accessed. A pair whose column(p) is
/// below `count` exists. `complete`, the same in all lanes: everything does.
struct Extent {
  int count;
  bool complete;
  bool vectorised;

  template <typename Tile>
  static __device__ __forceinline__ Extent of(std::int64_t left, int lane, bool vectorised) {
    const int cols = left >= Tile::cols ? Tile::cols : left > 0 ? static_cast<int>(left) : 0;
    return {cols - lane * Tile::vector, cols == Tile::cols, vectorised};
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

/// 16 bytes at base + offset, past the cache: nothing reads x, dy, y or dx a second time. The
/// offset is an immediate, which the intrinsics would not make of it.
template <int offset>
__device__ __forceinline__ uint4 load16(const void* base) {
  uint4 v;
  asm volatile("ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4 + %5];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(__cvta_generic_to_global(base)), "n"(offset));
  return v;
}
template <int offset>
__device__ __forceinline__ void store16(void* base, uint4 v) {
  asm volatile(
      "st.global.cs.v4.u32 [%0 + %1], {%2, %3, %4, %5};" ::"l"(__cvta_generic_to_global(base)),
      "n"(offset), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
      : "memory");
}

/// `count` elements of T, `offset` elements from `base`, between memory and pairs of C. T may be
/// narrower or wider than the tile's own type: y in the parameters' dtype.
template <typename T, typename C, int count, int offset>
__device__ __forceinline__ void load_vector(Pair<C>* to, const T* base) {
  constexpr int bytes = offset * static_cast<int>(sizeof(T));
  if constexpr (std::is_same_v<T, float> && count == 2) {
    const float2 raw = *reinterpret_cast<const float2*>(base + offset);
    to[0] = {static_cast<C>(raw.x), static_cast<C>(raw.y)};
  } else if constexpr (sizeof(T) == 2) {
    const uint4 raw = load16<bytes>(base);
    to[0] = unpack<T>(raw.x);
    to[1] = unpack<T>(raw.y);
    to[2] = unpack<T>(raw.z);
    to[3] = unpack<T>(raw.w);
  } else {
    each<count* static_cast<int>(sizeof(T)) / vector_bytes>([&](auto i) {
      const uint4 raw = load16<bytes + i.value * vector_bytes>(base);
      memcpy(to + i.value * vector_bytes / sizeof(Pair<C>), &raw, sizeof raw);
    });
  }
}

template <typename T, typename C, int count, int offset>
__device__ __forceinline__ void store_vector(T* base, const Pair<C>* from) {
  constexpr int bytes = offset * static_cast<int>(sizeof(T));
  if constexpr (std::is_same_v<T, float> && count == 2) {
    *reinterpret_cast<float2*>(base + offset) =
        make_float2(static_cast<float>(from[0].x), static_cast<float>(from[0].y));
  } else if constexpr (sizeof(T) == 2) {
    store16<bytes>(
        base, make_uint4(pack<T>(from[0]), pack<T>(from[1]), pack<T>(from[2]), pack<T>(from[3])));
  } else {
    each<count* static_cast<int>(sizeof(T)) / vector_bytes>([&](auto i) {
      uint4 raw;
      memcpy(&raw, from + i.value * vector_bytes / sizeof(Pair<C>), sizeof raw);
      store16<bytes + i.value * vector_bytes>(base, raw);
    });
  }
}

/// Loads a lane's part of a tile; `from` is the lane's first column. Columns that do not exist are
/// zero.
template <typename Tile, bool full, typename T>
__device__ __forceinline__ void load_tile(typename Tile::Values& values, const T* from,
                                          Extent extent) {
  using C = typename Tile::C;
  constexpr int vector = Tile::vector, pitch = Tile::lanes * vector;
  if (full || (extent.complete && extent.vectorised)) {
    each<Tile::vectors>([&](auto k) {
      load_vector<T, C, vector, k.value * pitch>(values + k.value * (vector / 2), from);
    });
    return;
  }
  const auto unchecked = [&](int k) {
#pragma unroll
    for (int j = 0; j < vector; j += 2) {
      values[(k * vector + j) / 2] = {to_compute(from[k * pitch + j]),
                                      to_compute(from[k * pitch + j + 1])};
    }
  };
  if (extent.complete) {
#pragma unroll
    for (int k = 0; k < Tile::vectors; ++k) unchecked(k);
    return;
  }
  each<Tile::vectors>([&](auto k) {
    const bool inside = k.value < Tile::always || k.value * pitch + vector <= extent.count;
    if (inside && extent.vectorised) {
      load_vector<T, C, vector, k.value * pitch>(values + k.value * (vector / 2), from);
    } else if (inside) {
      unchecked(k.value);
    } else {
#pragma unroll
      for (int j = 0; j < vector; j += 2) {
        values[(k.value * vector + j) / 2] = {
            k.value * pitch + j < extent.count ? to_compute(from[k.value * pitch + j]) : C(0),
            k.value * pitch + j + 1 < extent.count ? to_compute(from[k.value * pitch + j + 1])
                                                   : C(0)};
      }
    }
  });
}

template <typename Tile, bool full, typename T>
__device__ __forceinline__ void store_tile(T* to, const typename Tile::Values& values,
                                           Extent extent) {
  using C = typename Tile::C;
  constexpr int vector = Tile::vector, pitch = Tile::lanes * vector;
  if (full || (extent.complete && extent.vectorised)) {
    each<Tile::vectors>([&](auto k) {
      store_vector<T, C, vector, k.value * pitch>(to, values + k.value * (vector / 2));
    });
    return;
  }
  const auto unchecked = [&](int k) {
#pragma unroll
    for (int j = 0; j < vector; j += 2) {
      to[k * pitch + j] = from_compute<T>(values[(k * vector + j) / 2].x);
      to[k * pitch + j + 1] = from_compute<T>(values[(k * vector + j) / 2].y);
    }
  };
  if (extent.complete) {
#pragma unroll
    for (int k = 0; k < Tile::vectors; ++k) unchecked(k);
    return;
  }
  each<Tile::vectors>([&](auto k) {
    const bool inside = k.value < Tile::always || k.value * pitch + vector <= extent.count;
    if (inside && extent.vectorised) {
      store_vector<T, C, vector, k.value * pitch>(to, values + k.value * (vector / 2));
    } else if (inside) {
      unchecked(k.value);
    } else {
#pragma unroll
      for (int j = 0; j < vector; j += 2) {
        const Pair<C> pair = values[(k.value * vector + j) / 2];
        if (k.value * pitch + j < extent.count) to[k.value * pitch + j] = from_compute<T>(pair.x);
        if (k.value * pitch + j + 1 < extent.count)
          to[k.value * pitch + j + 1] = from_compute<T>(pair.y);
      }
    }
  });
}

/// Zero in the columns that do not exist. Whole vectors are passed over.
template <typename Tile>
__device__ __forceinline__ void clear_missing(typename Tile::Values& values, Extent extent) {
  if (extent.complete) return;
#pragma unroll
  for (int k = Tile::always; k < Tile::vectors; ++k) {
    constexpr int pitch = Tile::lanes * Tile::vector;
    if (k * pitch + Tile::vector <= extent.count) continue;
#pragma unroll
    for (int p = k * Tile::vector / 2; p < (k + 1) * Tile::vector / 2; ++p) {
      if (Tile::column(p) >= extent.count) values[p].x = 0;
      if (Tile::column(p) + 1 >= extent.count) values[p].y = 0;
    }
  }
}

/// A lane's part of gamma or beta from column `first`, the lane's own. Columns that do not exist
/// hold zero.
template <typename Tile, typename TX, typename Index>
__device__ __forceinline__ void load_parameters(typename Tile::Values& values, const void* data,
                                                ParamKind kind, Index first, Extent extent,
                                                Compute<TX> otherwise) {
  if (kind == ParamKind::absent) {
    fill(values, both(otherwise));
    return;
  }
  if constexpr (!std::is_same_v<TX, float>) {
    if (kind == ParamKind::same_as_x) {
      return load_tile<Tile, false>(values, static_cast<const TX*>(data) + first, extent);
    }
  }
  load_tile<Tile, false>(values, static_cast<const float*>(data) + first, extent);
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
