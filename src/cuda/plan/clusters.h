// SPDX-License-Identifier: Apache-2.0
// Which clusters a device holds, and how many blocks of one a row gets.
#pragma once

#include <algorithm>

#include "fusednorm/cuda.h"
#include "plan/sizes.h"

namespace fusednorm::cuda::policy {

/// Multiprocessors that launches may fill.
inline std::int64_t usable(const Device& device) {
  return device.multiprocessors - device.reserved_multiprocessors;
}

/// Whether it is known which clusters the device holds.
inline bool knows_clusters(const Device& device) {
  return std::any_of(device.resident_clusters.begin(), device.resident_clusters.end(),
                     [](int count) { return count > 0; });
}

/// As the device has it: one block a multiprocessor.
inline int resident_count(int blocks, const Device& device) {
  return device.resident_clusters[blocks == 2 ? 0 : blocks == 4 ? 1 : blocks == 8 ? 2 : 3];
}

/// Clusters of `blocks` blocks that the device runs at once if a multiprocessor holds two of them.
/// One that is not among them would run after all others, alone.
inline std::int64_t resident_clusters(int blocks, const Device& device) {
  const int known = resident_count(blocks, device);
  const std::int64_t room = 2 * usable(device) / blocks;
  return std::max<std::int64_t>(1, known > 0 ? std::min<std::int64_t>(2 * known, room) : room);
}

inline bool has_clusters(const Device& device) {
  return device.compute_capability >= 90 && device.clusters;
}

/// The smallest cluster whose blocks of up to 8 warps hold `segments`.
constexpr int least_cluster(std::int64_t segments) {
  int blocks = 2;
  while (cluster_segments(blocks) < segments) blocks *= 2;
  return blocks;
}

/// The largest cluster that rows of `element` bytes an element may have on the device.
inline int most_cluster_blocks(int element, const Device& device) {
  int most = portable_cluster_blocks;
  if (knows_clusters(device)) {
    most = max_cluster_blocks;
    while (most > 1 && resident_count(most, device) == 0) most /= 2;
  }
  // Beside other kernels no GPC may have 16 multiprocessors left.
  const bool large = element != 8 && device.reserved_multiprocessors == 0;
  return large ? most : std::min(most, portable_cluster_blocks);
}

/// Blocks a row when rows alone do not fill the device: the largest cluster of up to `most` blocks
/// that leaves each block four warps (rows of a few KB are not worth the way through other blocks'
/// memory) and does not ask for more blocks than there are multiprocessors. 1: no cluster.
inline int filling_cluster(std::int64_t rows, std::int64_t segments, int most,
                           const Device& device) {
  int blocks = 1;
  while (blocks < std::min(most, portable_cluster_blocks) && segments >= 8 * blocks &&
         rows * 2 * blocks <= usable(device)) {
    blocks *= 2;
  }
  return blocks;
}

/// Blocks a row of a cluster launch, or 1 where a block holds the row and rows fill the device, or
/// 0 where no cluster can hold it.
inline int blocks_per_row(std::int64_t rows, std::int64_t segments, int element,
                          const Device& device, int block_segments = max_block_segments) {
  const bool fits_block = segments <= block_segments;
  if (!has_clusters(device)) return fits_block ? 1 : 0;
  const int most = most_cluster_blocks(element, device);
  if (segments > cluster_segments(most)) return 0;
  const int filling = filling_cluster(rows, segments, most, device);
  return fits_block ? filling : std::max(filling, least_cluster(segments));
}

}  // namespace fusednorm::cuda::policy
