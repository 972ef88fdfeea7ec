// SPDX-License-Identifier: Apache-2.0
// How many rows a launch has in flight while it works on others, and the shared memory for them.
#pragma once

#include <algorithm>

#include "fusednorm/cuda.h"
#include "plan/shared_memory.h"

namespace fusednorm::cuda {

/// Pieces of 16 bytes a lane that `vectors` vectors of an array take, beside rows of dtype `row`.
inline int planes_of(int vectors, DType array, DType row) {
  return vectors * std::max(1, element_of(array) / element_of(row));
}

inline int forward_planes(const ForwardProblem& p, int vectors) {
  const DType row = row_dtype(p);
  return planes_of(vectors, p.x_dtype, row) + (p.has_residual ? vectors : 0);
}

/// One for mean and rstd; dy; the source; ds.
inline int backward_planes(const BackwardProblem& p, int vectors) {
  const int dy = planes_of(vectors, p.y_dtype, row_dtype(p));
  return 1 + dy + (p.source == Source::y ? dy : vectors) + (p.has_ds ? vectors : 0);
}

/// Bytes that a plane of a slot takes: a warp's pieces of 16 bytes, side by side. 0: rows are not
/// requested ahead.
struct PlaneBytes {
  int planned = 0;
  int room = 0;  ///< for rows that, as a run may find, do not start on a boundary of 16 bytes
};

/// Of rows that `lanes` share. Rows that start anywhere are requested ahead if they have a warp or
/// more, of several rows in a warp each would start elsewhere; and if code has such a ring,
/// `skews`. `aligned`: no others get this ring; `unaligned`: only others do.
inline PlaneBytes plane_bytes_of(std::int64_t cols, int lanes, DType row, bool skews, bool aligned,
                                 bool unaligned) {
  skews = skews && lanes >= warp_lanes;
  if (unaligned || interleaves(cols, element_of(row)))
    return skews ? PlaneBytes{skewed_plane_bytes, skewed_plane_bytes} : PlaneBytes();
  return {plane_bytes, aligned || !skews ? plane_bytes : skewed_plane_bytes};
}
inline PlaneBytes plane_bytes_of(const ForwardProblem& p, int lanes, bool aligned, bool unaligned) {
  const std::size_t element = size_of(row_dtype(p));
  if (!has_ring(element, false)) return {};
  return plane_bytes_of(p.cols, lanes, row_dtype(p), has_skewed_ring(element, false), aligned,
                        unaligned);
}
inline PlaneBytes plane_bytes_of(const BackwardProblem& p, int lanes, bool aligned,
                                 bool unaligned) {
  const std::size_t element = size_of(row_dtype(p));
  if (!has_ring(element, p.source == Source::y)) return {};
  return plane_bytes_of(p.cols, lanes, row_dtype(p), has_skewed_ring(element, true), aligned,
                        unaligned);
}

/// Dynamic shared memory that a block gets at most. No device has a MiB; a description by hand may
/// claim any, more than there are numbers for.
inline std::int64_t block_shared_bytes(const Device& device) {
  return std::min<std::int64_t>(device.shared_bytes_per_block, 1 << 20);
}

/// The ring of a block of `threads` threads with `other_bytes` of shared memory besides, `resident`
/// of which a multiprocessor holds at once; no thread takes more than `most_rows` rows.
/// As many stages as it takes to have enough in flight, if they fit. sm_75 has no copies to shared
/// memory that a thread need not wait for.
inline Ring ring_of(int planes, PlaneBytes plane, int threads, std::size_t other_bytes,
                    int resident, std::int64_t most_rows, const Device& device) {
  Ring ring;
  if (device.compute_capability < 80 || plane.planned == 0) return ring;
  const int warps = threads / warp_lanes;
  ring.warp_bytes = planes * plane.planned;
  ring.stage_bytes = warps * ring.warp_bytes;
  const std::int64_t room = std::int64_t{warps} * planes * plane.room;
  const std::int64_t block = block_shared_bytes(device);
  const std::int64_t share = (block + system_shared_bytes) / resident - system_shared_bytes;
  const auto other = static_cast<std::int64_t>(other_bytes);
  const std::int64_t wanted =
      std::min(most_rows, divide_up(wanted_in_flight, std::int64_t{ring.stage_bytes} * resident));
  std::int64_t stages = std::clamp<std::int64_t>((std::min(block, share) - other) / room, 0,
                                                 std::min<std::int64_t>(wanted, most_stages));
  // Rather a block less on the multiprocessor than nothing in flight.
  if (stages == 0 && other + room <= block) stages = 1;
  ring.stages = static_cast<int>(stages);
  ring.bytes = static_cast<int>(stages * room);
  return ring;
}

/// The same ring for rows that do not start on a boundary of 16 bytes, for which there is room.
inline Ring skewed(Ring ring) {
  ring.warp_bytes = ring.warp_bytes / plane_bytes * skewed_plane_bytes;
  ring.stage_bytes = ring.stage_bytes / plane_bytes * skewed_plane_bytes;
  return ring;
}

/// Sets a launch's ring, and its dynamic shared memory, of which `other_bytes` are for other
/// things.
inline void set_ring(Launch& launch, std::size_t other_bytes, const Ring& ring) {
  launch.ring = ring;
  launch.shared_bytes = other_bytes + static_cast<std::size_t>(ring.bytes);
}
inline void set_aligned_ring(Launch& launch, std::size_t other_bytes, const Ring& ring) {
  launch.aligned_ring = ring;
  launch.aligned_shared_bytes = other_bytes + static_cast<std::size_t>(ring.bytes);
}

}  // namespace fusednorm::cuda
