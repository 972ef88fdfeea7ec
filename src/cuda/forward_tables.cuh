// The forward kernels of one x dtype.
#pragma once

#include "forward_long.cuh"
#include "tables.cuh"

namespace fusednorm::cuda {

template <typename TX, typename TY>
ForwardFinder forward_kernels() {
  using Range = Vectors<TX, forward_lane_registers>;
  ForwardFinder finder{};
  finder.narrow = [](int lanes, int vectors) {
    return pick_narrow<Range>(lanes, vectors, [](auto l, auto v) {
      return reinterpret_cast<KernelAddress>(&forward_narrow<TX, TY, l.value, v.value>);
    });
  };
  finder.wide = [](WideVariant variant) {
    return pick_wide<Range>(variant, [](auto v, auto clustered, auto whole) {
      return reinterpret_cast<KernelAddress>(
          &forward_wide<TX, TY, v.value, clustered.value, whole.value>);
    });
  };
  finder.reread = reinterpret_cast<KernelAddress>(&forward_reread<TX, TY, Range::widest>);
  finder.split_moments =
      reinterpret_cast<KernelAddress>(&forward_split_moments<TX, TY, Range::widest>);
  finder.split_finish =
      reinterpret_cast<KernelAddress>(&forward_split_finish<TX, TY, Range::widest>);
  return finder;
}

}  // namespace fusednorm::cuda
