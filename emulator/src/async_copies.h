// SPDX-License-Identifier: Apache-2.0
// What runs beside a cluster's threads: mbarriers, and copies (cp.async.bulk, st.async) that signal
// them or belong to a bulk group.
//
// A copy is checked when it is issued: the issuing lane must know of earlier accesses to the same
// bytes, and generic writes must have been shown to the async proxy. From then on the bytes belong
// to the block's copy engine, which has a clock like a warp; only a warp that waits for the
// mbarrier or the bulk group learns that the copy is done. It is carried out as late as can be:
// when a warp waits for it. So a missing wait shows as a race, or reads old data.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <vector>

#include "order.h"

namespace fusednorm::emulator {

struct Block;
struct Cluster;
struct Instruction;
struct Warp;

struct Mbarrier {
  uint32_t expected = 0, pending = 0;
  int64_t bytes = 0;         // expected by expect_tx and not yet copied
  uint32_t phase = 0;        // phases completed
  uint16_t initialiser = 0;  // thread in the cluster that executed mbarrier.init, and when
  uint32_t initialised = 0;
  Knowledge left, completed;
  // For the count of loads in flight: when the last arrival or copy came, and whose loads end then.
  uint64_t latest = 0;
  std::vector<std::pair<Warp*, uint64_t>> loads;
  uint32_t signal = 0, given = 0;  // of a trace: the phase that is collected, the one before it
};

struct AsyncCopy {
  Warp* issuer = nullptr;
  const Instruction* instruction = nullptr;
  int lane = 0;
  uint32_t bytes = 0;
  bool to_global = false;
  uint64_t global = 0;       // source or target in global memory; 0: none
  uint32_t from_shared = 0;  // rank and address, if the source is there
  uint32_t to_shared = 0;
  std::vector<uint8_t> value;      // st.async: what to store
  uint32_t barrier = 0;            // rank and address of the mbarrier; 0: a bulk group
  uint32_t group = 0;              // the lane's bulk group
  uint32_t engine = 0, tick = 0;   // stamp of its accesses to shared memory
  uint64_t load = 0, arrival = 0;  // LoadsInFlight's ticket of a load, and when it arrives
};

struct AsyncCopies {
  std::map<uint32_t, Mbarrier> barriers;  // by rank + 1 and address
  std::list<AsyncCopy> copies;            // issued, not yet carried out
  std::vector<uint32_t> engine_ticks;     // by block
  void clear(uint32_t blocks, uint32_t floor);
};

// rank + 1 and address of a shared address, which may name another block.
uint32_t shared_key(const Warp& w, uint64_t address);
Block& block_of_key(Cluster& cluster, uint32_t key);

// The mbarrier at a shared address, for an operation of a lane; `kind` says what it does to it.
enum class MbarrierUse : uint8_t { Init, Invalidate, Change, Test, Signal };
Mbarrier& mbarrier_at(Warp& w, int lane, uint64_t address, MbarrierUse use);

// Counts arrivals and bytes; completes the phase if that was all.
void mbarrier_arrive(Mbarrier& barrier, uint32_t count, int lane);
void mbarrier_expect(Mbarrier& barrier, int64_t bytes, int lane);
bool phase_is_over(const Mbarrier& barrier, uint32_t parity);

// Checks a copy's accesses to shared memory, stamps it and queues it.
void issue_copy(Warp& w, AsyncCopy copy, bool proxy);
// Carries out what was to signal the mbarrier at `key`.
void complete_copies_of(Cluster& cluster, uint32_t key);
// Carries out the copies of a lane's bulk groups but the last `pending`, and takes note of them.
void complete_groups_of(Warp& w, int lane, uint32_t pending);
// A block must not leave while copies in its shared memory are under way.
void check_copies_at_exit(Block& block);

}  // namespace fusednorm::emulator
