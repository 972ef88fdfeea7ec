// SPDX-License-Identifier: Apache-2.0
// A block's share of the first-level cache, for counting: what is loaded again soon does not
// reach the L2.
#pragma once

#include <cstdint>
#include <cstring>

namespace fusednorm::emulator {

// 16 KB, what eight blocks on a multiprocessor of 128 KB have each. Lines of four sectors, a sector
// fetched when it is asked for; eight places a line, the oldest leaves.
class FirstLevelCache {
 public:
  void clear() { std::memset(this, 0, sizeof *this); }

  // Sectors of [first, last] that are not there; they are afterwards.
  uint64_t load(uint64_t first, uint64_t last) {
    uint64_t missing = 0;
    for (uint64_t line = first / kSectors; line <= last / kSectors; ++line) {
      const uint64_t begin = line == first / kSectors ? first % kSectors : 0;
      const uint64_t end = line == last / kSectors ? last % kSectors + 1 : kSectors;
      const auto wanted = static_cast<uint8_t>((1u << end) - (1u << begin));
      uint8_t& present = sectors_of(line);
      missing += static_cast<uint64_t>(__builtin_popcount(wanted & ~present));
      present |= wanted;
    }
    return missing;
  }

 private:
  static constexpr uint64_t kSectors = 4, kSets = 16, kWays = 8;
  struct Set {
    uint64_t lines[kWays];  // + 1: 0 is none
    uint8_t sectors[kWays];
    uint8_t oldest;
  };

  uint8_t& sectors_of(uint64_t line) {
    // Arrays often begin at multiples of a power of two: their lines are spread.
    Set& set = sets_[(line * 0x9e3779b97f4a7c15ull) >> 60];
    for (uint64_t way = 0; way < kWays; ++way)
      if (set.lines[way] == line + 1) return set.sectors[way];
    const uint8_t way = set.oldest;
    set.oldest = (way + 1) % kWays;
    set.lines[way] = line + 1;
    set.sectors[way] = 0;
    return set.sectors[way];
  }

  Set sets_[kSets] = {};
};

}  // namespace fusednorm::emulator
