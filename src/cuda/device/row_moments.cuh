// SPDX-License-Identifier: Apache-2.0
// The moments of a lane group's part of a row.
#pragma once

#include "device/segments.cuh"
#include "device/tile.cuh"
#include "norms/norm.h"

namespace fusednorm::cuda {

/// Sums of x - centre and of its square, over a tile whose values are that far from the centre.
template <typename Tile, bool full, typename Lanes>
__device__ __forceinline__ void sum_deviations(const typename Tile::Values& values, Extent extent,
                                               const Lanes& lanes, typename Tile::C* rest,
                                               typename Tile::C* square) {
  auto rests = values[0];
  auto squares = mul(values[0], values[0]);
  each_pair<Tile, full>(extent, [&](int p) {
    if (p == 0) return;
    rests = add(rests, values[p]);
    squares = multiply_add(values[p], values[p], squares);
  });
  *rest = sum_of(rests);
  *square = sum_of(squares);
  lanes.sum_both(*rest, *square);
}

/// Mean and squared deviations of a tile: one pass about a pivot, the mean of every lane's first
/// element. Where that turns out further from the mean than the spread, squares about it would
/// cancel, and a second pass about the mean itself follows; for f64 always. Leaves x - centre in
/// `values`; `rest` is what the mean is from the centre. Never a difference of large sums, never
/// E[x^2] - E[x]^2: docs/derivation.md. A norm without a mean has 0 for its centre, and one pass.
template <typename Tile, bool full, typename Lanes>
__device__ __forceinline__ SegmentMoments<typename Tile::C> tile_moments(
    typename Tile::Values& values, Extent extent, const Lanes& lanes, Operation operation,
    typename Tile::C reciprocal_count, typename Tile::C reciprocal_lanes) {
  using C = typename Tile::C;
  const auto move = [&](C by) {
    each_pair_cleared<Tile, full>(values, extent,
                                  [&](int p) { values[p] = add(values[p], both(-by)); });
  };
  C centre = 0, rest, square;
  if (norms::has_mean(operation)) {
    centre = lanes.sum(values[0].x) * reciprocal_lanes;
    move(centre);
  }
  sum_deviations<Tile, full>(values, extent, lanes, &rest, &square);
  norms::Moments<C> about = norms::moments(operation, rest, square, reciprocal_count);
  const bool again = std::is_same_v<C, double> ? norms::has_mean(operation) && isfinite(about.mean)
                                               : rest * about.mean > about.squares;
  if (again) {
    const C moved = centre + about.mean;
    move(moved - centre);  // what the centre really moves by: nothing is lost to its rounding
    centre = moved;
    sum_deviations<Tile, full>(values, extent, lanes, &rest, &square);
    about = norms::moments(operation, rest, square, reciprocal_count);
  }
  return {centre, about.mean, about.squares < 0 ? C(0) : about.squares, C(0)};
}

/// 1 / the number of lanes whose first column exists.
template <typename Tile>
__device__ __forceinline__ typename Tile::C lane_share(int cols, int lanes) {
  using C = typename Tile::C;
  if (Tile::always > 0) return C(1) / Tile::lanes;
  if (cols >= lanes * Tile::vector) return C(1) / static_cast<C>(lanes);
  return C(1) / static_cast<C>(cols > Tile::vector ? (cols + Tile::vector - 1) / Tile::vector : 1);
}

}  // namespace fusednorm::cuda
