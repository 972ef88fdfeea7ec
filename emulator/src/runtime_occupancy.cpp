// SPDX-License-Identifier: Apache-2.0
// How many blocks a multiprocessor holds, and how many clusters the device.
#include <algorithm>

#include "runtime.h"

namespace fusednorm::emulator {

int blocks_per_multiprocessor(const Device& device, const Program& program, int threads,
                              size_t dynamic_shared) {
  if (threads <= 0) return 0;
  const int rounded = (threads + 31) / 32 * 32;
  int blocks = std::min(device.config.threads_per_multiprocessor / rounded,
                        device.config.blocks_per_multiprocessor);
  const size_t shared = (program.static_shared_bytes + dynamic_shared + 1024 + 127) / 128 * 128;
  blocks =
      std::min<int>(blocks, static_cast<int>(device.config.shared_per_multiprocessor / shared));
  const int limit = static_cast<int>(program.function->max_registers);
  const int registers = program.registers > 0 ? program.registers : limit;
  if (registers > 0) {
    // A warp has its registers in one of four files of 16384, in units of 8 a thread.
    const int warps = 4 * (16384 / ((registers + 7) / 8 * 8 * 32));
    blocks = std::min(blocks, warps / (rounded / 32));
  }
  return blocks;
}

uint32_t resident_clusters(const Device& device, int each, int cluster_blocks) {
  const FusednormEmulatorDevice& config = device.config;
  constexpr int kAssumedGpc = 16;
  int described = 0;
  for (int size : config.gpcs) described += size;
  int clusters = 0;
  if (described == config.multiprocessors) {
    for (int size : config.gpcs) clusters += size * each / cluster_blocks;
  } else {
    for (int left = config.multiprocessors; left > 0; left -= kAssumedGpc)
      clusters += std::min(left, kAssumedGpc) * each / cluster_blocks;
  }
  return static_cast<uint32_t>(clusters);
}

}  // namespace fusednorm::emulator
