// Finds accesses of threads to the same shared memory that nothing puts in order; global memory is
// in global_races.h.
//
// Every warp counts ticks; a barrier or warp-level sync ends a tick. An access is
// stamped (thread, tick). It is ordered before a later one by another thread
//   of another warp: if the later warp's clock knows that tick (barriers exchange clocks, so do
//   cluster barriers,
//     and a release read by an acquire);
//   of the same warp: if a __syncwarp, shuffle, vote or barrier with both lanes came between.
// Otherwise, if one of the two is a write and not both are atomic, it is a race. Two lanes that
// store the same value to one address in one instruction are let pass.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "memory_access.h"

namespace fusednorm::emulator {

struct SharedCell {
  uint32_t write_tick = 0, read_tick = 0;
  uint16_t writer = 0, reader = 0;          // thread in the cluster
  uint8_t write_bytes = 0, read_bytes = 0;  // which of the two bytes
  bool write_strong = false, read_strong = false;
};

void check_shared(Warp& w, Block& owner, uint32_t offset, uint32_t bytes, int lane, AccessKind kind,
                  uint8_t flags);

// A __syncwarp, shuffle or the like with these lanes.
void order_lanes(Warp& w, uint32_t lanes);
inline uint32_t cluster_warp(const Warp& w) {
  return w.first_cluster_warp + w.index;
}
void add_clock(std::vector<uint32_t>& into, const Warp& w);  // what a warp knows, itself included
void learn_clock(Warp& w, const std::vector<uint32_t>& from);

}  // namespace fusednorm::emulator
