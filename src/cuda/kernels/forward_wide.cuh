// SPDX-License-Identifier: Apache-2.0
// Forward, rows of several warps: a block, or a cluster of blocks, a row; a segment a warp, in
// registers.
#pragma once

#include "device/block_exchange.cuh"
#include "kernels/forward_narrow.cuh"

namespace fusednorm::cuda {

/// How many columns each warp of a row has.
template <typename Tile, bool whole>
__device__ __forceinline__ auto cols_of_segments(const ForwardArguments& a, Extent extent) {
  if constexpr (whole) {
    return [](int) { return Tile::cols; };
  } else {
    const int cols = static_cast<int>(a.cols);
    if (extent.pitch == Tile::pitch) return SegmentCols<int>{0, a.vectors * Tile::pitch, cols};
    const int before_last = a.vectors - 1;
    return SegmentCols<int>{before_last * Tile::pitch, Tile::pitch,
                            cols - before_last * extent.pitch};
  }
}

/// `whole`: aligned rows of whole segments. Other rows need more registers to find their way, so
/// there beta waits in (dynamic) shared memory; they are spread over all warps, so that only the
/// last vector asks what exists, unless the kernel is `roomy`.
template <typename S, int vectors, bool clustered, bool whole, bool roomy>
__global__ void __launch_bounds__(clustered ? cluster_threads : wide_threads,
                                  clustered&& whole ? 2 : 1)
    forward_wide(const __grid_constant__ ForwardArguments a) {
  if (clustered && !clusters_exist) return no_clusters_here();
  using T = WideTile<S, vectors, roomy, whole>;
  using C = typename T::C;
  using Exchange = MomentExchange<C, clustered>;
  __shared__ typename Exchange::Slots slots;
  static_assert(sizeof slots <= (clustered ? most_static_bytes : wide_static_bytes(sizeof(C))));
  extern __shared__ uint4 dynamic_shared[];
  const int lane = threadIdx.x % warp_lanes;
  const int warps = blockDim.x / warp_lanes;
  const int rank = clustered ? static_cast<int>(blockIdx.x % a.blocks_per_row) : 0;
  const int segment = rank * warps + threadIdx.x / warp_lanes;
  const WidePlace<T, whole> own(a, segment, lane);
  std::int64_t row = clustered ? blockIdx.x / a.blocks_per_row : blockIdx.x;
  ForwardRing<T, whole, false> ring(a, dynamic_shared, row, own.first);
  ring.request_first(a, own.first, own.extent);
  const auto cols_of = cols_of_segments<T, whole>(a, own.extent);
  // A warp without columns may have any.
  const C reciprocal_count = C(1) / static_cast<C>(cols_of(segment) > 0 ? cols_of(segment) : 1);
  // Where registers do not suffice: beta, then gamma.
  constexpr bool keep_gamma =
      !gamma_fits_forward<T> || wide_keeps_gamma(sizeof(S), clustered, whole);
  constexpr bool keep_beta =
      !whole || keep_gamma || wide_keeps_beta(sizeof(S), T::vectors, clustered);
  uint4* const kept_at = behind_ring<T>(dynamic_shared, a.ring);
  ForwardParameters<T, keep_gamma, keep_beta> parameters(Kept<T>(kept_at + T::pieces * blockDim.x),
                                                         Kept<T>(kept_at));
  const C reciprocal_cols = a.reciprocal_cols.as<C>(), eps = a.eps.as<C>();
  std::byte* y = row_address(a.y, a.map, row, own.first);
  Exchange exchange(slots, a);
  const RowLanes<warp_lanes> lanes(0);
  const bool centred = norms::has_mean(a.operation);
  typename T::Values values;
  const auto work = [&](int parity) {
    ring.template take<whole>(values, a, row, own.first, own.extent, own.extent);
    const SegmentMoments<C> moments = tile_moments<T, whole>(values, own.extent, lanes, a.operation,
                                                             reciprocal_count, Pivot<T>());
    exchange.share(slots.of[parity], moments, segment, a);
    const RowStatistics<C> statistics = merge_moments(
        slots.of[parity], static_cast<int>(a.segments), cols_of, reciprocal_cols, eps, lane);
    if (segment == 0 && lane == 0) store_statistics(a, row, statistics.mean, statistics.rstd);
    parameters.template store<whole>(values, a, y, own.extent, statistics.rstd,
                                     statistics.shift(moments.centre, centred));
    row += a.row_step;
    y = kept(a.map.even_steps != 0 ? advance(y, a.y.step_bytes)
                                   : row_address(a.y, a.map, row, own.first));
  };
  for (int parity = 0; row < a.map.rows;) {
    parameters.load(a, row, own.first, own.extent);
    for (; row < a.map.rows && parameters.serve(a, row); parity ^= 1) work(parity);
  }
  // No block may leave while another still writes to its slots.
  if constexpr (clustered) cluster_barrier();
}

}  // namespace fusednorm::cuda
