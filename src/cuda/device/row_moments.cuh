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

/// The sum of squares of such a tile: what sum_deviations makes of `square`, to the bit.
template <typename Tile, bool full, typename Lanes>
__device__ __forceinline__ typename Tile::C sum_squares(const typename Tile::Values& values,
                                                        Extent extent, const Lanes& lanes) {
  auto squares = mul(values[0], values[0]);
  each_pair<Tile, full>(extent, [&](int p) {
    if (p > 0) squares = multiply_add(values[p], values[p], squares);
  });
  return lanes.sum(sum_of(squares));
}

/// The pivot of a row, or of a segment: the mean of up to 8 elements of its first lane, for one
/// shuffle is enough then.
template <typename Tile>
struct Pivot {
  using C = typename Tile::C;
  static constexpr int pairs = Tile::pairs < 4 ? Tile::pairs : 4;
  C reciprocal_samples = C(1) / (2 * pairs);

  /// Where all of them exist, as in rows of several warps; or, of f64, nearly all: there a second
  /// pass about the mean follows anyway.
  Pivot() = default;
  /// `every` is the lane's extent in a row that exists.
  template <typename Lanes>
  __device__ __forceinline__ Pivot(Extent every, const Lanes& lanes) {
    int samples = 0;
#pragma unroll
    for (int k = 0; k * Tile::vector < 2 * pairs; ++k) {
      const int most = min(Tile::vector, 2 * pairs - k * Tile::vector);
      samples += max(0, min(every.left<Tile>(k), most));
    }
    reciprocal_samples = C(1) / static_cast<C>(max(1, lanes.of_first(samples)));
  }

  /// Summed in parts of the mean, so that no row overflows here that has a mean; 0 where an Inf or
  /// NaN is among them: the deviations then tell what the mean is.
  template <typename Lanes>
  __device__ __forceinline__ C of(const typename Tile::Values& values, const Lanes& lanes) const {
    const auto share = both(reciprocal_samples);
    auto sum = mul(values[0], share);
#pragma unroll
    for (int p = 1; p < pairs; ++p) sum = multiply_add(values[p], share, sum);
    const C pivot = lanes.of_first(sum_of(sum));
    return isfinite(pivot) ? pivot : C(0);
  }
};

/// Mean and squared deviations of a tile: one pass about the pivot. Where that turns out further
/// from the mean than the spread, squares about it would cancel, and a second pass about the mean
/// itself follows; for f64 always. Leaves x - centre in `values`; `rest` is what the mean is from
/// the centre. Never a difference of large sums, never E[x^2] - E[x]^2: docs/derivation.md. A norm
/// without a mean has 0 for its centre, and sums squares alone.
template <typename Tile, bool full, typename Lanes>
__device__ __forceinline__ SegmentMoments<typename Tile::C> tile_moments(
    typename Tile::Values& values, Extent extent, const Lanes& lanes, Operation operation,
    typename Tile::C reciprocal_count, Pivot<Tile> pivot) {
  using C = typename Tile::C;
  const auto move = [&](C by) {
    each_pair_cleared<Tile, full>(values, extent,
                                  [&](int p) { values[p] = add(values[p], both(-by)); });
  };
  if (!norms::has_mean(operation)) {
    const C squares = sum_squares<Tile, full>(values, extent, lanes);
    return {0, 0, norms::moments(operation, C(0), squares, reciprocal_count).squares, 0};
  }
  C centre = pivot.of(values, lanes), rest, square;
  move(centre);
  sum_deviations<Tile, full>(values, extent, lanes, &rest, &square);
  norms::Moments<C> about = norms::moments(operation, rest, square, reciprocal_count);
  // Also where the squares overflowed, as those of a large constant about a pivot an ulp off it.
  const bool again = std::is_same_v<C, double> || !(rest * about.mean <= about.squares);
  if (again && isfinite(about.mean)) {
    const C moved = centre + about.mean;
    move(moved - centre);  // what the centre really moves by: nothing is lost to its rounding
    centre = moved;
    sum_deviations<Tile, full>(values, extent, lanes, &rest, &square);
    about = norms::moments(operation, rest, square, reciprocal_count);
  }
  return {centre, about.mean, about.squares < 0 ? C(0) : about.squares, C(0)};
}

}  // namespace fusednorm::cuda
