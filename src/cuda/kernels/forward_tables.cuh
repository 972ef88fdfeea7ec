// SPDX-License-Identifier: Apache-2.0
// The forward kernels of one storage.
#pragma once

#include "kernels/forward_long.cuh"
#include "kernels/forward_wide.cuh"
#include "kernels/tables.cuh"

namespace fusednorm::cuda {

template <typename S>
ForwardFinder forward_kernels() {
  using Range = Vectors<S, forward_lane_registers>;
  ForwardFinder finder{};
  finder.narrow = [](int lanes, int vectors) {
    return pick_narrow<Range>(lanes, vectors, [](auto l, auto v, auto roomy) {
      return reinterpret_cast<KernelAddress>(&forward_narrow<S, l.value, v.value, roomy.value>);
    });
  };
  finder.wide = [](WideVariant variant) {
    return pick_wide < Range, Range::longest,
           Range::roomy
               ? Range::longest
               : Range::widest > (variant, [](auto v, auto clustered, auto whole, auto roomy) {
                   return reinterpret_cast<KernelAddress>(
                       &forward_wide<S, v.value, clustered.value, whole.value, roomy.value>);
                 });
  };
  finder.reread = reinterpret_cast<KernelAddress>(&forward_reread<S, Range::widest>);
  finder.split_moments = reinterpret_cast<KernelAddress>(&forward_split_moments<S, Range::widest>);
  finder.split_finish = reinterpret_cast<KernelAddress>(&forward_split_finish<S, Range::widest>);
  return finder;
}

}  // namespace fusednorm::cuda
