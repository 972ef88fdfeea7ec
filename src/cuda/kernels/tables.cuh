// SPDX-License-Identifier: Apache-2.0
// Turns geometry found at run time into the template arguments of a kernel. Kernels whose speed
// matters exist for every number of vectors; those for f64 and for ragged rows of clusters are
// `roomy`, one for all numbers.
#pragma once

#include <type_traits>

#include "kernels/kernels.h"
#include "plan/geometry.h"

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

/// The vectors a lane may hold, for a storage and a pass: what geometry_of can yield.
template <typename S, int lane_registers, bool stretch = true>
struct Vectors {
  static constexpr int element = sizeof(S);
  static constexpr bool roomy = roomy_kernels(element);
  static constexpr int warp_vector =
      warp_lanes * vector_bytes / element;  // columns of one vector in every lane
  static constexpr int lane = narrow_lane(element, lane_registers);
  static constexpr int narrow = lane / (vector_bytes / element);
  /// The fewest of a whole warp: a column more than half a warp holds.
  static constexpr int least_warp =
      geometry_of(warp_lanes / 2 * lane + 1, element, lane_registers).vectors;
  /// Of rows that are longer than clusters hold.
  static constexpr int widest = widest_vectors(element, lane_registers);
  /// A quarter more, where that saves a warp.
  static constexpr int longest = longest_vectors(element, lane_registers, stretch);
  static constexpr int longest_warp = longest_warp_vectors(element, lane_registers, stretch);
  /// The fewest that more than one warp can need: a column more than one stretched warp holds, over
  /// two.
  static constexpr int least_wide =
      geometry_of(std::int64_t{warp_vector} * longest_warp + 1, element, lane_registers, stretch)
          .vectors;
};

/// body(lanes, vectors, roomy) for a geometry of one warp or less. The lanes of heads of 128
/// columns and more have kernels of their own; fewer (f64: all parts of a warp) share one that is
/// told their number.
template <typename Range, typename Body>
KernelAddress pick_narrow(int lanes, int vectors, const Body& body) {
  using No = std::false_type;
  constexpr int half = warp_lanes / 2, quarter = warp_lanes / 4;
  if constexpr (Range::roomy) {
    if (lanes < warp_lanes) return body(Constant<0>(), Constant<Range::narrow>(), No());
    return body(Constant<warp_lanes>(), Constant<Range::longest>(), std::true_type());
  } else {
    if (lanes == warp_lanes) {
      return pick<Range::least_warp, Range::longest_warp>(
          vectors, [&](auto v) { return body(Constant<warp_lanes>(), v, No()); });
    }
    if (lanes == half) return body(Constant<half>(), Constant<Range::narrow>(), No());
    if constexpr (quarter * Range::lane >= 128) {
      if (lanes == quarter) return body(Constant<quarter>(), Constant<Range::narrow>(), No());
    }
    return body(Constant<0>(), Constant<Range::narrow>(), No());
  }
}

/// body(vectors, clustered, whole, roomy), the last three as std::bool_constant. `most_whole`: the
/// most vectors that a kernel for whole rows has registers for; 0: there is none. `room`: the
/// vectors of the kernel for ragged rows of clusters.
template <typename Range, int most_whole, int room, typename Body>
KernelAddress pick_wide(WideVariant variant, const Body& body) {
  using Yes = std::true_type;
  using No = std::false_type;
  if (variant.whole) {
    if constexpr (most_whole == 0 || Range::roomy) {
      return nullptr;
    } else {
      if (!variant.clustered) {
        return pick<Range::least_wide, most_whole>(
            variant.vectors, [&](auto v) { return body(v, No(), Yes(), No()); });
      }
      if (variant.vectors != Range::widest) return nullptr;
      return body(Constant<Range::widest>(), Yes(), Yes(), Yes());
    }
  }
  if (variant.clustered) return body(Constant<room>(), Yes(), No(), Yes());
  if constexpr (Range::roomy) {
    return body(Constant<Range::longest>(), No(), No(), Yes());
  } else {
    return pick<Range::least_wide, Range::longest>(
        variant.vectors, [&](auto v) { return body(v, No(), No(), No()); });
  }
}

}  // namespace fusednorm::cuda
