// SPDX-License-Identifier: Apache-2.0
// A cluster: blocks that run together, their barrier, and the report when nobody can go on.
#include <algorithm>

#include "block.h"
#include "lanes.h"
#include "launch.h"
#include "memory_access.h"
#include "race_checker.h"
#include "trace.h"

namespace fusednorm::emulator {

void Cluster::start(Launch& owner, uint64_t index, Counters& counters,
                    std::atomic<uint64_t>& stores, bool trace) {
  traced = trace;
  launch = &owner;
  number = index;
  const uint32_t count = owner.cluster_blocks();
  if (blocks.size() != count) blocks = std::vector<Block>(count);
  phase = arrived = 0;
  left.clear();
  flags.clear();
  latest = completed_latest = 0;
  signal = 0;
  stalled = false;
  total_lanes = owner.threads() * count;
  if (owner.seed) random.reset(new std::mt19937_64(owner.seed * 0x9e3779b97f4a7c15ull + index));
  for (uint32_t rank = 0; rank < count; ++rank)
    blocks[rank].start(*this, owner.block_number(number, rank), rank, counters, stores);
  // Ticks of all blocks of a cluster are compared with each other: one floor for all.
  uint32_t floor = 0;
  for (const Block& block : blocks) floor = std::max(floor, block.tick_floor);
  async.clear(count, floor);
  for (Block& block : blocks) {
    block.tick_floor = floor;
    for (Warp& w : block.warps) {
      w.order.reset(floor, block.warps.size() * count + count);
      std::fill(w.cluster_phase, w.cluster_phase + 32, 0);
    }
  }
}

bool Cluster::finished() const {
  return std::all_of(blocks.begin(), blocks.end(),
                     [](const Block& block) { return block.finished; });
}

bool Cluster::run(uint64_t rounds) {
  constexpr uint64_t kQuantum = 50000;
  stalled = false;
  for (uint64_t round = 0; round < rounds; ++round) {
    bool any = start_another();
    for (Block& block : blocks)
      if (block.started && !block.finished) any = block.step(random.get(), kQuantum) || any;
    if (finished()) return true;
    if (launch->stop.load(std::memory_order_relaxed)) return false;
    if (!any) {
      bool spins = false, released = false;
      for (Block& block : blocks)
        for (Warp& w : block.warps) {
          if (w.finished() || !w.spinning) continue;
          spins = true;
          if (w.release_waiting_lanes()) {
            released = true;
            w.spinning = false;
          }
        }
      if (released) continue;
      if (!spins) report_stall();
      stalled = true;
      stalled_at_stores = launch->stores();
      return false;
    }
  }
  return false;
}

void Cluster::cluster_arrive(Warp& w, uint32_t lanes, bool relaxed) {
  for_each_active(lanes, [&](int lane) { w.cluster_phase[lane] = phase; });
  arrived += static_cast<uint32_t>(__builtin_popcount(lanes));
  ++w.counters->cluster_barriers;
  latest = std::max(latest, w.loads.clock());
  if (w.trace) w.cluster_signal = w.trace->arrive(signal);
  if (!relaxed) leave_knowledge(w, lanes, left);
  complete_cluster_barrier();
}

bool Cluster::complete_cluster_barrier() {
  if (arrived < total_lanes || arrived == 0) return false;
  ++phase;
  arrived = 0;
  signal = 0;
  completed = left;
  completed.cluster_started = true;
  left.clear();
  completed_latest = latest;
  latest = 0;
  return true;
}

// Having arrived with .relaxed, a warp's lanes are not ordered among each other either.
void Cluster::cluster_waited(Warp& w, uint32_t lanes) {
  const bool released = cluster_warp(w) < completed.clock.size() &&
                        completed.clock[cluster_warp(w)] > w.block->tick_floor;
  take_knowledge(w, lanes, completed);
  if (released) order_lanes(w, lanes);
  w.loads.wait_until(completed_latest);
}

bool Cluster::start_another() {
  std::vector<Block*> waiting;
  for (Block& block : blocks)
    if (!block.started) waiting.push_back(&block);
  if (waiting.empty()) return false;
  waiting[random ? (*random)() % waiting.size() : 0]->started = true;
  return true;
}

void Cluster::lanes_exited(Warp&, uint32_t lanes) {
  total_lanes -= static_cast<uint32_t>(__builtin_popcount(lanes));
  complete_cluster_barrier();
}

void Cluster::report_stall() {
  const std::vector<Instruction>& code = launch->program->code;
  std::string what;
  const Warp* first = nullptr;
  int first_lane = -1, error = kErrorLaunchFailure;
  uint32_t at_barrier = 0, exited = 0, elsewhere = 0;
  for (const Block& block : blocks)
    for (const Warp& w : block.warps) {
      exited += static_cast<uint32_t>(__builtin_popcount(w.exist & ~w.alive));
      uint32_t grouped = 0;
      for (const Group& group : w.groups) {
        grouped |= group.mask;
        const uint32_t lanes = static_cast<uint32_t>(__builtin_popcount(group.mask));
        (group.state == Group::State::AtBarrier ? at_barrier : elsewhere) += lanes;
        if (!first || (group.state == Group::State::AtCollective &&
                       first->groups[0].state == Group::State::AtBarrier)) {
          first = &w;
          first_lane = __builtin_ctz(group.mask);
          const_cast<Warp&>(w).current = &code[group.pc];
        }
      }
      elsewhere += static_cast<uint32_t>(__builtin_popcount(w.alive & ~grouped));
    }
  const Instruction& i = *first->current;
  if (i.flow == Flow::Barrier) {
    what = "barrier reached by part of a block: " + std::to_string(at_barrier) +
           " threads wait at " + i.text + ", " + std::to_string(exited) + " have exited, " +
           std::to_string(elsewhere) +
           " wait elsewhere; all threads of the block must reach a barrier";
  } else if (i.flow == Flow::Collective || i.flow == Flow::WarpBarrier) {
    const uint32_t members = *(reinterpret_cast<const uint32_t*>(first->file + i.c) + first_lane);
    uint32_t here = 0;
    for (const Group& group : first->groups)
      if (&code[group.pc] == &i) here |= group.mask;
    what = i.text + " with member mask " + hexadecimal(members) +
           " waits for ever: of its lanes, " + hexadecimal(members & first->alive & ~here) +
           " never come here";
  } else {
    what = "deadlock: " + i.text + " waits for threads that never come";
    error = kErrorTimeout;
  }
  for (const Block& block : blocks)
    for (const Warp& w : block.warps)
      for (const Group& group : w.groups)
        if (group.state != Group::State::Ready && what.size() < 1500)
          what += "\n    block rank " + std::to_string(block.rank) + " warp " +
                  std::to_string(w.index) + " lanes " + hexadecimal(group.mask) + " at " +
                  code[group.pc].text + " (PTX line " + std::to_string(code[group.pc].line) + ")";
  running = const_cast<Warp*>(first);
  throw Fault(error, what, first_lane);
}

}  // namespace fusednorm::emulator
