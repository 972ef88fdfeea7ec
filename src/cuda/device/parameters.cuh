// SPDX-License-Identifier: Apache-2.0
// gamma + gamma_offset and beta of a lane's columns, in registers.
#pragma once

#include "device/access.cuh"
#include "device/arguments.h"

namespace fusednorm::cuda {

/// A lane's part of one row of gamma or beta; `first` is the lane's first column. Columns that do
/// not exist hold zero; an absent array holds `otherwise`.
template <typename Tile>
__device__ __forceinline__ void load_parameter(typename Tile::Values& values,
                                               const std::byte* table, const Parameters& parameters,
                                               std::int64_t first, Extent extent,
                                               typename Tile::C otherwise) {
  using C = typename Tile::C;
  if (table == nullptr) {
    fill(values, both(otherwise));
    return;
  }
  if (extent.access != Access::interleaved)
    extent.access = parameters.vectorised != 0 ? Access::vectors : Access::elements;
  with_size<Tile>(static_cast<int>(size_of(parameters.dtype)), [&](auto size) {
    load_tile<Tile, false, size.value>(values, table + first * size.value, parameters.dtype,
                                       extent);
  });
}

/// The compiler would rather keep them as they were stored, and convert them for every row.
template <typename Tile>
__device__ __forceinline__ void keep_converted(typename Tile::Values& values) {
#pragma unroll
  for (int p = 0; p < Tile::pairs; ++p) values[p] = {kept(values[p].x), kept(values[p].y)};
}

enum class Table { beta, gamma };

/// A lane's part of one row of a table, as it is computed with.
template <typename Tile>
__device__ __forceinline__ void load_table(typename Tile::Values& values,
                                           const Parameters& parameters, Table table,
                                           std::int64_t first, Extent extent) {
  using C = typename Tile::C;
  const bool is_gamma = table == Table::gamma;
  load_parameter<Tile>(values, is_gamma ? parameters.gamma : parameters.beta, parameters, first,
                       extent, is_gamma ? C(1) : C(0));
  if (is_gamma && parameters.gamma_offset != 0 && parameters.gamma != nullptr) {
    const Pair<C> offset = both(static_cast<C>(parameters.gamma_offset));
#pragma unroll
    for (int p = 0; p < Tile::pairs; ++p) values[p] = add(values[p], offset);
  }
  keep_converted<Tile>(values);
}

/// take_beta(values), where beta is wanted, then gamma in `values`. One loop for both, so that the
/// code that reads a table exists once.
template <typename Tile, bool want_beta, typename TakeBeta>
__device__ __forceinline__ void load_parameters(typename Tile::Values& values,
                                                const Parameters& parameters, std::int64_t first,
                                                Extent extent, const TakeBeta& take_beta) {
#pragma unroll 1
  for (int which = want_beta ? 0 : 1; which < 2; ++which) {
    load_table<Tile>(values, parameters, which == 0 ? Table::beta : Table::gamma, first, extent);
    if (which == 0) take_beta(values);
  }
}

}  // namespace fusednorm::cuda
