// SPDX-License-Identifier: Apache-2.0
// Where the numbers of a row come from: x, or x + residual, whose stored sum is what is normalised;
// and in a backward pass dy and the source. Kernels read rows through these alone.
#pragma once

#include "device/slots.cuh"

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
template <typename Tile, typename From, typename Where, typename Index>
__device__ __forceinline__ void load_sum(typename Tile::Values& values, const From& from,
                                         const ForwardArguments& a, const Where& x,
                                         std::int64_t row, Index first, Extent extent) {
  constexpr int size = own_size<Tile>;
  Words<Tile, size> words, added;
  const auto residual = [&](auto copied) {
    return row_address(a.residual, a.map, row,
                       copied ? copied_column<Tile>(first, extent.access) : first);
  };
  from.template load<size>(added, residual, planes_of<Tile>(a.x.element_bytes));
  bool loaded = false;
  if constexpr (size == 4) {
    if (a.x.element_bytes == 2) {
      Words<Tile, 2> halves;
      from.template load<2>(halves, x, 0);
      unpack_tile<Tile, 2>(values, halves, a.x.dtype);
      pack_tile<Tile, 4>(words, values, DType::f32);
      loaded = true;
    }
  }
  if (!loaded) from.template load<size>(words, x, 0);
  add_words<Tile, size>(words, added, a.row_dtype);
  with_access<Tile, false>(extent, [&](auto access) {
    store_tile_words<Tile, size, access.value>(row_address(a.sum, a.map, row, first), words,
                                               extent);
  });
  unpack_tile<Tile, size>(values, words, a.row_dtype);
}

/// The row that is normalised; `x(copied)` is where it lies, as FromMemory says. `full` rows are
/// plain.
template <typename Tile, bool full, typename From, typename Where, typename Index>
__device__ __forceinline__ void load_row(typename Tile::Values& values, const From& from,
                                         const ForwardArguments& a, const Where& x,
                                         std::int64_t row, Index first, Extent extent) {
  constexpr int size = own_size<Tile>;
  if constexpr (!full) {
    if (a.residual.data != nullptr) return load_sum<Tile>(values, from, a, x, row, first, extent);
  }
  Words<Tile, size> words;
  from.template load<size>(words, x, 0);
  unpack_tile<Tile, size>(values, words, a.row_dtype);
}

/// Starts copying that row to a slot; the lane copies from column `copied` on. `skewed`: the row
/// may start anywhere.
template <typename Tile, bool full, bool skewed, typename Index>
__device__ __forceinline__ void request_row(unsigned slot, const ForwardArguments& a,
                                            const std::byte* x, std::int64_t row, Index copied,
                                            Extent extent) {
  constexpr int size = own_size<Tile>;
  const int left = columns_left<Tile>(a.cols, copied, extent);
  if constexpr (!full) {
    if (a.residual.data != nullptr) {
      copy_part<Tile, size, false, skewed>(slot, planes_of<Tile>(a.x.element_bytes),
                                           row_address(a.residual, a.map, row, copied), left,
                                           extent);
      if constexpr (size == 4) {
        if (a.x.element_bytes == 2)
          return copy_part<Tile, 2, false, skewed>(slot, 0, x, left, extent);
      }
    }
  }
  copy_part<Tile, size, full, skewed>(slot, 0, x, left, extent);
}

/// That row once more, after load_row has been there.
template <typename Tile>
__device__ __forceinline__ void reload_row(typename Tile::Values& values, const ForwardArguments& a,
                                           std::int64_t row, std::int64_t first, Extent extent) {
  const RowArray& stored = a.residual.data != nullptr ? a.sum : a.x;
  load_tile<Tile, false, own_size<Tile>>(values, row_address(stored, a.map, row, first),
                                         a.row_dtype, extent);
}

/// What lies in a slot of a backward pass: mean and rstd in the first piece, and in rows that start
/// anywhere the origins of dy and the source; dy, the source, ds.
template <typename Tile, bool from_y>
struct BackwardSlot {
  static constexpr int dy_origin = 2 * sizeof(typename Tile::C);
  static constexpr int source_origin = dy_origin + 4;
  static constexpr int dy = 1;
  static __device__ __forceinline__ int source(const BackwardArguments& a) {
    return dy + planes_of<Tile>(a.dy.element_bytes);
  }
  static __device__ __forceinline__ int ds(const BackwardArguments& a) {
    return source(a) + (from_y ? planes_of<Tile>(a.dy.element_bytes) : Tile::vectors);
  }
};

/// dy, and x, the stored sum or y. `full` rows are plain. Only y, and so dy, may have another dtype
/// than the row that was normalised.
template <typename Tile, bool full, bool from_y, typename From, typename Where,
          typename SourceWhere>
__device__ __forceinline__ void load_gradient_and_source(
    typename Tile::Values& gradient, typename Tile::Values& source, const From& from,
    const BackwardArguments& a, const Where& dy, const SourceWhere& source_row) {
  constexpr int own = own_size<Tile>;
  using Slot = BackwardSlot<Tile, from_y>;
  // All loads are issued before the first number is converted.
  const auto load_both = [&](auto dy_size) {
    constexpr int size = dy_size.value, source_size = from_y ? size : own;
    Words<Tile, size> dy_words;
    Words<Tile, source_size> source_words;
    from.template load_two<source_size, size>(source_words, source_row,
                                              Slot::dy + Tile::vectors * vector_planes<Tile, size>,
                                              dy_words, dy, Slot::dy);
    unpack_tile<Tile, size>(gradient, dy_words, full ? a.row_dtype : a.dy.dtype);
    unpack_tile<Tile, source_size>(source, source_words,
                                   full || !from_y ? a.row_dtype : a.dy.dtype);
  };
  if constexpr (full)
    load_both(std::integral_constant<int, own>());
  else
    with_size<Tile>(a.dy.element_bytes, load_both);
}

/// Starts copying them to a slot, ds, where there is one, and the row's statistics, which lie
/// `statistics` bytes into their arrays; the lane copies from column `copied` on. `skewed`: the
/// rows may start anywhere.
template <typename Tile, bool full, bool from_y, bool skewed, typename Row, typename Index>
__device__ __forceinline__ void request_gradient_and_source(
    unsigned slot, const BackwardArguments& a, const std::byte* dy, const std::byte* source_row,
    std::int64_t statistics, const Row& row_of, Index copied, Extent extent, bool exists) {
  using C = typename Tile::C;
  using Slot = BackwardSlot<Tile, from_y>;
  constexpr int own = own_size<Tile>, number = sizeof(C);
  const int left = columns_left<Tile>(a.cols, copied, extent);
  const auto copy_both = [&](auto dy_size) {
    constexpr int size = dy_size.value, source_size = from_y ? size : own;
    copy_part<Tile, size, full, skewed>(slot, Slot::dy, dy, left, extent);
    copy_part<Tile, source_size, full, skewed>(
        slot, Slot::dy + Tile::vectors * vector_planes<Tile, size>, source_row, left, extent);
  };
  if constexpr (full) {
    copy_both(std::integral_constant<int, own>());
  } else {
    with_size<Tile>(a.dy.element_bytes, copy_both);
    if (a.ds.data != nullptr) {
      copy_part<Tile, own, false, skewed>(slot, Slot::ds(a),
                                          row_address(a.ds, a.map, row_of(), copied), left, extent);
    }
  }
  if constexpr (skewed) {
    store_origin(slot + Slot::dy_origin, dy);
    store_origin(slot + Slot::source_origin, source_row);
  }
  const int there = exists ? number : 0;
  copy_async<number, 0, 0>(slot, advance(static_cast<const C*>(a.rstd), statistics), there);
  if (a.mean != nullptr) {
    copy_async<number, number, 0>(slot, advance(static_cast<const C*>(a.mean), statistics), there);
  }
}

}  // namespace fusednorm::cuda
