// A row, or a segment of one, between memory and registers: 16 bytes an access where rows allow it,
// converted in pairs, one rounding at the store.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "arguments.h"
#include "tile.cuh"

namespace fusednorm::cuda {

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

/// body(k, at) for each of a lane's vectors; `at` is where vector k lies, as a pointer and a
/// constant offset in elements.
template <typename Tile, typename T, typename Body>
__device__ __forceinline__ void each_vector(T* from, Extent extent, const Body& body) {
  if constexpr (Tile::spread) {
    const std::int64_t jump = std::int64_t{extent.pitch} * static_cast<int>(sizeof(T));
    each<Tile::vectors>([&](auto k) {
      body(k, from, std::integral_constant<int, 0>());
      from = advance(from, jump);
    });
  } else {
    each<Tile::vectors>(
        [&](auto k) { body(k, from, std::integral_constant<int, k.value * Tile::pitch>()); });
  }
}

/// part(k, at) for each vector of which something exists in the row, all(k, at, offset) where
/// everything does, none(k) where nothing.
template <typename Tile, typename T, typename All, typename Part, typename None>
__device__ __forceinline__ void each_of_row(T* from, Extent extent, const All& all,
                                            const Part& part, const None& none) {
  each_vector<Tile>(from, extent, [&](auto k, T* at, auto offset) {
    if constexpr (k.value < Tile::always) {
      all(k, at, offset);
    } else {
      const int left = extent.left<Tile>(k.value);
      if (left > 0) {
        if (left >= Tile::vector)
          all(k, at, offset);
        else
          part(k.value, at + offset.value, left);
      } else {
        none(k.value);
      }
    }
  });
}

/// How a kernel reads and writes a lane's part of a row: all of it in vectors; in vectors as far as
/// it exists; or element by element, where rows do not start on a vector's boundary.
enum class Access { whole, vectors, elements };
template <Access access>
using AccessAs = std::integral_constant<Access, access>;

/// body(AccessAs<…>()), for what the row allows.
template <typename Tile, bool full, typename Body>
__device__ __forceinline__ void with_access(Extent extent, const Body& body) {
  if (full || (!Tile::last_only && extent.complete && extent.vectorised))
    body(AccessAs<Access::whole>());
  else if (extent.vectorised)
    body(AccessAs<Access::vectors>());
  else
    body(AccessAs<Access::elements>());
}

/// Loads a lane's part of a tile; `from` is the lane's first column. Columns that do not exist are
/// zero.
template <typename Tile, Access access, typename T>
__device__ __forceinline__ void load_tile(typename Tile::Values& values, const T* from,
                                          Extent extent) {
  using C = typename Tile::C;
  constexpr int vector = Tile::vector;
  const auto whole = [&](auto k, const T* at, auto offset) {
    load_vector<T, C, vector, offset.value>(values + k.value * (vector / 2), at);
  };
  if constexpr (access == Access::whole) return each_vector<Tile>(from, extent, whole);
  const auto one_by_one = [&](auto k, const T* at, auto offset) {
#pragma unroll
    for (int j = 0; j < vector; j += 2) {
      values[(k.value * vector + j) / 2] = {to_compute(at[offset.value + j]),
                                            to_compute(at[offset.value + j + 1])};
    }
  };
  const auto part = [&](int k, const T* at, int left) {
#pragma unroll
    for (int j = 0; j < vector; j += 2) {
      Pair<C>& pair = values[(k * vector + j) / 2];
      pair = both(C(0));
      if (j < left) pair.x = to_compute(at[j]);
      if (j + 1 < left) pair.y = to_compute(at[j + 1]);
    }
  };
  const auto none = [&](int k) {
#pragma unroll
    for (int j = 0; j < vector; j += 2) values[(k * vector + j) / 2] = both(C(0));
  };
  if constexpr (access == Access::vectors)
    each_of_row<Tile>(from, extent, whole, part, none);
  else if constexpr (access == Access::elements)
    each_of_row<Tile>(from, extent, one_by_one, part, none);
}
template <typename Tile, bool full, typename T>
__device__ __forceinline__ void load_tile(typename Tile::Values& values, const T* from,
                                          Extent extent) {
  with_access<Tile, full>(
      extent, [&](auto access) { load_tile<Tile, access.value>(values, from, extent); });
}

template <typename Tile, Access access, typename T>
__device__ __forceinline__ void store_tile(T* to, const typename Tile::Values& values,
                                           Extent extent) {
  using C = typename Tile::C;
  constexpr int vector = Tile::vector;
  const auto whole = [&](auto k, T* at, auto offset) {
    store_vector<T, C, vector, offset.value>(at, values + k.value * (vector / 2));
  };
  if constexpr (access == Access::whole) return each_vector<Tile>(to, extent, whole);
  const auto one_by_one = [&](auto k, T* at, auto offset) {
#pragma unroll
    for (int j = 0; j < vector; j += 2) {
      at[offset.value + j] = from_compute<T>(values[(k.value * vector + j) / 2].x);
      at[offset.value + j + 1] = from_compute<T>(values[(k.value * vector + j) / 2].y);
    }
  };
  const auto part = [&](int k, T* at, int left) {
#pragma unroll
    for (int j = 0; j < vector; j += 2) {
      const Pair<C> pair = values[(k * vector + j) / 2];
      if (j < left) at[j] = from_compute<T>(pair.x);
      if (j + 1 < left) at[j + 1] = from_compute<T>(pair.y);
    }
  };
  const auto none = [](int) {};
  if constexpr (access == Access::vectors)
    each_of_row<Tile>(to, extent, whole, part, none);
  else if constexpr (access == Access::elements)
    each_of_row<Tile>(to, extent, one_by_one, part, none);
}
template <typename Tile, bool full, typename T>
__device__ __forceinline__ void store_tile(T* to, const typename Tile::Values& values,
                                           Extent extent) {
  with_access<Tile, full>(extent,
                          [&](auto access) { store_tile<Tile, access.value>(to, values, extent); });
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

}  // namespace fusednorm::cuda
