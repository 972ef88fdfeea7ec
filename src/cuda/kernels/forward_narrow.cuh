// SPDX-License-Identifier: Apache-2.0
// Forward, rows of one warp or less: the row in registers, a warp for 1 to 32 rows at a time.
// Blocks stay for many rows and keep gamma and beta in registers.
#pragma once

#include "device/forward_ring.cuh"
#include "device/kept.cuh"
#include "device/parameters.cuh"
#include "device/row_moments.cuh"
#include "device/row_output.cuh"
#include "plan/sizes.h"

namespace fusednorm::cuda {

/// Whether a lane of a row of several warps has registers for gamma beside x; if not, gamma and
/// beta are read from shared memory for every row.
template <typename Tile>
inline constexpr bool gamma_fits_forward = Tile::registers <= forward_lane_registers;

/// gamma and beta of a lane's columns in a kernel that stays for many rows.
template <typename Tile, bool keep_gamma, bool keep_beta>
struct ForwardParameters {
  typename Tile::Values gamma, beta;
  Kept<Tile> kept_gamma, kept_beta;
  std::int64_t group;

  __device__ __forceinline__ ForwardParameters(Kept<Tile> in_gamma, Kept<Tile> in_beta)
      : kept_gamma(in_gamma), kept_beta(in_beta) {}

  /// Those of `row`, which may lie past the last.
  __device__ __forceinline__ void load(const ForwardArguments& a, std::int64_t row,
                                       std::int64_t first, Extent extent) {
    group = a.map.group_of(row < a.map.rows ? row : a.map.rows - 1);
    load_parameters<Tile, true>(gamma, a.parameters, group * a.cols + first, extent,
                                [&](const auto& values) {
                                  if constexpr (keep_beta) {
                                    kept_beta.store(values);
                                  } else {
#pragma unroll
                                    for (int p = 0; p < Tile::pairs; ++p) beta[p] = values[p];
                                  }
                                });
    if constexpr (keep_gamma) kept_gamma.store(gamma);
  }

  /// Those of all rows, for the whole block: two warps read a table each, all take both from them.
  __device__ __forceinline__ void load_for_block(const ForwardArguments& a, std::int64_t first,
                                                 Extent extent) {
    group = 0;
    const int warp = threadIdx.x / warp_lanes;
    if (warp < 2) {
      load_table<Tile>(gamma, a.parameters, warp == 0 ? Table::beta : Table::gamma, first, extent);
      Kept<Tile> table = kept_beta;
      if (warp == 1) table.own = kept_gamma.own;
      table.store(gamma);
    }
    __syncthreads();
    if constexpr (!keep_gamma) kept_gamma.load(gamma);
    if constexpr (!keep_beta) kept_beta.load(beta);
  }

  /// Whether every row of the warp still uses them.
  __device__ __forceinline__ bool serve(const ForwardArguments& a, std::int64_t row) const {
    return found_anew(a.map.groups) == 1 ||
           !__any_sync(every_lane, row < a.map.rows && a.map.group_of(row) != group);
  }

  template <bool full>
  __device__ __forceinline__ void store(typename Tile::Values& values, const ForwardArguments& a,
                                        std::byte* y, Extent extent, typename Tile::C rstd,
                                        typename Tile::C shift) const {
    if constexpr (keep_gamma)
      store_y<Tile, full>(values, a, y, extent, kept_gamma, kept_beta, rstd, shift);
    else if constexpr (keep_beta)
      store_y<Tile, full>(values, a, y, extent, gamma, kept_beta, rstd, shift);
    else
      store_y<Tile, full>(values, a, y, extent, gamma, beta, rstd, shift);
  }
};

/// Lanes of a tile whose number of lanes may be known at run time only.
template <typename S, int lanes, int vectors, bool roomy>
using NarrowTile = Tile<S, lanes == 0 ? warp_lanes / 2 : lanes, vectors,
                        lanes == warp_lanes && !roomy ? vectors - 1 : 0, lanes == 0>;

/// `lanes` lanes a row; 0: as many as a.lanes_log2 says, up to 16. A whole warp gets as few vectors
/// as the row needs, so that only the last can be incomplete, unless the kernel is `roomy`.
template <typename S, int lanes_, int vectors, bool roomy>
__global__ void __launch_bounds__(narrow_threads,
                                  narrow_blocks(Tile<S, 32, vectors>::registers, sizeof(S)))
    forward_narrow(const __grid_constant__ ForwardArguments a) {
  using T = NarrowTile<S, lanes_, vectors, roomy>;
  using C = typename T::C;
  constexpr bool keep_gamma = narrow_keeps_gamma(T::registers, sizeof(S)),
                 keep_beta = narrow_keeps_beta(T::registers, sizeof(S));
  extern __shared__ uint4 dynamic_shared[];
  const RowLanes<lanes_> lanes(a.lanes_log2);
  const int cols = static_cast<int>(a.cols), lane = lanes.lane(),
            first = first_column<T>(lane, a.access);
  const Extent every = Extent::of<T>(cols, lanes.count * T::elements, lanes.count, lane, a.access);
  std::int64_t row = static_cast<std::int64_t>(blockIdx.x) *
                         (narrow_threads / warp_lanes * lanes.rows_per_warp()) +
                     lanes.row_in_block();
  ForwardRing<T, false, narrow_spares_registers(T::registers)> ring(a, dynamic_shared, row, first);
  ring.request_first(a, first, every);
  // One row of parameters for the block serves all rows of one group; else each warp has its own.
  const bool for_block = a.map.groups == 1;
  const int place = for_block ? 0 : threadIdx.x / warp_lanes;
  const int places = for_block ? 1 : narrow_threads / warp_lanes;
  uint4* const kept_at = behind_ring<T>(dynamic_shared, a.ring);
  const Kept<T> kept_beta(kept_at, place), kept_gamma(kept_at, places + place);
  ForwardParameters<T, keep_gamma, keep_beta> parameters(kept_gamma, kept_beta);
  const C eps = a.eps.as<C>(), reciprocal = a.reciprocal_cols.as<C>();
  const Pivot<T> pivot(every, lanes);
  std::byte* y = kept(row_address(a.y, a.map, row, first));
  // A warp's lanes stay together: they look at the warp's first and last row, not at their own.
  const int in_warp = lanes.row_in_warp(), last_in_warp = lanes.rows_per_warp() - 1;
  const bool centred = norms::has_mean(a.operation);
  const auto work = [&](auto full, Extent extent) {
    typename T::Values values;
    ring.template take<full.value>(values, a, row, first, extent, every);
    const SegmentMoments<C> moments =
        tile_moments<T, full.value>(values, extent, lanes, a.operation, reciprocal, pivot);
    const C rstd = reciprocal_root(norms::variance_of(moments.squares, reciprocal) + eps);
    if (lane == 0 && (full.value || extent.count > 0)) {
      store_statistics(a, row, moments.centre + moments.rest, rstd);
    }
    parameters.template store<full.value>(values, a, y, extent, rstd,
                                          centred ? -moments.rest * rstd : C(0));
    row += a.row_step;
    y = kept(a.map.even_steps != 0 ? advance(y, a.y.step_bytes)
                                   : row_address(a.y, a.map, row, first));
  };
  do {
    if (for_block)
      parameters.load_for_block(a, first, every);
    else
      parameters.load(a, row, first, every);
    while (row - in_warp < a.map.rows && parameters.serve(a, row)) {
      if (a.whole != 0 && row + (last_in_warp - in_warp) < a.map.rows)
        work(std::true_type(), every);
      else
        work(std::false_type(), lanes_ == warp_lanes || row < a.map.rows ? every : every.none());
    }
  } while (row - in_warp < a.map.rows);
  ring.drain(a);
}

}  // namespace fusednorm::cuda
