// SPDX-License-Identifier: Apache-2.0
// A warp: 32 lanes, their registers, and the groups of lanes that are at different statements.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "counters.h"
#include "loads_in_flight.h"
#include "order.h"
#include "program.h"

namespace fusednorm::emulator {

struct Block;
struct Launch;
struct Allocation;
class WarpTrace;

constexpr uint32_t kFullMask = 0xffffffffu;

// Lanes that go through the program together.
struct Group {
  enum class State : uint8_t { Ready, AtBarrier, AtCollective, AtClusterWait };
  uint32_t pc = 0;
  uint32_t mask = 0;
  int join = -1;  // where these lanes wait for the others they parted from
  State state = State::Ready;
  uint32_t barrier = 0;   // AtBarrier: which
  bool deferred = false;  // it yielded: the other groups go first
};

// Lanes that parted at a branch and meet again at its immediate post-dominator.
struct Join {
  uint32_t pc = kNone;
  uint32_t expected = 0;
  uint32_t arrived = 0;
  int parent = -1;
};

// A cp.async that has been issued and not waited for.
struct PendingCopy {
  uint32_t mask;
  uint32_t bytes;
  uint32_t shared[32];
  uint64_t global[32];
  uint32_t source_bytes[32];
  uint32_t group[32];
  uint64_t ticket;  // of LoadsInFlight
  const Instruction* instruction;
};

struct alignas(64) Warp {
  uint8_t* file = nullptr;  // registers: [register][lane]
  Block* block = nullptr;
  Launch* launch = nullptr;
  const Instruction* current = nullptr;
  Counters* counters = nullptr;
  std::atomic<uint64_t>* stores = nullptr;  // Launch::Progress of the host thread
  uint32_t index = 0;                       // in the block
  uint32_t first_cluster_warp = 0;          // warps in the blocks of lower rank
  uint32_t exist = 0;                       // lanes of the block
  uint32_t alive = 0;                       // not exited
  std::vector<Group> groups;
  std::vector<Join> joins;
  std::vector<int> free_joins;
  uint32_t mask = 0;      // of the group that runs
  uint64_t executed = 0;  // statements, for schedules and the detection of spinning
  bool yielded = false;
  bool same_value_store = false;  // the store that runs gives equal values to equal addresses

  // One allocation, remembered from the last access.
  Allocation* recent = nullptr;

  LoadsInFlight loads;
  WarpTrace* trace = nullptr;  // null: nobody wants one
  std::vector<PendingCopy> copies;
  uint32_t copy_groups[32] = {};    // of cp.async, committed, a lane
  uint32_t bulk_groups[32] = {};    // of cp.async.bulk, likewise
  uint32_t cluster_phase[32] = {};  // at the lane's last barrier.cluster.arrive
  uint32_t cluster_signal = 0;      // of a trace, at the same place
  std::vector<uint8_t> local;       // [lane][local_bytes]

  WarpOrder order;  // for the race checks

  // Spin detection: the registers at a backward branch, and the launch's count of stores then.
  std::vector<uint8_t> snapshot;
  uint32_t snapshot_pc = kNone, snapshot_mask = 0;
  uint64_t snapshot_stores = 0;
  bool spinning = false;
  uint64_t next_spin_check = 4096, spin_interval = 4096;

  template <class T>
  T* reg(uint32_t offset) {
    return reinterpret_cast<T*>(__builtin_assume_aligned(file + offset, 4));
  }
  uint32_t& predicate(uint32_t offset) { return *reinterpret_cast<uint32_t*>(file + offset); }
  bool finished() const { return alive == 0; }
  // The lanes of a mask for which the guard of a statement holds.
  uint32_t guarded(const Instruction& i, uint32_t lanes) {
    if (i.guard == kNone) return lanes;
    const uint32_t p = predicate(i.guard);
    return lanes & (i.guard_negated ? ~p : p);
  }
  void count_store() {
    stores->store(stores->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  // Runs groups until none can go on, a quantum is used up or a statement asks to let others run.
  void run(uint64_t quantum);
  bool release_waiting_lanes();

 private:
  void run_group(size_t index, uint64_t limit);
  bool run_flow(size_t index, const Instruction& i, uint32_t active);
  void arrive(int join, uint32_t lanes);
  void exit_lanes(size_t group, uint32_t lanes);
  int make_join(uint32_t pc, uint32_t expected, int parent);
  void branch(Group& group, const Instruction& instruction, uint32_t taken);
  void branch_table(Group& group, const Instruction& instruction, uint32_t active);
  // warp_waiting.cpp
  bool collective_ready(const Instruction& instruction, uint32_t active);
  bool run_waiting_collectives();
  void detect_spin(const Group& group);
};

}  // namespace fusednorm::emulator
