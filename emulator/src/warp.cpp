// SPDX-License-Identifier: Apache-2.0
// Runs a warp: statement by statement, parting lanes at branches and joining them at
// post-dominators.
#include "warp.h"

#include <cstring>

#include "block.h"
#include "lanes.h"
#include "launch.h"
#include "memory_access.h"
#include "race_checker.h"
#include "trace.h"

namespace fusednorm::emulator {

int Warp::make_join(uint32_t pc, uint32_t expected, int parent) {
  const Join join{pc, expected, 0, parent};
  if (!free_joins.empty()) {
    const int index = free_joins.back();
    free_joins.pop_back();
    joins[index] = join;
    return index;
  }
  joins.push_back(join);
  return static_cast<int>(joins.size()) - 1;
}

void Warp::arrive(int index, uint32_t lanes) {
  Join& join = joins[index];
  join.arrived |= lanes;
  if (join.arrived != join.expected) return;
  if (join.arrived) {
    Group group;
    group.pc = join.pc;
    group.mask = join.arrived;
    group.join = join.parent;
    groups.push_back(group);
  }
  join.arrived = join.expected = 0;
  free_joins.push_back(index);
}

void Warp::exit_lanes(size_t index, uint32_t lanes) {
  Group& group = groups[index];
  alive &= ~lanes;
  group.mask &= ~lanes;
  std::vector<int> chain;
  for (int join = group.join; join >= 0; join = joins[join].parent) chain.push_back(join);
  if (group.mask == 0) {
    groups[index] = groups.back();
    groups.pop_back();
  }
  for (int join : chain) joins[join].expected &= ~lanes;
  for (int join : chain)
    if (joins[join].arrived == joins[join].expected) arrive(join, 0);
  if (alive == 0) block->count_loads(*this);
  block->cluster->lanes_exited(*this, lanes);
}

void Warp::branch(Group& group, const Instruction& i, uint32_t taken) {
  const uint32_t rest = group.mask & ~taken;
  if (rest == 0) {
    group.pc = i.target;
    return;
  }
  if (taken == 0) {
    ++group.pc;
    return;
  }
  ++counters->divergent_branches;
  int join = group.join;
  // A loop parts again and again towards the same place: one join serves all.
  if (i.reconverge != kNone && !(join >= 0 && joins[join].pc == i.reconverge))
    join = make_join(i.reconverge, group.mask, join);
  Group other;
  other.pc = i.target;
  other.mask = taken;
  other.join = join;
  group.mask = rest;
  group.join = join;
  ++group.pc;
  groups.push_back(other);
}

void Warp::branch_table(Group& group, const Instruction& i, uint32_t active) {
  const uint32_t* index = reg<uint32_t>(i.a);
  const uint32_t table_size = static_cast<uint32_t>(i.table.size());
  for_each_active(active, [&](int lane) {
    if (index[lane] >= table_size)
      fault(kErrorIllegalInstruction,
            "brx.idx with index " + std::to_string(index[lane]) + " into " +
                std::to_string(table_size) + " targets",
            lane);
  });
  const uint32_t first = i.table[index[__builtin_ctz(active)]];
  uint32_t same = 0;
  for_each_active(active,
                  [&](int lane) { same |= uint32_t{i.table[index[lane]] == first} << lane; });
  if (same == group.mask) {
    group.pc = first;
    return;
  }
  ++counters->divergent_branches;
  int join = group.join;
  if (i.reconverge != kNone && !(join >= 0 && joins[join].pc == i.reconverge))
    join = make_join(i.reconverge, group.mask, join);
  const uint32_t pc = group.pc, passed = group.mask & ~active;
  std::vector<Group> parts;
  for (uint32_t left = active; left;) {
    const uint32_t target = i.table[index[__builtin_ctz(left)]];
    uint32_t lanes = 0;
    for_each_active(left,
                    [&](int lane) { lanes |= uint32_t{i.table[index[lane]] == target} << lane; });
    left &= ~lanes;
    Group part;
    part.pc = target;
    part.mask = lanes;
    part.join = join;
    parts.push_back(part);
  }
  if (passed) {
    Group part;
    part.pc = pc + 1;
    part.mask = passed;
    part.join = join;
    parts.push_back(part);
  }
  group = parts.back();
  parts.pop_back();
  groups.insert(groups.end(), parts.begin(), parts.end());
}

// What is not the next instruction nor a branch of the whole group: divergence, exits, barriers and
// collectives. groups[index].pc is that of `i`; whether the group runs on behind it.
bool Warp::run_flow(size_t index, const Instruction& i, uint32_t active) {
  Group& group = groups[index];
  switch (i.flow) {
    case Flow::Branch:
      branch(group, i, active);
      return false;
    case Flow::BranchTable:
      if (active == 0) {
        ++group.pc;
      } else {
        branch_table(group, i, active);
      }
      return false;
    case Flow::Exit:
      ++group.pc;
      if (active) exit_lanes(index, active);
      return false;
    case Flow::Barrier:
      if (active == 0) {
        ++group.pc;
      } else {
        if (active != mask) {
          Group passed = group;
          passed.mask = mask & ~active;
          ++passed.pc;
          group.mask = active;
          groups.push_back(passed);
        }
        block->arrive(*this, groups[index], i, true);
      }
      return false;
    case Flow::BarrierArrive:
      ++group.pc;
      if (active) block->arrive(*this, group, i, false);
      return false;
    case Flow::Collective:
    case Flow::WarpBarrier:
      if (active && !collective_ready(i, active)) {
        group.state = Group::State::AtCollective;
        return false;
      }
      if (active) {
        i.handler(*this, i, active);
        order_lanes(*this, active);
      }
      return true;
    case Flow::ClusterArrive:
      if (active) block->cluster->cluster_arrive(*this, active, i.flags & kRelaxedArrive);
      return true;
    case Flow::ClusterWait:
      group.state = Group::State::AtClusterWait;
      if (trace) trace->wait(cluster_signal);
      return false;
    default:
      return true;
  }
}

void Warp::run_group(size_t index, uint64_t limit) {
  const Instruction* const code = launch->program->code.data();
  Counters& count = *counters;
  uint32_t pc = groups[index].pc;
  mask = groups[index].mask;
  const uint32_t join_pc = groups[index].join >= 0 ? joins[groups[index].join].pc : kNone;
  const uint32_t lanes = static_cast<uint32_t>(__builtin_popcount(mask));
  uint64_t weighted = 0, raw = 0;
  uint64_t clocked = 0;  // of `weighted`: already on the clock of the loads
  auto flush_counts = [&] {
    loads.advance(weighted - clocked);
    clocked = 0;
    count.warp_instructions += weighted;
    count.thread_instructions += weighted * lanes;
    count.raw_warp_instructions += raw;
    count.raw_thread_instructions += raw * lanes;
    executed += raw;
    weighted = raw = 0;
  };
  uint64_t budget = limit - executed;
  for (;;) {
    if (pc == join_pc) {
      flush_counts();
      const int join = groups[index].join;
      groups[index] = groups.back();
      groups.pop_back();
      arrive(join, mask);
      return;
    }
    if (raw >= budget || yielded) {
      flush_counts();
      groups[index].pc = pc;
      groups[index].deferred = yielded;
      return;
    }
    const Instruction& i = code[pc];
    current = &i;
    const uint32_t active = guarded(i, mask);
    if (i.in_flight) {
      loads.advance(weighted - clocked);
      clocked = weighted;
      loads.before(i);
    }
    weighted += i.cost;
    ++raw;
    if (trace) trace->begin(pc, active);
    if (i.flow == Flow::Next) {
      if (active) i.handler(*this, i, active);
      ++pc;
      continue;
    }
    if (i.flow == Flow::Branch && (active == 0 || active == mask)) {
      const bool backward = active && i.target <= pc;
      if (backward && executed + raw >= next_spin_check) {
        flush_counts();
        groups[index].pc = pc;
        detect_spin(groups[index]);
        pc = i.target;
        budget = limit > executed ? limit - executed : 0;
        continue;
      }
      pc = active ? i.target : pc + 1;
      continue;
    }
    flush_counts();
    groups[index].pc = pc;
    if (!run_flow(index, i, active)) return;
    ++pc;
  }
}

void Warp::run(uint64_t quantum) {
  const uint64_t limit = executed + quantum;
  std::mt19937_64* random = block->cluster->random.get();
  yielded = false;
  block->cluster->running = this;
  while (alive && executed < limit && !yielded) {
    size_t best = groups.size();
    size_t ready = 0;
    for (size_t k = 0; k < groups.size(); ++k) {
      Group& group = groups[k];
      if (group.state == Group::State::AtClusterWait &&
          block->cluster->phase > cluster_phase[__builtin_ctz(group.mask)]) {
        group.state = Group::State::Ready;
        ++group.pc;
        block->cluster->cluster_waited(*this, group.mask);
      }
      if (group.state != Group::State::Ready) continue;
      if (best != groups.size() && group.deferred && !groups[best].deferred) continue;
      if (best != groups.size() && !group.deferred && groups[best].deferred) {
        best = k;
        continue;
      }
      ++ready;
      // Lowest address first keeps lanes together; a random schedule takes any.
      const bool better =
          best == groups.size() || (random ? (*random)() % ready == 0 : group.pc < groups[best].pc);
      if (better) best = k;
    }
    if (best == groups.size()) {
      if (!run_waiting_collectives()) return;
      continue;
    }
    if (groups[best].deferred)
      for (Group& group : groups) group.deferred = false;
    run_group(best, limit);
  }
}

}  // namespace fusednorm::emulator
