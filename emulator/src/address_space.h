// SPDX-License-Identifier: Apache-2.0
// Where the windows of the generic address space lie; chosen so that no host or device allocation
// falls into one.
#pragma once

#include <cstdint>

namespace fusednorm::emulator {

constexpr uint64_t kSharedWindow =
    0x100ull << 32;  // low 32 bits: (rank + 1) << 24 | offset, or offset in the own block
constexpr uint64_t kLocalWindow = 0x200ull << 32;
constexpr uint64_t kParamWindow = 0x300ull << 32;
constexpr uint64_t kDeviceMemory = 0x2000ull << 32;  // device d: + d << 40
constexpr uint64_t kDeviceMemorySize = 1ull << 40;

constexpr bool in_window(uint64_t address, uint64_t window) {
  return (address >> 32) == (window >> 32);
}

constexpr int kClusterRankShift = 24;

}  // namespace fusednorm::emulator
