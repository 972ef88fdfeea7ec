// SPDX-License-Identifier: Apache-2.0
// How a row lies on the lanes of a GPU: a function of cols, the row's dtype and the pass alone.
// Kernels and plans share it; it fixes the order of every row's reduction, and with it the row's
// bits.
#pragma once

#include <cstdint>

#include "host_device.h"

namespace fusednorm::cuda {

inline constexpr int warp_lanes = 32;

/// Bytes that one access of one lane moves.
inline constexpr int vector_bytes = 16;

/// Registers decide how much of a row a lane can hold. Forward: x, gamma and beta, 3 x 32 of 128
/// registers. Backward: x, dy, gamma and both column sums, 5 x 16 of 128. f64 takes two registers
/// an element, and its arithmetic more of the rest: three quarters of that.
inline constexpr int forward_lane_registers = 32;
inline constexpr int backward_lane_registers = 16;

/// A lane may hold a quarter more (forward: with its part of gamma and beta in shared memory),
/// where that saves a warp that would have little to do: 1025 columns on three warps would cost
/// half as much again as 1024 on two. A block keeps at most this many bytes so.
inline constexpr int most_kept_bytes = 40 << 10;
/// And a backward block has at most this many such warps: plan/sizes.h, stretched_threads.
inline constexpr int most_stretched_warps = 12;

/// Narrow rows: elements a lane takes, half of what it can hold, so that shuffles, addresses and
/// the ring, which cost the same for any number of them, do not outweigh the work. Forward, a head
/// of 128 columns is on 8 lanes; with 8 elements, on 16, it would take half as many instructions
/// again.
FUSEDNORM_HOST_DEVICE constexpr int narrow_lane(int element, int lane_registers) {
  return element == 8 ? 4 : lane_registers / 2;
}

struct Geometry {
  int lanes;              ///< that share a row, or a segment of it: 1, 2, 4, 8, 16 or 32
  int vectors;            ///< of vector_bytes that each lane holds
  int vector_elements;    ///< elements in a vector
  std::int64_t segments;  ///< warps' worth of columns in a row

  /// Columns that `lanes` lanes hold: a segment.
  FUSEDNORM_HOST_DEVICE constexpr int segment_cols() const {
    return lanes * vectors * vector_elements;
  }
};

/// How a lane's part of a row is read and written: all of it in whole vectors; those vectors that
/// exist; element by element, where rows of whole vectors do not start on a vector's boundary; or
/// `interleaved`, for rows that are not whole vectors. There the elements of a lane's vector lie a
/// column of every lane apart, so that an access of all lanes still touches neighbouring columns:
/// of bf16 64 bytes in a piece, where elements side by side would touch 16 sectors for as many.
enum class Access : int { whole, vectors, elements, interleaved };

/// A function of cols and dtype alone, for it decides the order of a row's sums.
FUSEDNORM_HOST_DEVICE constexpr bool interleaves(std::int64_t cols, int element) {
  return cols % (vector_bytes / element) != 0;
}

FUSEDNORM_HOST_DEVICE constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// Elements of a row that a lane holds at most, and with stretching, in whole vectors.
FUSEDNORM_HOST_DEVICE constexpr int widest_lane(int element, int lane_registers) {
  return element == 8 ? lane_registers * 3 / 8 : lane_registers;
}
FUSEDNORM_HOST_DEVICE constexpr int longest_lane(int element, int lane_registers) {
  const int vector = vector_bytes / element, widest = widest_lane(element, lane_registers);
  return (widest + widest / 4) / vector * vector;
}
/// The same where the row has one warp. A backward pass stretches by half then, to 4 x 24 of 168
/// registers for x, dy and both column sums: 768 columns take a fifth (f32) to a third (bf16) fewer
/// instructions on one warp than on two.
FUSEDNORM_HOST_DEVICE constexpr int longest_warp_lane(int element, int lane_registers) {
  return element != 8 && lane_registers == backward_lane_registers
             ? lane_registers * 3 / 2
             : longest_lane(element, lane_registers);
}

/// The same in vectors, for a pass that stretches lanes or does not.
FUSEDNORM_HOST_DEVICE constexpr int widest_vectors(int element, int lane_registers) {
  return widest_lane(element, lane_registers) / (vector_bytes / element);
}
FUSEDNORM_HOST_DEVICE constexpr int longest_vectors(int element, int lane_registers, bool stretch) {
  return stretch ? longest_lane(element, lane_registers) / (vector_bytes / element)
                 : widest_vectors(element, lane_registers);
}
FUSEDNORM_HOST_DEVICE constexpr int longest_warp_vectors(int element, int lane_registers,
                                                         bool stretch) {
  return stretch ? longest_warp_lane(element, lane_registers) / (vector_bytes / element)
                 : widest_vectors(element, lane_registers);
}

/// f64 rows of a warp and more share kernels with room for the longest lanes: few use f64, and its
/// arithmetic is slow enough to hide what the room costs. So do ragged rows of clusters, of all
/// dtypes.
FUSEDNORM_HOST_DEVICE constexpr bool roomy_kernels(int element) {
  return element == 8;
}

/// Whether `warps` warps should take a row that is longer than they usually hold: a row of one warp
/// that fits, and others where at most half of the lanes, or all, get a vector more.
FUSEDNORM_HOST_DEVICE constexpr bool stretches(std::int64_t cols, std::int64_t warps, int element,
                                               int lane_registers) {
  const int vector = vector_bytes / element, widest = widest_lane(element, lane_registers);
  const int longest = longest_lane(element, lane_registers);
  if (warps < 1) return false;
  if (warps == 1)
    return cols <= std::int64_t{warp_lanes} * longest_warp_lane(element, lane_registers);
  if (longest == widest) return false;
  const std::int64_t over = cols - warps * warp_lanes * widest, layer = warps * warp_lanes * vector;
  if (over != layer && cols % (warp_lanes * widest) == 0) return false;  // whole as it is
  const int arrays = lane_registers == forward_lane_registers ? 2 : 1;
  if (arrays == 1 && warps > most_stretched_warps) return false;
  const int compute_bytes = element == 8 ? 8 : 4;
  return (over <= layer / 2 || over == layer) &&
         warps <= most_kept_bytes / (warp_lanes * (widest + vector) * compute_bytes * arrays);
}

/// `element` is the size of an element of the row that is normalised in bytes; `lane_registers` is
/// one of the two figures above.
FUSEDNORM_HOST_DEVICE constexpr Geometry geometry_of(std::int64_t cols, int element,
                                                     int lane_registers, bool stretch = true) {
  const int vector = vector_bytes / element;
  const int narrow = narrow_lane(element, lane_registers);
  const int widest = widest_lane(element, lane_registers);
  int lanes = 1;
  while (lanes < warp_lanes && static_cast<std::int64_t>(lanes) * narrow < cols) lanes *= 2;
  if (lanes < warp_lanes) return {lanes, narrow / vector, vector, 1};
  // As few warps as can hold the row, then as few vectors as those warps need.
  std::int64_t warps = divide_up(cols, static_cast<std::int64_t>(warp_lanes) * widest);
  const bool stretched = stretch && stretches(cols, warps - 1, element, lane_registers);
  if (stretched) --warps;
  const int vectors = static_cast<int>(divide_up(cols, warps * warp_lanes * vector));
  const std::int64_t segments =
      stretched ? warps : divide_up(cols, static_cast<std::int64_t>(warp_lanes) * vectors * vector);
  return {warp_lanes, vectors, vector, segments};
}

}  // namespace fusednorm::cuda
