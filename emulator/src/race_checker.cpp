// SPDX-License-Identifier: Apache-2.0
// Races in shared memory.
#include "race_checker.h"

#include "lanes.h"

namespace fusednorm::emulator {

namespace {

// Whether the access (thread, tick) is known to the current lane.
bool ordered(Warp& w, uint32_t here, int lane, uint16_t thread, uint32_t tick) {
  const uint32_t other_warp = thread / 32;
  const int other_lane = thread % 32;
  if (other_warp == here) {
    if (other_lane == lane || w.order.full_sync_tick >= tick) return true;
    if (w.order.lane_sync && w.order.lane_sync[lane * 32 + other_lane] >= tick) return true;
  }
  return knows(w, 1u << lane, w.block->cluster->number, other_warp, other_lane, tick);
}

// Whether a copy engine sees a generic write that lane `lane` asks it to.
bool shown_to_engines(const Warp& w, int lane, uint16_t thread, uint32_t tick) {
  const auto shown = [&](const Knowledge& known) {
    return thread / 32u < known.proxy.size() && known.proxy[thread / 32] >= tick;
  };
  if (shown(w.order.known)) return true;
  for (const WarpOrder::Part& part : w.order.parts)
    if ((part.lanes >> lane & 1) && shown(part.known)) return true;
  return false;
}

uint32_t first_engine(const Warp& w) {
  return static_cast<uint32_t>(w.block->warps.size() * w.block->cluster->blocks.size());
}

std::string thread_name(const Warp& w, uint16_t thread) {
  const uint32_t warps = static_cast<uint32_t>(w.block->warps.size());
  if (thread / 32u >= first_engine(w)) return "an asynchronous copy (cp.async.bulk or st.async)";
  const uint32_t in_block = (thread / 32 % warps) * 32 + thread % 32;
  const uint32_t* size = w.launch->block;
  std::string name = "thread (" + std::to_string(in_block % size[0]) + ", " +
                     std::to_string(in_block / size[0] % size[1]) + ", " +
                     std::to_string(in_block / size[0] / size[1]) + ")";
  if (w.block->cluster->blocks.size() > 1)
    name += " of the block of rank " + std::to_string(thread / 32 / warps);
  return name;
}

// What is missing between this access and the one before.
std::string missing(const Warp& w, uint16_t other, bool luck) {
  const uint32_t warps = static_cast<uint32_t>(w.block->warps.size());
  if (other / 32u >= first_engine(w)) return "no wait for its mbarrier or bulk group between them";
  if (luck)
    return "no __syncwarp between them (the two threads are in one warp; volatile does not order "
           "them: which goes first is luck)";
  if (other / 32u == cluster_warp(w))
    return "no __syncwarp between them (the two threads are in one warp)";
  if (other / 32u / warps != w.block->rank)
    return "nothing to order them: a cluster barrier that releases and acquires, an mbarrier, or "
           "fences around a flag";
  return "no __syncthreads between them";
}

// An access while it is checked against what is remembered of a cell.
struct Check {
  Warp& w;
  uint32_t here, offset, floor;
  int lane;
  uint16_t thread;
  AccessKind kind;
  Strength strength;
  uint8_t which;

  bool writes() const { return kind != AccessKind::Load; }

  [[noreturn]] void report(const char* before, uint16_t other, bool luck) const {
    fault(kErrorLaunchFailure,
          std::string("shared-memory race: ") + (writes() ? "write" : "read") +
              " at shared address " + hexadecimal(offset) + " after a " + before + " by " +
              thread_name(w, other) + " with " + missing(w, other, luck),
          lane);
  }

  void against(const char* before, uint16_t other, uint32_t tick, Strength theirs) const {
    if (tick <= floor || other == thread) return;
    const bool both_strong = strength != Strength::Weak && theirs != Strength::Weak;
    const bool luck =
        other / 32u == here && strength == Strength::Volatile && theirs == Strength::Volatile;
    if (both_strong && !luck) return;
    if (!ordered(w, here, lane, other, tick)) report(before, other, luck);
  }

  void against_readers(Block& owner, SharedCell& cell) const {
    if (cell.read_bytes & which) against("read", cell.reader, cell.read_tick, cell.read_strength);
    if (!cell.more_readers) return;
    for (const SharedReader& reader : owner.readers[cell.more_readers - 1])
      against("read", reader.thread, reader.tick, reader.strength);
    owner.free_readers.push_back(cell.more_readers);
    cell.more_readers = 0;
  }

  // A read that the last one's reader does not come before stands beside it.
  void remember_read(Block& owner, SharedCell& cell, uint32_t tick) const {
    const bool beside = cell.read_tick > floor && cell.reader / 32 != thread / 32 &&
                        !ordered(w, here, lane, cell.reader, cell.read_tick);
    if (beside) {
      if (!cell.more_readers) {
        if (owner.free_readers.empty()) {
          owner.readers.emplace_back();
          cell.more_readers = static_cast<uint32_t>(owner.readers.size());
        } else {
          cell.more_readers = owner.free_readers.back();
          owner.free_readers.pop_back();
        }
        owner.readers[cell.more_readers - 1].clear();
      }
      std::vector<SharedReader>& list = owner.readers[cell.more_readers - 1];
      bool known = false;
      for (SharedReader& reader : list)
        if (reader.thread / 32 == cell.reader / 32) {
          reader = {cell.read_tick, cell.reader, cell.read_strength};
          known = true;
        }
      if (!known) list.push_back({cell.read_tick, cell.reader, cell.read_strength});
    }
    cell.read_tick = tick;
    cell.reader = thread;
    cell.read_bytes = which;
    cell.read_strength = strength;
  }
};

void check_shown(Warp& w, int lane, const SharedCell& cell, uint32_t offset, const char* verb) {
  if (cell.writer / 32u >= first_engine(w)) return;
  if (shown_to_engines(w, lane, cell.writer, cell.write_tick)) return;
  fault(kErrorLaunchFailure,
        std::string("shared-memory race between proxies: an asynchronous copy ") + verb +
            " shared address " + hexadecimal(offset) + " after a write by " +
            thread_name(w, cell.writer) + " that no fence.proxy.async has shown to the async proxy",
        lane);
}

}  // namespace

void check_barrier_shown(Warp& w, int lane, const Mbarrier& barrier) {
  if (shown_to_engines(w, lane, barrier.initialiser, barrier.initialised)) return;
  fault(kErrorLaunchFailure,
        "race between proxies: an asynchronous copy signals an mbarrier whose mbarrier.init by " +
            thread_name(w, barrier.initialiser) +
            " no fence.proxy.async or fence.mbarrier_init has shown to the async proxy",
        lane);
}

void check_shared(Warp& w, Block& owner, uint32_t offset, uint32_t bytes, int lane, AccessKind kind,
                  uint8_t flags) {
  const uint32_t here = cluster_warp(w);
  const uint16_t thread = static_cast<uint16_t>(here * 32 + static_cast<uint32_t>(lane));
  const Strength strength = (flags & kVolatile)                               ? Strength::Volatile
                            : kind == AccessKind::Atomic || (flags & kStrong) ? Strength::Atomic
                                                                              : Strength::Weak;
  const uint8_t which = bytes == 1 ? static_cast<uint8_t>(1 << (offset & 1)) : 3;
  const Check check{w, here, offset, owner.tick_floor, lane, thread, kind, strength, which};
  const bool writes = check.writes();
  const uint32_t tick = w.order.tick;
  SharedCell* cell = &owner.shadow[(offset - owner.shared_base) / 2];
  const uint32_t cells = bytes == 1 ? 1 : bytes / 2;
  for (uint32_t k = 0; k < cells; ++k, ++cell) {
    if (cell->write_bytes & which) {
      // Lanes of one store that agree on the value do no harm: the handler compares (see
      // execute_memory.cpp).
      const bool same_store =
          writes && w.same_value_store && cell->writer / 32u == here && cell->write_tick == tick;
      if (!same_store) check.against("write", cell->writer, cell->write_tick, cell->write_strength);
    }
    if (writes) {
      check.against_readers(owner, *cell);
      cell->write_tick = tick;
      cell->writer = thread;
      cell->write_bytes = which;
      cell->write_strength = strength;
    }
    if (kind == AccessKind::Load) check.remember_read(owner, *cell, tick);
  }
}

void check_shared_copy(Warp& w, Block& owner, uint32_t offset, uint32_t bytes, int lane,
                       AccessKind kind, uint32_t engine, uint32_t tick, bool proxy) {
  const uint32_t here = cluster_warp(w);
  const uint16_t issuer = static_cast<uint16_t>(here * 32 + static_cast<uint32_t>(lane));
  const uint16_t thread = static_cast<uint16_t>(engine * 32);
  Check check{w, here, offset, owner.tick_floor, lane, issuer, kind, Strength::Weak, 3};
  SharedCell* cell = &owner.shadow[(offset - owner.shared_base) / 2];
  for (uint32_t k = 0; k < (bytes + 1) / 2; ++k, ++cell) {
    if (cell->write_tick > owner.tick_floor) {
      check.against("write", cell->writer, cell->write_tick, Strength::Weak);
      if (proxy) check_shown(w, lane, *cell, offset + 2 * k, check.writes() ? "writes" : "reads");
    }
    if (check.writes()) {
      check.against_readers(owner, *cell);
      cell->write_tick = tick;
      cell->writer = thread;
      cell->write_bytes = 3;
      cell->write_strength = Strength::Weak;
    } else {
      Check engine_read = check;
      engine_read.thread = thread;
      engine_read.remember_read(owner, *cell, tick);
    }
  }
}

}  // namespace fusednorm::emulator
