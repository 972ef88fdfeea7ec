// SPDX-License-Identifier: Apache-2.0
// The backward kernels of one storage and source.
#pragma once

#include "kernels/backward_strips.cuh"
#include "kernels/backward_wide.cuh"
#include "kernels/tables.cuh"

namespace fusednorm::cuda {

template <typename S, bool from_y>
BackwardFinder backward_kernels() {
  // A backward from y has no registers to spare: neither for longer lanes nor for whole rows.
  using Range = Vectors<S, backward_lane_registers, !from_y>;
  BackwardFinder finder{};
  finder.narrow = [](int lanes, int vectors) {
    return pick_narrow<Range>(lanes, vectors, [](auto l, auto v, auto roomy) {
      return reinterpret_cast<KernelAddress>(
          &backward_narrow<S, l.value, v.value, from_y, roomy.value>);
    });
  };
  finder.wide = [](WideVariant variant) {
    constexpr int most_whole = from_y ? 0 : Range::longest;
    return pick_wide<Range, most_whole, Range::longest>(
        variant, [](auto v, auto clustered, auto whole, auto roomy) {
          return reinterpret_cast<KernelAddress>(
              &backward_wide<S, v.value, from_y, clustered.value, whole.value, roomy.value>);
        });
  };
  finder.strip_sums =
      reinterpret_cast<KernelAddress>(&backward_strip_sums<S, Range::widest, from_y>);
  finder.strip_dx = reinterpret_cast<KernelAddress>(&backward_strip_dx<S, Range::widest, from_y>);
  return finder;
}

}  // namespace fusednorm::cuda
