// SPDX-License-Identifier: Apache-2.0
// A row, or a segment of one, between memory and registers: 16 bytes an access where rows allow it,
// else an element. Only the size of an element matters here.
#pragma once

#include "device/elements.cuh"

namespace fusednorm::cuda {

/// Words at base + offset, 16 bytes an access; the offset is an immediate, which the intrinsics
/// would not make of it. No access has a cache hint: y and dx are read by whoever comes next, and
/// of what is larger than the L2 nothing would stay anyway.
template <int count, int offset, typename Word>
__device__ __forceinline__ void load_words(Word* to, const std::byte* base) {
  const std::size_t place = __cvta_generic_to_global(base);
  constexpr int most = vector_bytes / static_cast<int>(sizeof(Word));
  if constexpr (count > most) {
    load_words<most, offset>(to, base);
    load_words<count - most, offset + vector_bytes>(to + most, base);
  } else if constexpr (std::is_same_v<Word, double>) {
    static_assert(count == 2);
    asm volatile("ld.global.v2.f64 {%0, %1}, [%2 + %3];"
                 : "=d"(to[0]), "=d"(to[1])
                 : "l"(place), "n"(offset));
  } else if constexpr (std::is_same_v<Word, float> && count == 4) {
    asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4 + %5];"
                 : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                 : "l"(place), "n"(offset));
  } else if constexpr (std::is_same_v<Word, float>) {
    asm volatile("ld.global.v2.f32 {%0, %1}, [%2 + %3];"
                 : "=f"(to[0]), "=f"(to[1])
                 : "l"(place), "n"(offset));
  } else if constexpr (count == 4) {
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4 + %5];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "l"(place), "n"(offset));
  } else {
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2 + %3];"
                 : "=r"(to[0]), "=r"(to[1])
                 : "l"(place), "n"(offset));
  }
}

template <int count, int offset, typename Word>
__device__ __forceinline__ void store_words(std::byte* base, const Word* from) {
  const std::size_t place = __cvta_generic_to_global(base);
  constexpr int most = vector_bytes / static_cast<int>(sizeof(Word));
  if constexpr (count > most) {
    store_words<most, offset>(base, from);
    store_words<count - most, offset + vector_bytes>(base, from + most);
  } else if constexpr (std::is_same_v<Word, double>) {
    static_assert(count == 2);
    asm volatile("st.global.v2.f64 [%0 + %1], {%2, %3};" ::"l"(place), "n"(offset), "d"(from[0]),
                 "d"(from[1])
                 : "memory");
  } else if constexpr (std::is_same_v<Word, float> && count == 4) {
    asm volatile("st.global.v4.f32 [%0 + %1], {%2, %3, %4, %5};" ::"l"(place), "n"(offset),
                 "f"(from[0]), "f"(from[1]), "f"(from[2]), "f"(from[3])
                 : "memory");
  } else if constexpr (std::is_same_v<Word, float>) {
    asm volatile("st.global.v2.f32 [%0 + %1], {%2, %3};" ::"l"(place), "n"(offset), "f"(from[0]),
                 "f"(from[1])
                 : "memory");
  } else if constexpr (count == 4) {
    asm volatile("st.global.v4.u32 [%0 + %1], {%2, %3, %4, %5};" ::"l"(place), "n"(offset),
                 "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
                 : "memory");
  } else {
    asm volatile("st.global.v2.u32 [%0 + %1], {%2, %3};" ::"l"(place), "n"(offset), "r"(from[0]),
                 "r"(from[1])
                 : "memory");
  }
}

/// Two elements, an access each, the second `apart` bytes behind the first; zero, or nothing, for
/// those that do not exist.
template <int size>
__device__ __forceinline__ void load_pair(Word<size>* to, const std::byte* at, int apart,
                                          bool first, bool second) {
  using Element = std::conditional_t<size == 2, std::uint16_t, Word<size>>;
  const auto* one = reinterpret_cast<const Element*>(at);
  const auto* other = reinterpret_cast<const Element*>(at + apart);
  if constexpr (size == 2) {
    std::uint32_t low = 0, high = 0;
    if (first) low = *one;
    if (second) high = *other;
    to[0] = low | high << 16;
  } else {
    to[0] = to[1] = 0;
    if (first) to[0] = *one;
    if (second) to[1] = *other;
  }
}
template <int size>
__device__ __forceinline__ void store_pair(std::byte* at, int apart, const Word<size>* from,
                                           bool first, bool second) {
  using Element = std::conditional_t<size == 2, std::uint16_t, Word<size>>;
  auto* one = reinterpret_cast<Element*>(at);
  auto* other = reinterpret_cast<Element*>(at + apart);
  if constexpr (size == 2) {
    if (first) *one = static_cast<std::uint16_t>(from[0]);
    if (second) *other = static_cast<std::uint16_t>(from[0] >> 16);
  } else {
    if (first) *one = from[0];
    if (second) *other = from[1];
  }
}

/// body(k, at, offset) for each of a lane's vectors: vector k lies at `at`, a pointer, and a
/// constant number of bytes further.
template <typename Tile, int size, typename Bytes, typename Body>
__device__ __forceinline__ void each_vector(Bytes* from, Extent extent, const Body& body) {
  if constexpr (Tile::spread && Tile::vectors > 1) {
    // The distance is made anew each time, by one instruction: it would take two registers.
    each<Tile::vectors>([&](auto k) {
      body(k, from, std::integral_constant<int, 0>());
      from = advance(from, std::int64_t{kept(extent.pitch)} * size);
    });
  } else {
    each<Tile::vectors>([&](auto k) {
      body(k, from, std::integral_constant<int, k.value * Tile::pitch * size>());
    });
  }
}

/// all(k, at, offset) for each vector that exists, part(k, at, left) where `left` elements of it
/// do, which only interleaved rows have, none(k) where none does.
template <typename Tile, int size, Access access, typename Bytes, typename All, typename Part,
          typename None>
__device__ __forceinline__ void each_of_row(Bytes* from, Extent extent, const All& all,
                                            const Part& part, const None& none) {
  each_vector<Tile, size>(from, extent, [&](auto k, Bytes* at, auto offset) {
    if constexpr (k.value < Tile::always) {
      all(k, at, offset);
    } else {
      const int left = extent.left<Tile>(k.value);
      if (left > 0) {
        // Loads of whole vectors have no branch around each, as those of parts may: worth two ways.
        if (access != Access::interleaved || left >= Tile::vector)
          all(k, at, offset);
        else
          part(k, at + offset.value, left);
      } else {
        none(k);
      }
    }
  });
}

template <Access access>
using AccessAs = std::integral_constant<Access, access>;

/// body(AccessAs<…>()), for what the row allows.
template <typename Tile, bool full, typename Body>
__device__ __forceinline__ void with_access(Extent extent, const Body& body) {
  if constexpr (full) {
    body(AccessAs<Access::whole>());
  } else if (extent.access == Access::interleaved) {
    body(AccessAs<Access::interleaved>());
  } else if (extent.access == Access::elements) {
    body(AccessAs<Access::elements>());
  } else if (!Tile::last_only && extent.complete) {
    body(AccessAs<Access::whole>());
  } else {
    body(AccessAs<Access::vectors>());
  }
}

/// Bytes from one element of a vector to its next.
template <typename Tile, int size, Access access>
inline constexpr int bytes_apart = access == Access::interleaved ? Tile::apart* size : size;

/// A lane's part of a tile from memory; `from` is the lane's first column. Columns that do not
/// exist are zero.
template <typename Tile, int size, Access access>
__device__ __forceinline__ void load_tile_words(Words<Tile, size>& words, const std::byte* from,
                                                Extent extent) {
  constexpr int vector = Tile::vector, in_pair = pair_words<size>,
                vector_words = vector / 2 * in_pair;
  constexpr int apart = bytes_apart<Tile, size, access>;
  const auto whole = [&](auto k, const std::byte* at, auto offset) {
    load_words<vector_words, offset.value>(words + k.value * vector_words, at);
  };
  const auto one_by_one = [&](auto k, const std::byte* at, auto offset) {
#pragma unroll
    for (int j = 0; j < vector; j += 2) {
      load_pair<size>(words + k.value * vector_words + j / 2 * in_pair,
                      at + offset.value + j * apart, apart, true, true);
    }
  };
  const auto part = [&](auto k, const std::byte* at, int left) {
#pragma unroll
    for (int j = 0; j < vector; j += 2) {
      load_pair<size>(words + k.value * vector_words + j / 2 * in_pair, at + j * apart, apart,
                      j < left, j + 1 < left);
    }
  };
  const auto none = [&](auto k) {
#pragma unroll
    for (int w = 0; w < vector_words; ++w) words[k.value * vector_words + w] = 0;
  };
  if constexpr (access == Access::whole)
    each_vector<Tile, size>(from, extent, whole);
  else if constexpr (access == Access::vectors)
    each_of_row<Tile, size, access>(from, extent, whole, part, none);
  else
    each_of_row<Tile, size, access>(from, extent, one_by_one, part, none);
}

template <typename Tile, int size, Access access>
__device__ __forceinline__ void store_tile_words(std::byte* to, const Words<Tile, size>& words,
                                                 Extent extent) {
  constexpr int vector = Tile::vector, in_pair = pair_words<size>,
                vector_words = vector / 2 * in_pair;
  constexpr int apart = bytes_apart<Tile, size, access>;
  const auto whole = [&](auto k, std::byte* at, auto offset) {
    store_words<vector_words, offset.value>(at, words + k.value * vector_words);
  };
  const auto one_by_one = [&](auto k, std::byte* at, auto offset) {
#pragma unroll
    for (int j = 0; j < vector; j += 2) {
      store_pair<size>(at + offset.value + j * apart, apart,
                       words + k.value * vector_words + j / 2 * in_pair, true, true);
    }
  };
  const auto part = [&](auto k, std::byte* at, int left) {
#pragma unroll
    for (int j = 0; j < vector; j += 2) {
      store_pair<size>(at + j * apart, apart, words + k.value * vector_words + j / 2 * in_pair,
                       j < left, j + 1 < left);
    }
  };
  const auto none = [](auto) {};
  if constexpr (access == Access::whole)
    each_vector<Tile, size>(to, extent, whole);
  else if constexpr (access == Access::vectors)
    each_of_row<Tile, size, access>(to, extent, whole, part, none);
  else
    each_of_row<Tile, size, access>(to, extent, one_by_one, part, none);
}

/// The same with conversion.
template <typename Tile, bool full, int size>
__device__ __forceinline__ void load_tile(typename Tile::Values& values, const std::byte* from,
                                          DType dtype, Extent extent) {
  Words<Tile, size> words;
  with_access<Tile, full>(
      extent, [&](auto access) { load_tile_words<Tile, size, access.value>(words, from, extent); });
  unpack_tile<Tile, size>(values, words, dtype);
}
template <typename Tile, bool full, int size>
__device__ __forceinline__ void store_tile(std::byte* to, const typename Tile::Values& values,
                                           DType dtype, Extent extent) {
  Words<Tile, size> words;
  pack_tile<Tile, size>(words, values, dtype);
  with_access<Tile, full>(
      extent, [&](auto access) { store_tile_words<Tile, size, access.value>(to, words, extent); });
}

}  // namespace fusednorm::cuda
