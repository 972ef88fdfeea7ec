// SPDX-License-Identifier: Apache-2.0
// Sectors of global memory that a warp's store leaves incomplete.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lanes.h"

namespace fusednorm::emulator {

// Sectors that a store touches and does not fill. An access is aligned to its size of at most 32
// bytes, so each lane's lies in one sector.
inline uint64_t partial_sectors(uint32_t active, const uint64_t address[32], uint32_t bytes) {
  if (bytes == 32) return 0;
  struct Part {
    uint64_t sector;
    uint32_t written;  // a bit a byte
  } parts[32];
  int count = 0;
  bool sorted = true;
  for_each_active(active, [&](int lane) {
    const uint64_t sector = address[lane] / 32;
    const uint32_t written = ((1u << bytes) - 1) << (address[lane] % 32);
    if (count && parts[count - 1].sector == sector) {
      parts[count - 1].written |= written;
      return;
    }
    sorted = sorted && (count == 0 || parts[count - 1].sector < sector);
    parts[count++] = {sector, written};
  });
  if (!sorted)
    std::sort(parts, parts + count,
              [](const Part& a, const Part& b) { return a.sector < b.sector; });
  uint64_t partial = 0;
  for (int k = 0; k < count;) {
    uint32_t written = 0;
    const uint64_t sector = parts[k].sector;
    for (; k < count && parts[k].sector == sector; ++k) written |= parts[k].written;
    partial += written != 0xffffffffu;
  }
  return partial;
}

}  // namespace fusednorm::emulator
