// SPDX-License-Identifier: Apache-2.0
// The rows of a forward pass in the order in which a thread takes them, requested ahead where there
// is a ring; on sm_75, which has none, narrow rows are loaded ahead to registers.
#pragma once

#include "device/prefetch.cuh"
#include "device/row_input.cuh"
#include "device/row_ring.cuh"

namespace fusednorm::cuda {

/// The row after the one that is worked on, as it was stored.
template <typename Tile, bool exists>
struct NextRow {};
template <typename Tile>
struct NextRow<Tile, true> {
  Words<Tile, own_size<Tile>> words;
};

/// `whole`: all rows of the kernel are aligned, plain and of whole tiles. `spare`: there are
/// registers for a second row, as it was stored.
template <typename Tile, bool whole, bool spare>
struct ForwardRing {
  template <bool full>
  static constexpr bool aligned = full || !skewed_rows<Tile, false>;
  static constexpr bool in_registers = spare && !copies_exist && sizeof(typename Tile::Storage) < 8;
  RowRing ring;
  std::int64_t row;    ///< the first that was not requested
  const std::byte* x;  ///< the first column of it that the lane copies, or without a ring reads
  NextRow<Tile, in_registers> next;

  template <typename Index>
  __device__ __forceinline__ ForwardRing(const ForwardArguments& a, const uint4* shared,
                                         std::int64_t first_row, Index first)
      : ring(a.ring, shared),
        row(first_row),
        x(kept(
            static_cast<const std::byte*>(row_address(a.x, a.map, first_row, column(a, first))))) {}

  template <typename Index>
  static __device__ __forceinline__ Index column(const ForwardArguments& a, Index first) {
    if constexpr (rings_exist<Tile> && !aligned<whole>) {
      if (a.ring.stages != 0) return copied_column<Tile>(first, a.access);
    }
    return first;
  }

  template <typename Index>
  __device__ __forceinline__ void advance_row(const ForwardArguments& a, Index first) {
    row += a.row_step;
    x = kept(a.map.even_steps != 0
                 ? advance(x, a.x.step_bytes)
                 : static_cast<const std::byte*>(row_address(a.x, a.map, row, column(a, first))));
  }

  template <typename Index>
  __device__ __forceinline__ void request(const ForwardArguments& a, Index first, Extent every) {
    // All lanes of a warp, or only some: then the others copy nothing.
    const bool exists = row < a.map.rows;
    if (Tile::lanes != warp_lanes || exists) {
      const Extent extent = exists ? every : every.none();
      if (aligned<whole> || every.access == Access::vectors) {
        request_row<Tile, whole, false>(ring.slot, a, x, row, first, extent);
      } else {
        __syncwarp();  // other lanes have read what the slot held
        request_row<Tile, false, true>(ring.slot, a, x, row,
                                       copied_column<Tile>(first, every.access), extent);
      }
    }
    RowRing::requested();
    ring.next(a.ring);
    advance_row(a, first);
  }

  /// Whether rows are loaded ahead to registers: plain ones in whole vectors, of a whole warp also
  /// whole ones, for which the kernel has a loop of its own.
  __device__ __forceinline__ bool loads_ahead(const ForwardArguments& a, Extent every) const {
    return every.access == Access::vectors && a.residual.data == nullptr &&
           (Tile::lanes != warp_lanes || a.whole != 0);
  }

  /// Starts loading the first row that was not requested, if it exists.
  template <typename Index>
  __device__ __forceinline__ void load_ahead(const ForwardArguments& a, Index first, Extent every) {
    const bool exists = row < a.map.rows;
    if (Tile::lanes != warp_lanes || exists) {  // all lanes of a warp have a row, or none
      load_tile_words<Tile, own_size<Tile>, Access::vectors>(next.words, x,
                                                             exists ? every : every.none());
    }
    advance_row(a, first);
  }

  /// Fills the ring.
  template <typename Index>
  __device__ __forceinline__ void request_first(const ForwardArguments& a, Index first,
                                                Extent every) {
    if constexpr (rings_exist<Tile>) {
#pragma unroll 1
      for (int stage = 0; stage < a.ring.stages; ++stage) request(a, first, every);
    } else if constexpr (in_registers) {
      if (loads_ahead(a, every)) load_ahead(a, first, every);
    }
  }

  /// The row whose time has come; its slot is given to the first that was not requested. `every`
  /// is what a row has that exists.
  template <bool full, typename Index>
  __device__ __forceinline__ void take(typename Tile::Values& values, const ForwardArguments& a,
                                       std::int64_t now, Index first, Extent extent, Extent every) {
    if constexpr (rings_exist<Tile>) {
      if (a.ring.stages != 0) {
        RowRing::wait(a.ring);
        const auto where = [&](auto) { return requested_from(a, now, first); };
        load_row<Tile, full>(values, FromSlot<Tile, aligned<full>>{ring.slot, extent.access}, a,
                             where, now, first, extent);
        return request(a, first, full ? every.aligned() : every);
      }
    }
    if constexpr (in_registers && (full || Tile::lanes != warp_lanes)) {
      if (full || loads_ahead(a, every)) {
        unpack_tile<Tile, own_size<Tile>>(values, next.words, a.row_dtype);
        return load_ahead(a, first, every);
      }
    }
    prefetch_next<full>(a, now + a.row_step, first, every);
    load_row<Tile, full>(
        values, FromMemory<Tile, full>{extent}, a, [&](auto) { return x; }, now, first, extent);
    advance_row(a, first);
  }

  /// What the lane copied of the row `now`: `x` has moved on by the rows of the ring.
  template <typename Index>
  __device__ __forceinline__ const std::byte* requested_from(const ForwardArguments& a,
                                                             std::int64_t now, Index first) const {
    return a.map.even_steps != 0
               ? advance(x, -static_cast<std::int64_t>(a.ring.stages) * a.x.step_bytes)
               : row_address(a.x, a.map, now, copied_column<Tile>(first, a.access));
  }

  /// The row after the one that `x` points to.
  template <bool full, typename Index>
  __device__ __forceinline__ void prefetch_next(const ForwardArguments& a, std::int64_t next,
                                                Index first, Extent every) const {
    if (!prefetches_forward<Tile> || a.map.even_steps == 0 || next >= a.map.rows) return;
    const int left = static_cast<int>(a.cols) - static_cast<int>(first);
    prefetch_row<Tile>(advance(x, a.x.step_bytes), full ? own_size<Tile> : a.x.element_bytes, left,
                       every);
    if constexpr (!full) {
      if (a.residual.data != nullptr) {
        prefetch_tile<Tile, own_size<Tile>>(row_address(a.residual, a.map, next, first), left,
                                            every);
      }
    }
  }

  /// At the end of a kernel.
  __device__ __forceinline__ void drain(const ForwardArguments& a) const {
    if constexpr (rings_exist<Tile> && Tile::lanes != warp_lanes) RowRing::drain(a.ring);
  }
};

}  // namespace fusednorm::cuda
