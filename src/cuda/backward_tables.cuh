// The backward kernels of one x dtype.
#pragma once

#include "strips.cuh"
#include "tables.cuh"

namespace fusednorm::cuda {

template <typename TX, typename TY, bool from_y>
BackwardFinder backward_kernels() {
  // A backward from y has no registers to spare for longer lanes.
  using Range = Vectors<TX, backward_lane_registers, !from_y>;
  BackwardFinder finder{};
  finder.narrow = [](int lanes, int vectors) {
    return pick_narrow<Range>(lanes, vectors, [](auto l, auto v) {
      return reinterpret_cast<KernelAddress>(&backward_narrow<TX, TY, l.value, v.value, from_y>);
    });
  };
  finder.wide = [](WideVariant variant) {
    return pick_wide<Range>(variant, [](auto v, auto clustered, auto whole) {
      constexpr bool fits = gamma_fits<Tile<TX, warp_lanes, v.value>>;
      return reinterpret_cast<KernelAddress>(&backward_wide < TX, TY, v.value, from_y,
                                             clustered.value, whole.value && fits >);
    });
  };
  finder.strip_sums =
      reinterpret_cast<KernelAddress>(&backward_strip_sums<TX, TY, Range::widest, from_y>);
  finder.strip_dx_f32 =
      reinterpret_cast<KernelAddress>(&backward_strip_dx<TX, TY, float, Range::widest, from_y>);
  if constexpr (std::is_same_v<TX, TY>) {
    finder.strip_dx_same =
        reinterpret_cast<KernelAddress>(&backward_strip_dx<TX, TY, TX, Range::widest, from_y>);
  }
  return finder;
}

}  // namespace fusednorm::cuda
