// SPDX-License-Identifier: Apache-2.0
// Where the numbers of a row come from: x, or x + residual, whose stored sum is what is normalised;
// and in a backward pass dy and the source. Kernels read rows through these alone.
#pragma once

#include "device/access.cuh"
#include "device/arguments.h"

namespace fusednorm::cuda {

/// Where column `first` of `row` lies.
template <typename Index>
__device__ __forceinline__ std::byte* row_address(const RowArray& array, const RowMap& map,
                                                  std::int64_t row, Index first) {
  return array.data +
         (map.offset(array, row) + static_cast<std::int64_t>(first) * array.element_bytes);
}

/// x + residual, rounded to the residual's dtype and stored; the stored numbers are returned. All
/// of a lane's elements are read before the first is written: sum may be residual or x.
template <typename Tile, typename Index>
__device__ __forceinline__ void load_sum(typename Tile::Values& values, const ForwardArguments& a,
                                         const std::byte* x, std::int64_t row, Index first,
                                         Extent extent) {
  constexpr int size = own_size<Tile>;
  const std::byte* residual = row_address(a.residual, a.map, row, first);
  Words<Tile, size> words, added;
  with_access<Tile, false>(extent, [&](auto access) {
    load_tile_words<Tile, size, access.value>(added, residual, extent);
    if constexpr (size == 4) {
      if (a.x.element_bytes == 2) {
        Words<Tile, 2> halves;
        load_tile_words<Tile, 2, access.value>(halves, x, extent);
        unpack_tile<Tile, 2>(values, halves, a.x.dtype);
        pack_tile<Tile, 4>(words, values, DType::f32);
        return;
      }
    }
    load_tile_words<Tile, size, access.value>(words, x, extent);
  });
  add_words<Tile, size>(words, added, a.row_dtype);
  with_access<Tile, false>(extent, [&](auto access) {
    store_tile_words<Tile, size, access.value>(row_address(a.sum, a.map, row, first), words,
                                               extent);
  });
  unpack_tile<Tile, size>(values, words, a.row_dtype);
}

/// The row that is normalised; `x` is the lane's first column of it. `full` rows are plain.
template <typename Tile, bool full, typename Index>
__device__ __forceinline__ void load_row(typename Tile::Values& values, const ForwardArguments& a,
                                         const std::byte* x, std::int64_t row, Index first,
                                         Extent extent) {
  if constexpr (!full) {
    if (a.residual.data != nullptr) return load_sum<Tile>(values, a, x, row, first, extent);
  }
  load_tile<Tile, full, own_size<Tile>>(values, x, a.row_dtype, extent);
}

/// That row once more, after load_row has been there.
template <typename Tile>
__device__ __forceinline__ void reload_row(typename Tile::Values& values, const ForwardArguments& a,
                                           std::int64_t row, std::int64_t first, Extent extent) {
  const RowArray& stored = a.residual.data != nullptr ? a.sum : a.x;
  load_tile<Tile, false, own_size<Tile>>(values, row_address(stored, a.map, row, first),
                                         a.row_dtype, extent);
}

/// Backward: dy, and x, the stored sum or y. `full` rows are plain.
template <typename Tile, bool full, bool from_y>
__device__ __forceinline__ void load_gradient_and_source(
    typename Tile::Values& gradient, typename Tile::Values& source, const BackwardArguments& a,
    const std::byte* dy, const std::byte* source_row, Extent extent) {
  // All loads are issued before the first number is converted.
  if constexpr (full) {
    constexpr int own = own_size<Tile>;
    Words<Tile, own> dy_words, source_words;
    load_tile_words<Tile, own, Access::whole>(dy_words, dy, extent);
    load_tile_words<Tile, own, Access::whole>(source_words, source_row, extent);
    unpack_tile<Tile, own>(gradient, dy_words, a.row_dtype);
    unpack_tile<Tile, own>(source, source_words, a.row_dtype);
  } else if constexpr (from_y) {
    with_size<Tile>(a.dy.element_bytes, [&](auto size) {
      Words<Tile, size.value> dy_words, source_words;
      with_access<Tile, full>(extent, [&](auto access) {
        load_tile_words<Tile, size.value, access.value>(source_words, source_row, extent);
        load_tile_words<Tile, size.value, access.value>(dy_words, dy, extent);
      });
      unpack_tile<Tile, size.value>(gradient, dy_words, a.dy.dtype);
      unpack_tile<Tile, size.value>(source, source_words, a.dy.dtype);
    });
  } else {
    constexpr int own = own_size<Tile>;
    Words<Tile, own> source_words;
    with_access<Tile, full>(extent, [&](auto access) {
      load_tile_words<Tile, own, access.value>(source_words, source_row, extent);
      with_size<Tile>(a.dy.element_bytes, [&](auto size) {
        Words<Tile, size.value> dy_words;
        load_tile_words<Tile, size.value, access.value>(dy_words, dy, extent);
        unpack_tile<Tile, size.value>(gradient, dy_words, a.dy.dtype);
      });
    });
    unpack_tile<Tile, own>(source, source_words, a.row_dtype);
  }
}

}  // namespace fusednorm::cuda
