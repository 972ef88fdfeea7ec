// SPDX-License-Identifier: Apache-2.0
// Elements as they are stored, in 32-bit words, and as they are computed with, in pairs. What lies
// in memory has 2, 4 or 8 bytes an element; which of the 16-bit formats it is, is asked once a
// tile.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "device/tile.cuh"
#include "fusednorm/dtype.h"

namespace fusednorm::cuda {

/// What a register holds of memory with `size` bytes an element: two 16-bit numbers, or one of 4 or
/// 8 bytes.
template <int size>
using Word =
    std::conditional_t<size == 2, std::uint32_t, std::conditional_t<size == 4, float, double>>;
/// Words in two elements.
template <int size>
inline constexpr int pair_words = size == 2 ? 1 : 2;

/// A lane's part of a row as it lies in memory.
template <typename Tile, int size>
using Words = Word<size>[Tile::pairs * pair_words<size>];

/// Bytes of an element of a row of this tile.
template <typename Tile>
inline constexpr int own_size = static_cast<int>(sizeof(typename Tile::Storage));
/// Of the other dtypes that y, x beside an f32 residual, or the parameters may have: f32 beside
/// 16-bit and f64 rows, 16 bits beside f32 rows.
template <typename Tile>
inline constexpr int other_size = own_size<Tile> == 4 ? 2 : 4;

/// body(std::integral_constant<int, size>) for an array that has the row's size or the other.
template <typename Tile, typename Body>
__device__ __forceinline__ void with_size(int element_bytes, const Body& body) {
  if (element_bytes == own_size<Tile>)
    body(std::integral_constant<int, own_size<Tile>>());
  else
    body(std::integral_constant<int, other_size<Tile>>());
}

__device__ __forceinline__ __half2 halves_of(std::uint32_t word) {
  __half2 halves;
  memcpy(&halves, &word, sizeof word);
  return halves;
}
__device__ __forceinline__ __nv_bfloat162 bfloats_of(std::uint32_t word) {
  __nv_bfloat162 bfloats;
  memcpy(&bfloats, &word, sizeof word);
  return bfloats;
}
template <typename Two>
__device__ __forceinline__ std::uint32_t word_of(Two two) {
  std::uint32_t word;
  memcpy(&word, &two, sizeof word);
  return word;
}

template <bool bf16>
__device__ __forceinline__ float2 unpack(std::uint32_t word) {
  if constexpr (bf16)
    return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
  else
    return __half22float2(halves_of(word));
}
template <bool bf16>
__device__ __forceinline__ std::uint32_t pack(float2 pair) {
  if constexpr (bf16)
    return word_of(__floats2bfloat162_rn(pair.x, pair.y));
  else
    return word_of(__floats2half2_rn(pair.x, pair.y));
}

/// body(std::bool_constant<bf16>()), one branch for all of a tile.
template <typename Body>
__device__ __forceinline__ void with_half_format(DType dtype, const Body& body) {
  if (dtype == DType::bf16)
    body(std::true_type());
  else
    body(std::false_type());
}

/// Stored words to numbers.
template <typename Tile, int size>
__device__ __forceinline__ void unpack_tile(typename Tile::Values& values,
                                            const Words<Tile, size>& words, DType dtype) {
  using C = typename Tile::C;
  if constexpr (size == 2) {
    with_half_format(dtype, [&](auto bf16) {
#pragma unroll
      for (int p = 0; p < Tile::pairs; ++p) values[p] = unpack<bf16.value>(words[p]);
    });
  } else {
#pragma unroll
    for (int p = 0; p < Tile::pairs; ++p)
      values[p] = {static_cast<C>(words[2 * p]), static_cast<C>(words[2 * p + 1])};
  }
}

/// Numbers to stored words: the one rounding of a result.
template <typename Tile, int size>
__device__ __forceinline__ void pack_tile(Words<Tile, size>& words,
                                          const typename Tile::Values& values, DType dtype) {
  if constexpr (size == 2) {
    with_half_format(dtype, [&](auto bf16) {
#pragma unroll
      for (int p = 0; p < Tile::pairs; ++p) words[p] = pack<bf16.value>(values[p]);
    });
  } else {
#pragma unroll
    for (int p = 0; p < Tile::pairs; ++p) {
      words[2 * p] = static_cast<Word<size>>(values[p].x);
      words[2 * p + 1] = static_cast<Word<size>>(values[p].y);
    }
  }
}

/// a += b, rounded to the dtype of both. For 16-bit numbers that is what rounding the f32 sum
/// gives: 24 bits are at least 2 * 11 + 2.
template <typename Tile, int size>
__device__ __forceinline__ void add_words(Words<Tile, size>& a, const Words<Tile, size>& b,
                                          DType dtype) {
  if constexpr (size == 2) {
    with_half_format(dtype, [&](auto bf16) {
#pragma unroll
      for (int p = 0; p < Tile::pairs; ++p) {
        if constexpr (bf16.value)
          a[p] = word_of(__hadd2_rn(bfloats_of(a[p]), bfloats_of(b[p])));
        else
          a[p] = word_of(__hadd2_rn(halves_of(a[p]), halves_of(b[p])));
      }
    });
  } else {
    typename Tile::Values left, right;
    unpack_tile<Tile, size>(left, a, dtype);
    unpack_tile<Tile, size>(right, b, dtype);
#pragma unroll
    for (int p = 0; p < Tile::pairs; ++p) left[p] = add(left[p], right[p]);
    pack_tile<Tile, size>(a, left, dtype);
  }
}

/// Each value as it would come back from memory of `dtype`.
template <typename Tile>
__device__ __forceinline__ void round_tile(typename Tile::Values& values, DType dtype) {
  using C = typename Tile::C;
  if constexpr (sizeof(C) == 8) {
    if (dtype != DType::f32) return;
#pragma unroll
    for (int p = 0; p < Tile::pairs; ++p) {
      values[p] = {static_cast<C>(static_cast<float>(values[p].x)),
                   static_cast<C>(static_cast<float>(values[p].y))};
    }
  } else {
    if (dtype == DType::f32) return;
    with_half_format(dtype, [&](auto bf16) {
#pragma unroll
      for (int p = 0; p < Tile::pairs; ++p)
        values[p] = unpack<bf16.value>(pack<bf16.value>(values[p]));
    });
  }
}

/// One number, for arrays that are read or written a column at a time.
template <typename C>
__device__ __forceinline__ C load_as(const void* array, std::int64_t index, DType dtype) {
  if (dtype == DType::f32) return static_cast<const float*>(array)[index];
  if (dtype == DType::bf16)
    return __bfloat162float(static_cast<const __nv_bfloat16*>(array)[index]);
  if (dtype == DType::f16) return __half2float(static_cast<const __half*>(array)[index]);
  return static_cast<C>(static_cast<const double*>(array)[index]);
}
template <typename C>
__device__ __forceinline__ void store_as(void* array, std::int64_t index, C value, DType dtype) {
  if (dtype == DType::f32)
    static_cast<float*>(array)[index] = static_cast<float>(value);
  else if (dtype == DType::bf16)
    static_cast<__nv_bfloat16*>(array)[index] = __float2bfloat16_rn(static_cast<float>(value));
  else if (dtype == DType::f16)
    static_cast<__half*>(array)[index] = __float2half_rn(static_cast<float>(value));
  else
    static_cast<double*>(array)[index] = value;
}

}  // namespace fusednorm::cuda
