// SPDX-License-Identifier: Apache-2.0
// The rows of a parameter group in the order in which a thread of a backward pass takes them,
// requested ahead where there is a ring.
#pragma once

#include "device/prefetch.cuh"
#include "device/row_gradient.cuh"
#include "device/row_ring.cuh"

namespace fusednorm::cuda {

/// `whole`: all rows are aligned, plain and of whole tiles. RowOf: the row of the data that is the
/// thread's index-th of the group; it is asked only where rows are not evenly spaced.
template <typename Tile, bool from_y, bool whole>
struct BackwardRing {
  using C = typename Tile::C;
  using Row = BackwardRow<Tile, from_y>;
  static constexpr bool ringed = rings_exist<Tile, from_y>;
  template <bool full>
  static constexpr bool aligned = full || !skewed_rows<Tile, true>;
  RowRing ring;
  /// Of the first row that was not requested: the first column that the lane copies, or without a
  /// ring reads.
  const std::byte* dy;
  const std::byte* source;  ///< the same
  std::int64_t statistics;  ///< bytes from the first mean, and rstd, to that row's
  std::byte* dx;            ///< of the row that is worked on
  int taken = 0;            ///< rows of the group; as many more as there are stages were requested

  __device__ __forceinline__ BackwardRing(const BackwardArguments& a, const uint4* shared)
      : ring(a.ring, shared) {}

  __device__ __forceinline__ void move_inputs(const BackwardArguments& a, std::int64_t row,
                                              std::int64_t first) {
    if constexpr (ringed && !aligned<whole>) {
      if (a.ring.stages != 0) first = copied_column<Tile>(first, a.access);
    }
    dy = kept(static_cast<const std::byte*>(row_address(a.dy, a.map, row, first)));
    source = kept(static_cast<const std::byte*>(row_address(a.source, a.map, row, first)));
    statistics = row * static_cast<int>(sizeof(C));
  }

  /// To a group of which this thread has `count` rows; `first` is the lane's first column.
  template <typename RowOf>
  __device__ __forceinline__ void begin(const BackwardArguments& a, int count, const RowOf& row_of,
                                        std::int64_t first, Extent every) {
    taken = 0;
    move_inputs(a, row_of(0), first);
    dx = kept(row_address(a.dx, a.map, row_of(0), first));
    if constexpr (ringed) {
      drain(a);
#pragma unroll 1
      for (int stage = 0; stage < a.ring.stages; ++stage)
        request(a, stage, count, row_of, first, every);
    }
  }

  template <typename RowOf>
  __device__ __forceinline__ void advance_inputs(const BackwardArguments& a, const RowOf& row_of,
                                                 int to, std::int64_t first) {
    if (a.map.even_steps == 0) return move_inputs(a, row_of(to), first);
    dy = kept(advance(dy, a.dy.step_bytes));
    source = kept(advance(source, a.source.step_bytes));
    statistics += a.statistics_step;
  }

  /// The `next`-th row of the group.
  template <typename RowOf>
  __device__ __forceinline__ void request(const BackwardArguments& a, int next, int count,
                                          const RowOf& row_of, std::int64_t first, Extent every) {
    const auto row = [&] { return row_of(next); };
    const bool exists = next < count;
    if (Tile::lanes != warp_lanes || exists) {  // all lanes of a warp have a row, or none
      const Extent extent = exists ? every : every.none();
      if (aligned<whole> || every.access == Access::vectors) {
        request_gradient_and_source<Tile, whole, from_y, false>(
            ring.slot, a, dy, source, statistics, row, first, extent, exists);
      } else {
        __syncwarp();  // other lanes have read what the slot held
        request_gradient_and_source<Tile, false, from_y, true>(
            ring.slot, a, dy, source, statistics, row, copied_column<Tile>(first, every.access),
            extent, exists);
      }
    }
    RowRing::requested();
    ring.next(a.ring);
    advance_inputs(a, row_of, next + 1, first);
  }

  /// Whether a row's slot is given to another as soon as the row was taken from it. Not while ds is
  /// still to be read from it; and rows that start anywhere need more registers to be requested
  /// than there are before dx is stored.
  template <bool full>
  __device__ __forceinline__ bool requests_at_once(const BackwardArguments& a) const {
    return full || (a.ds.data == nullptr && (aligned<full> || a.access == Access::vectors));
  }

  /// The row whose time has come. `count`: the rows of the thread, or those that may be prefetched.
  template <bool full, typename RowOf>
  __device__ __forceinline__ void take(Row& here, const BackwardArguments& a, int count,
                                       const RowOf& row_of, std::int64_t first, Extent extent,
                                       bool exists, Extent every) {
    if constexpr (ringed) {
      if (a.ring.stages != 0) {
        RowRing::wait(a.ring);
        here.template load<full>(a, FromSlot<Tile, aligned<full>>{ring.slot, extent.access});
        if (requests_at_once<full>(a))
          request(a, taken + a.ring.stages, count, row_of, first, every.aligned());
        return;
      }
    }
    const int next = taken + 1;
    if (prefetches_backward<Tile, from_y> && next < count && a.map.even_steps != 0)
      prefetch_next<full>(a, row_of, next, first, every);
    here.template load<full>(a, dy, source, statistics, extent, exists);
    if constexpr (ringed) advance_inputs(a, row_of, next, first);
  }

  /// The row after the one that `dy` and `source` point to, the `next`-th of the group.
  template <bool full, typename RowOf>
  __device__ __forceinline__ void prefetch_next(const BackwardArguments& a, const RowOf& row_of,
                                                int next, std::int64_t first, Extent every) const {
    const int left = static_cast<int>(a.cols) - static_cast<int>(first);
    const int dy_bytes = full ? own_size<Tile> : a.dy.element_bytes;
    prefetch_row<Tile>(advance(dy, a.dy.step_bytes), dy_bytes, left, every);
    prefetch_row<Tile>(advance(source, a.source.step_bytes), from_y ? dy_bytes : own_size<Tile>,
                       left, every);
    if constexpr (!full) {
      if (a.ds.data != nullptr) {
        prefetch_tile<Tile, own_size<Tile>>(row_address(a.ds, a.map, row_of(next), first), left,
                                            every);
      }
    }
  }

  /// Writes the row's gradient, where it is wanted.
  template <bool full, typename RowOf>
  __device__ __forceinline__ void finish(Row& here, const BackwardArguments& a, const RowOf& row_of,
                                         std::int64_t first, Extent extent, typename Row::Sums sums,
                                         C reciprocal_cols) const {
    const auto row = [&] { return row_of(taken); };
    if constexpr (full || !ringed) {
      here.template store<full>(a, FromMemory<Tile, full>{extent}, dx, extent, sums,
                                reciprocal_cols, row, first);
    } else {
      const bool in_slot = a.ring.stages != 0 && a.ds.data != nullptr;
      here.template store<full>(a,
                                FromEither<Tile, full, aligned<full>>{extent, ring.slot, in_slot},
                                dx, extent, sums, reciprocal_cols, row, first);
    }
  }

  /// To the next row; the slot of this one, if it still has it, is given to another.
  template <bool full, typename RowOf>
  __device__ __forceinline__ void move_on(const BackwardArguments& a, int count,
                                          const RowOf& row_of, std::int64_t first, Extent every) {
    if constexpr (ringed) {
      if (a.ring.stages != 0 && !requests_at_once<full>(a)) {
        request(a, taken + a.ring.stages, count, row_of, first, every);
      }
    }
    ++taken;
    if constexpr (!ringed) advance_inputs(a, row_of, taken, first);
    dx = kept(a.map.even_steps != 0 ? advance(dx, a.dx.step_bytes)
                                    : row_address(a.dx, a.map, row_of(taken), first));
  }

  /// Before a group begins, and at the end of a kernel.
  __device__ __forceinline__ void drain(const BackwardArguments& a) const {
    if constexpr (ringed && Tile::lanes != warp_lanes) RowRing::drain(a.ring);
  }
};

}  // namespace fusednorm::cuda
