// SPDX-License-Identifier: Apache-2.0
// A row of a backward pass on the registers of its lanes: its share of the sums over the row and
// over columns, and its gradient.
#pragma once

#include "device/dependent_launch.cuh"
#include "device/kept.cuh"
#include "device/parameters.cuh"
#include "device/row_output.cuh"
#include "device/warp_sums.cuh"
#include "norms/norm.h"

namespace fusednorm::cuda {

/// 1 / gamma; infinite for 0, which makes 0 / 0, NaN, of xhat there: y says nothing of x.
__device__ __forceinline__ float2 reciprocal(float2 v) {
  return {__frcp_rn(v.x), __frcp_rn(v.y)};
}
__device__ __forceinline__ double2 reciprocal(double2 v) {
  return {1.0 / v.x, 1.0 / v.y};
}

/// A row's two sums over its segments, which lie in global memory.
template <typename C>
__device__ __forceinline__ norms::GradientSums<C> sum_segments(const norms::GradientSums<C>* parts,
                                                               std::int64_t segments, int lane) {
  norms::GradientSums<C> total{0, 0};
  for (std::int64_t s = lane; s < segments; s += warp_lanes) {
    total.g += parts[s].g;
    total.g_xhat += parts[s].g_xhat;
  }
  RowLanes<warp_lanes>(0).sum_both(total.g, total.g_xhat);
  return total;
}

/// A lane's part of one row. Once summed, `g` holds dy * gamma and `xhat` the normalised row:
/// nothing is computed twice, and no more registers are live than the two.
template <typename Tile, bool from_y>
struct BackwardRow {
  using C = typename Tile::C;
  using P = Pair<C>;
  using Sums = norms::GradientSums<C>;
  typename Tile::Values g;     ///< as loaded: dy
  typename Tile::Values xhat;  ///< as loaded: x, the stored sum or y
  C mean;
  C rstd;

  /// From memory; mean and rstd lie `statistics` bytes into their arrays.
  template <bool full>
  __device__ __forceinline__ void load(const BackwardArguments& a, const std::byte* dy,
                                       const std::byte* source, std::int64_t statistics,
                                       Extent extent, bool exists) {
    load_gradient_and_source<Tile, full, from_y>(
        g, xhat, FromMemory<Tile, full>{extent}, a, [&](auto) { return dy; },
        [&](auto) { return source; });
    rstd = exists ? *advance(static_cast<const C*>(a.rstd), statistics) : C(0);
    mean = 0;
    if constexpr (!from_y) {
      if (a.mean != nullptr && exists) mean = *advance(static_cast<const C*>(a.mean), statistics);
    }
  }

  /// From a slot that was requested and waited for.
  template <bool full, bool aligned>
  __device__ __forceinline__ void load(const BackwardArguments& a, FromSlot<Tile, aligned> from) {
    using Slot = BackwardSlot<Tile, from_y>;
    load_gradient_and_source<Tile, full, from_y>(
        g, xhat, from, a, [&](auto) { return load_origin(from.slot + Slot::dy_origin); },
        [&](auto) { return load_origin(from.slot + Slot::source_origin); });
    rstd = load_shared<C>(from.slot);
    mean = 0;
    if constexpr (!from_y) {
      if (a.mean != nullptr) mean = load_shared<C>(from.slot + static_cast<unsigned>(sizeof(C)));
    }
  }

  /// Adds to the column sums, which need no sum over the row, and returns the lane's share of the
  /// row's sums.
  template <bool full, bool want_columns, typename Gamma>
  __device__ __forceinline__ Sums sum(Extent extent, const Gamma& gamma, const Kept<Tile>& beta,
                                      typename Tile::Values& dgamma, typename Tile::Values& dbeta) {
    // Missing columns must not bring the mean, which may be NaN, into any sum.
    each_pair_cleared<Tile, full>(xhat, extent, [&](int p) {
      if constexpr (from_y) {
        const P b = beta[p];
        xhat[p] = add(xhat[p], P{-b.x, -b.y});
      } else {
        xhat[p] = mul(add(xhat[p], both(-mean)), both(rstd));
      }
    });
    P g_sum, weighted;
    each_pair<Tile, full>(extent, [&](int p) {
      const P dy = g[p], own_gamma = gamma[p];
      g[p] = mul(dy, own_gamma);
      g_sum = p == 0 ? g[p] : add(g_sum, g[p]);
      // y - beta holds gamma already.
      const P factor = from_y ? dy : g[p];
      weighted = p == 0 ? mul(factor, xhat[p]) : multiply_add(factor, xhat[p], weighted);
      if constexpr (from_y) xhat[p] = mul(xhat[p], reciprocal(own_gamma));
      if constexpr (want_columns) {
        dgamma[p] = multiply_add(dy, xhat[p], dgamma[p]);
        dbeta[p] = add(dbeta[p], dy);
      }
    });
    return {sum_of(g_sum), sum_of(weighted)};
  }

  /// The row's gradient, from its sums, to where it is wanted. `ds` is where its ds comes from.
  template <bool full, typename From, typename Row>
  __device__ __forceinline__ void store(const BackwardArguments& a, const From& ds, std::byte* dx,
                                        Extent extent, Sums sums, C reciprocal_cols,
                                        const Row& row_of, std::int64_t first) {
    const auto factors = norms::gradient_factors(a.operation, sums, rstd, reciprocal_cols);
    const P constant = both(factors.constant), slope = both(factors.slope);
    each_pair<Tile, full>(extent, [&](int p) {
      xhat[p] = multiply_add(xhat[p], slope, multiply_add(g[p], both(rstd), constant));
    });
    store_gradient<Tile, full, from_y>(xhat, a, ds, dx, row_of, first, extent);
  }
};

/// Whether any gradient of rows is wanted.
__device__ __forceinline__ bool wants_rows(const BackwardArguments& a) {
  return a.dx.data != nullptr || a.dresidual.data != nullptr;
}

/// What a block keeps in dynamic shared memory: in a backward from y beta; gamma where registers do
/// not suffice; and room for half its groups' column sums, in gamma's place where that is.
template <typename Tile, bool from_y, bool keep_gamma>
struct BackwardShared {
  using C = typename Tile::C;
  Kept<Tile> beta;
  Kept<Tile> gamma;
  uint4* sums;

  __device__ __forceinline__ explicit BackwardShared(uint4* block)
      : beta(block), gamma(block + (from_y ? Tile::pieces * blockDim.x : 0)) {
    sums = block + (from_y ? 1 : 0) * Tile::pieces * blockDim.x;
  }

  static constexpr bool once_a_chunk = keep_gamma;

  /// Before column sums take gamma's place: every thread is done with it.
  __device__ __forceinline__ void give_way() const {
    if constexpr (keep_gamma) __syncthreads();
  }

  /// Once a parameter group or, where column sums take gamma's place, once a chunk of its rows.
  template <typename Index>
  __device__ __forceinline__ void load(const BackwardArguments& a,
                                       typename Tile::Values& in_registers, Index first,
                                       Extent extent) const {
    load_parameters<Tile, from_y>(in_registers, a.parameters, first, extent,
                                  [&](const auto& values) { beta.store(values); });
    if constexpr (keep_gamma) gamma.store(in_registers);
  }

  /// The column sums are added up even where neither dgamma nor dbeta is wanted: a second loop
  /// without them would double the kernels for little, memory being what limits them.
  template <bool full, bool want_columns = true, typename Row>
  __device__ __forceinline__ typename Row::Sums sum_row(Row& here, Extent extent,
                                                        const typename Tile::Values& in_registers,
                                                        typename Tile::Values& dgamma,
                                                        typename Tile::Values& dbeta) const {
    if constexpr (keep_gamma)
      return here.template sum<full, want_columns>(extent, gamma, beta, dgamma, dbeta);
    else
      return here.template sum<full, want_columns>(extent, in_registers, beta, dgamma, dbeta);
  }
};

}  // namespace fusednorm::cuda
