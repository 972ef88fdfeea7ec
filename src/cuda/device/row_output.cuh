// SPDX-License-Identifier: Apache-2.0
// Where the results of a row go: y with its rounding, and d, the gradient of the row, as dx and
// dresidual. Kernels write rows through these alone.
#pragma once

#include "device/access.cuh"
#include "device/row_input.cuh"

namespace fusednorm::cuda {

/// Rounds xhat on its way to y as models do that were trained so.
template <typename Tile, typename Gamma, typename Beta>
__device__ __forceinline__ void scale_with_roundings(typename Tile::Values& xhat,
                                                     const ForwardArguments& a, Extent extent,
                                                     const Gamma& gamma, const Beta& beta) {
  round_tile<Tile>(xhat, a.xhat_dtype);
  each_pair<Tile, false>(extent, [&](int p) { xhat[p] = mul(xhat[p], gamma[p]); });
  if (a.parameters.beta == nullptr) return;
  round_tile<Tile>(xhat, a.y.dtype);
  each_pair<Tile, false>(extent, [&](int p) { xhat[p] = add(xhat[p], beta[p]); });
}

/// y from a row's values: xhat = value * rstd + shift. `y` is the lane's first column. `full` rows
/// are plain.
template <typename Tile, bool full, typename Gamma, typename Beta>
__device__ __forceinline__ void store_y(typename Tile::Values& values, const ForwardArguments& a,
                                        std::byte* y, Extent extent, const Gamma& gamma,
                                        const Beta& beta, typename Tile::C rstd,
                                        typename Tile::C shift) {
  if (full || a.rounding == Rounding::once) {
    each_pair<Tile, full>(extent, [&](int p) {
      values[p] = multiply_add(multiply_add(values[p], both(rstd), both(shift)), gamma[p], beta[p]);
    });
  } else {
    each_pair<Tile, false>(
        extent, [&](int p) { values[p] = multiply_add(values[p], both(rstd), both(shift)); });
    scale_with_roundings<Tile>(values, a, extent, gamma, beta);
  }
  if constexpr (full) {
    store_tile<Tile, true, own_size<Tile>>(y, values, a.row_dtype, extent);
  } else {
    with_size<Tile>(a.y.element_bytes, [&](auto size) {
      store_tile<Tile, false, size.value>(y, values, a.y.dtype, extent);
    });
  }
}

template <typename C>
__device__ __forceinline__ void store_statistics(const ForwardArguments& a, std::int64_t row,
                                                 C mean, C rstd) {
  if (a.mean) static_cast<C*>(a.mean)[row] = mean;
  if (a.rstd) static_cast<C*>(a.rstd)[row] = rstd;
}

/// d, the gradient of the row that was normalised, with ds added; `full` rows are plain. dx and
/// dresidual may be ds or the source: a lane has read all of its elements before it writes the
/// first.
template <typename Tile, bool full, bool from_y, typename From, typename Row, typename Index>
__device__ __forceinline__ void store_gradient(typename Tile::Values& d, const BackwardArguments& a,
                                               const From& from, std::byte* dx, const Row& row_of,
                                               Index first, Extent extent) {
  constexpr int own = own_size<Tile>;
  if constexpr (!full) {
    if (a.ds.data != nullptr) {
      Words<Tile, own> words;
      const auto where = [&](auto copied) {
        return row_address(a.ds, a.map, row_of(),
                           copied ? copied_column<Tile>(first, extent.access) : first);
      };
      from.template load<own>(words, where, BackwardSlot<Tile, from_y>::ds(a));
      typename Tile::Values ds;
      unpack_tile<Tile, own>(ds, words, a.row_dtype);
      each_pair<Tile, false>(extent, [&](int p) { d[p] = add(d[p], ds[p]); });
    }
    if (a.dresidual.data != nullptr) {
      store_tile<Tile, false, own>(row_address(a.dresidual, a.map, row_of(), first), d, a.row_dtype,
                                   extent);
    }
    if (a.dx.data == nullptr) return;
    if constexpr (own == 4) {
      // 16-bit x beside an f32 residual. Rows of other sizes have x in their own.
      if (a.dx.element_bytes == 2) return store_tile<Tile, false, 2>(dx, d, a.dx.dtype, extent);
    }
  }
  store_tile<Tile, full, own>(dx, d, a.row_dtype, extent);
}

}  // namespace fusednorm::cuda
