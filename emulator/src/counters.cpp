// SPDX-License-Identifier: Apache-2.0
// Sums of counters.
#include "counters.h"

#include <algorithm>

namespace fusednorm::emulator {

void Counters::add(const Counters& other) {
  const uint64_t peak = std::max(peak_load_bytes, other.peak_load_bytes);
  const uint64_t* from = reinterpret_cast<const uint64_t*>(&other);
  uint64_t* to = reinterpret_cast<uint64_t*>(this);
  static_assert(sizeof(Counters) % sizeof(uint64_t) == 0);
  for (unsigned k = 0; k < sizeof(Counters) / sizeof(uint64_t); ++k) to[k] += from[k];
  peak_load_bytes = peak;
}

}  // namespace fusednorm::emulator
