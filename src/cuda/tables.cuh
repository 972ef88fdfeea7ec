// Turns geometry found at run time into the template arguments of a kernel.
#pragma once

#include <type_traits>

#include "geometry.h"
#include "kernels.h"

namespace fusednorm::cuda {

template <int value>
using Constant = std::integral_constant<int, value>;

/// body(Constant<n>) for the n in [low, high] that equals `wanted`; null if none does.
template <int low, int high, typename Body>
KernelAddress pick(int wanted, const Body& body) {
  if constexpr (low > high)
    return nullptr;
  else
    return wanted == low ? body(Constant<low>()) : pick<low + 1, high>(wanted, body);
}

/// The vectors a lane may hold, for an element size and a pass.
template <typename TX, int lane_registers>
struct Vectors {
  static constexpr int element = sizeof(TX);
  static constexpr int narrow = geometry_of(1, element, lane_registers).vectors;
  static constexpr int widest = geometry_of(std::int64_t{1} << 40, element, lane_registers).vectors;
  /// The fewest that more than one warp can need: a column more than one warp holds, over two.
  static constexpr int least_wide =
      geometry_of(std::int64_t{warp_lanes} * widest * (vector_bytes / element) + 1, element,
                  lane_registers)
          .vectors;
};

/// narrow(Constant<lanes>, Constant<vectors>) for a geometry of one warp or less.
template <typename Range, typename Body>
KernelAddress pick_narrow(int lanes, int vectors, const Body& body) {
  if (lanes == warp_lanes) {
    return pick<Range::narrow, Range::widest>(
        vectors, [&](auto v) { return body(Constant<warp_lanes>(), v); });
  }
  using Narrow = Constant<Range::narrow>;
  switch (lanes) {
    case 1:
      return body(Constant<1>(), Narrow());
    case 2:
      return body(Constant<2>(), Narrow());
    case 4:
      return body(Constant<4>(), Narrow());
    case 8:
      return body(Constant<8>(), Narrow());
    case 16:
      return body(Constant<16>(), Narrow());
    default:
      return nullptr;
  }
}

/// wide(Constant<vectors>, clustered, whole), the last two as std::bool_constant.
template <typename Range, typename Body>
KernelAddress pick_wide(WideVariant variant, const Body& body) {
  return pick<Range::least_wide, Range::widest>(variant.vectors, [&](auto v) {
    if (variant.clustered) {
      return variant.whole ? body(v, std::true_type(), std::true_type())
                           : body(v, std::true_type(), std::false_type());
    }
    return variant.whole ? body(v, std::false_type(), std::true_type())
                         : body(v, std::false_type(), std::false_type());
  });
}

}  // namespace fusednorm::cuda
