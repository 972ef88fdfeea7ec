// SPDX-License-Identifier: Apache-2.0
// Finds accesses of threads to the same shared memory that nothing puts in order (order.h says what
// does); global memory is in global_races.h.
//
// Of two accesses to the same bytes, one of them a write, the later must know of the earlier;
// between lanes of a warp a __syncwarp, shuffle, vote or barrier with both lanes does. Otherwise it
// is a race, unless both are strong (atomic, volatile, relaxed ...): those are flags, which order
// nothing by themselves. Volatile accesses of lanes of one warp are no exception: which lane goes
// first depends on luck. Two lanes that store the same value to one address in one instruction are
// let pass.
#pragma once

#include <cstdint>
#include <vector>

#include "memory_access.h"

namespace fusednorm::emulator {

enum class Strength : uint8_t { Weak, Volatile, Atomic };

struct SharedCell {
  uint32_t write_tick = 0, read_tick = 0;
  uint16_t writer = 0, reader = 0;          // thread in the cluster
  uint8_t write_bytes = 0, read_bytes = 0;  // which of the two bytes
  Strength write_strength = Strength::Weak, read_strength = Strength::Weak;
  uint32_t more_readers = 0;  // place in Block::readers, from 1: warps that read unordered
};

// The last read of a cell by each of several warps.
struct SharedReader {
  uint32_t tick;
  uint16_t thread;
  Strength strength;
};

void check_shared(Warp& w, Block& owner, uint32_t offset, uint32_t bytes, int lane, AccessKind kind,
                  uint8_t flags);
// What a copy engine (cp.async.bulk, st.async) will read or write once it gets to it: `lane` issues
// it now, and only a warp that learns of `tick` of the engine knows that it is done.
// `proxy`: it goes through the async proxy, which sees generic writes only after a proxy fence.
void check_shared_copy(Warp& w, Block& owner, uint32_t offset, uint32_t bytes, int lane,
                       AccessKind kind, uint32_t engine, uint32_t tick, bool proxy);

// mbarrier.init must have been shown to the async proxy before a copy signals the mbarrier.
void check_barrier_shown(Warp& w, int lane, const Mbarrier& barrier);

inline uint32_t cluster_warp(const Warp& w) {
  return w.first_cluster_warp + w.index;
}

}  // namespace fusednorm::emulator
