// Races in shared memory.
#include "race_checker.h"

#include <cstring>

#include "lanes.h"

namespace fusednorm::emulator {

uint32_t cluster_warp(const Warp& w) {
  return w.block->rank * static_cast<uint32_t>(w.block->warps.size()) + w.index;
}

namespace {

// Whether the access (thread, tick) is known to the current lane.
bool ordered(const Warp& w, uint32_t here, int lane, uint16_t thread, uint32_t tick) {
  const uint32_t other_warp = thread / 32;
  const int other_lane = thread % 32;
  if (other_warp != here) return w.clock[other_warp] >= tick;
  if (other_lane == lane || w.full_sync_tick >= tick) return true;
  return w.lane_sync && w.lane_sync[lane * 32 + other_lane] >= tick;
}

std::string thread_name(const Warp& w, uint16_t thread) {
  const uint32_t warps = static_cast<uint32_t>(w.block->warps.size());
  const uint32_t in_block = (thread / 32 % warps) * 32 + thread % 32;
  const uint32_t* size = w.launch->block;
  std::string name = "thread (" + std::to_string(in_block % size[0]) + ", " + std::to_string(in_block / size[0] % size[1]) + ", " +
                     std::to_string(in_block / size[0] / size[1]) + ")";
  if (w.block->cluster->blocks.size() > 1) name += " of the block of rank " + std::to_string(thread / 32 / warps);
  return name;
}

[[noreturn]] void report(const Warp& w, uint32_t here, const char* now, const char* before, uint16_t other, uint32_t offset, int lane) {
  const bool same_warp = other / 32 == here;
  fault(kErrorLaunchFailure,
        std::string("shared-memory race: ") + now + " at shared address " + hexadecimal(offset) + " after a " + before + " by " +
            thread_name(w, other) + " with no " +
            (same_warp ? "__syncwarp between them (the two threads are in one warp)" : "__syncthreads between them"),
        lane);
}

}  // namespace

void check_shared(Warp& w, Block& owner, uint32_t offset, uint32_t bytes, int lane, AccessKind kind, uint8_t flags) {
  const uint32_t here = cluster_warp(w);
  const uint16_t thread = static_cast<uint16_t>(here * 32 + static_cast<uint32_t>(lane));
  const bool strong = kind == AccessKind::Atomic || (flags & kStrong);
  const bool writes = kind != AccessKind::Load;
  const uint32_t floor = owner.tick_floor;
  SharedCell* cell = &owner.shadow[offset / 2];
  const uint32_t cells = bytes == 1 ? 1 : bytes / 2;
  const uint8_t which = bytes == 1 ? static_cast<uint8_t>(1 << (offset & 1)) : 3;
  for (uint32_t k = 0; k < cells; ++k, ++cell) {
    if (cell->write_tick > floor && (cell->write_bytes & which) && cell->writer != thread && !(strong && cell->write_strong) &&
        !ordered(w, here, lane, cell->writer, cell->write_tick)) {
      // Lanes of one store that agree on the value do no harm: the handler compares (see execute_memory.cpp).
      const bool same_store = writes && cell->writer / 32 == here && cell->write_tick == w.tick && w.same_value_store;
      if (!same_store) report(w, here, writes ? "write" : "read", "write", cell->writer, offset, lane);
    }
    if (writes) {
      if (cell->read_tick > floor && (cell->read_bytes & which) && cell->reader != thread && !(strong && cell->read_strong) &&
          !ordered(w, here, lane, cell->reader, cell->read_tick))
        report(w, here, "write", "read", cell->reader, offset, lane);
      cell->write_tick = w.tick;
      cell->writer = thread;
      cell->write_bytes = which;
      cell->write_strong = strong;
    }
    if (kind == AccessKind::Load) {
      cell->read_tick = w.tick;
      cell->reader = thread;
      cell->read_bytes = which;
      cell->read_strong = strong;
    }
  }
}

void order_lanes(Warp& w, uint32_t lanes) {
  if ((lanes & w.alive) == w.alive) {
    w.full_sync_tick = w.tick++;
    return;
  }
  if (!w.lane_sync) w.lane_sync.reset(new uint32_t[32 * 32]());
  uint32_t known[32] = {};
  for_each_active(lanes, [&](int lane) {
    for (int k = 0; k < 32; ++k) known[k] = std::max(known[k], w.lane_sync[lane * 32 + k]);
  });
  for_each_active(lanes, [&](int lane) { known[lane] = w.tick; });
  for_each_active(lanes, [&](int lane) { std::memcpy(&w.lane_sync[lane * 32], known, sizeof known); });
  ++w.tick;
}

void add_clock(std::vector<uint32_t>& into, const Warp& w) {
  if (into.size() < w.clock.size()) into.resize(w.clock.size(), 0);
  for (size_t k = 0; k < w.clock.size(); ++k) into[k] = std::max(into[k], w.clock[k]);
  uint32_t& own = into[cluster_warp(w)];
  own = std::max(own, w.tick);
}

void learn_clock(Warp& w, const std::vector<uint32_t>& from) {
  for (size_t k = 0; k < from.size(); ++k) w.clock[k] = std::max(w.clock[k], from[k]);
  w.full_sync_tick = w.tick++;
}

void check_global(Warp&, Allocation&, uint32_t, const uint64_t[32], uint32_t, AccessKind, uint8_t) {}

}  // namespace fusednorm::emulator
