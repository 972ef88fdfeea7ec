// SPDX-License-Identifier: Apache-2.0
// A block and its cluster: setting up warps, the order in which they run, barriers, and which
// warp waits for which.
#include "block.h"

#include <algorithm>
#include <cstring>

#include "lanes.h"
#include "launch.h"
#include "memory_access.h"
#include "race_checker.h"
#include "trace.h"

namespace fusednorm::emulator {

namespace {

uint64_t special_value(const Warp& w, Special special, uint32_t lane) {
  const Launch& launch = *w.launch;
  const Block& block = *w.block;
  const uint32_t* size = launch.block;
  const uint32_t thread = w.index * 32 + lane;
  const uint32_t* cluster = launch.cluster;
  const uint32_t bit = 1u << lane;
  switch (special) {
    case Special::TidX:
      return thread % size[0];
    case Special::TidY:
      return thread / size[0] % size[1];
    case Special::TidZ:
      return thread / size[0] / size[1];
    case Special::NtidX:
      return size[0];
    case Special::NtidY:
      return size[1];
    case Special::NtidZ:
      return size[2];
    case Special::CtaidX:
      return block.index[0];
    case Special::CtaidY:
      return block.index[1];
    case Special::CtaidZ:
      return block.index[2];
    case Special::NctaidX:
      return launch.grid[0];
    case Special::NctaidY:
      return launch.grid[1];
    case Special::NctaidZ:
      return launch.grid[2];
    case Special::LaneId:
      return lane;
    case Special::WarpId:
      return w.index;
    case Special::NwarpId:
      return block.warps.size();
    case Special::SmId:
      return block.linear % launch.sm_count;
    case Special::NsmId:
      return launch.sm_count;
    case Special::GridId:
      return launch.id;
    case Special::LanemaskEq:
      return bit;
    case Special::LanemaskLt:
      return bit - 1;
    case Special::LanemaskLe:
      return bit | (bit - 1);
    case Special::LanemaskGt:
      return ~(bit | (bit - 1));
    case Special::LanemaskGe:
      return ~(bit - 1);
    case Special::ClusterIdX:
      return block.index[0] / cluster[0];
    case Special::ClusterIdY:
      return block.index[1] / cluster[1];
    case Special::ClusterIdZ:
      return block.index[2] / cluster[2];
    case Special::NclusterIdX:
      return launch.grid[0] / cluster[0];
    case Special::NclusterIdY:
      return launch.grid[1] / cluster[1];
    case Special::NclusterIdZ:
      return launch.grid[2] / cluster[2];
    case Special::ClusterCtaidX:
      return block.index[0] % cluster[0];
    case Special::ClusterCtaidY:
      return block.index[1] % cluster[1];
    case Special::ClusterCtaidZ:
      return block.index[2] % cluster[2];
    case Special::ClusterNctaidX:
      return cluster[0];
    case Special::ClusterNctaidY:
      return cluster[1];
    case Special::ClusterNctaidZ:
      return cluster[2];
    case Special::ClusterCtarank:
      return block.rank;
    case Special::ClusterNctarank:
      return launch.cluster_blocks();
    case Special::IsExplicitCluster:
      return launch.explicit_cluster;
    case Special::DynamicSharedBytes:
      return launch.dynamic_shared_bytes;
    case Special::TotalSharedBytes:
      return launch.dynamic_shared_bytes + launch.program->static_shared_bytes;
    case Special::Envreg1:
      return launch.grid_workspace >> 32;
    case Special::Envreg2:
      return launch.grid_workspace & 0xffffffffu;
    case Special::EnvregZero:
      return 0;
  }
  return 0;
}

void fill_specials(Warp& w) {
  for (const Program::SpecialSlot& slot : w.launch->program->specials) {
    if (slot.width == 0) {
      w.predicate(slot.offset) = special_value(w, slot.special, 0) ? kFullMask : 0;
      continue;
    }
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const uint64_t value = special_value(w, slot.special, lane);
      std::memcpy(w.file + slot.offset + slot.width * lane, &value, slot.width);
    }
  }
}

void fill_constants(const Program& program, uint8_t* file) {
  for (const Program::Constant& constant : program.constants) {
    if (constant.width == 0) {
      std::memcpy(file + constant.offset, &constant.low, 4);
      continue;
    }
    const uint64_t value[2] = {constant.low, constant.high};
    for (uint32_t lane = 0; lane < 32; ++lane)
      std::memcpy(file + constant.offset + constant.width * lane, value, constant.width);
  }
}

}  // namespace

void Block::start(Cluster& owner, uint64_t linear_index, uint32_t rank_, Counters& counters,
                  std::atomic<uint64_t>& stores) {
  const bool fresh = launch == nullptr;
  launch = owner.launch;
  cluster = &owner;
  rank = rank_;
  linear = linear_index;
  started = owner.launch->cluster_blocks() == 1;
  finished = false;
  index[0] = static_cast<uint32_t>(linear % launch->grid[0]);
  index[1] = static_cast<uint32_t>(linear / launch->grid[0] % launch->grid[1]);
  index[2] = static_cast<uint32_t>(linear / launch->grid[0] / launch->grid[1]);
  const Program& program = *launch->program;
  const uint32_t threads = launch->threads(), count = (threads + 31) / 32;
  const uint32_t shared_bytes = program.static_shared_bytes + launch->dynamic_shared_bytes;
  shared_base = program.shared_base;
  if (fresh) {
    shared.resize(shared_bytes);
    shadow.resize(launch->checks.shared_races ? shared_bytes / 2 + 8 : 0);
    warps = std::vector<Warp>(count);
    registers.reset(new uint8_t[size_t{count} * program.register_bytes + 64]);
    uint8_t* aligned =
        registers.get() + (64 - reinterpret_cast<uintptr_t>(registers.get()) % 64) % 64;
    for (uint32_t k = 0; k < count; ++k) {
      warps[k].file = aligned + size_t{k} * program.register_bytes;
      std::memset(warps[k].file, 0, program.register_bytes);
      fill_constants(program, warps[k].file);
      warps[k].local.resize(size_t{program.local_bytes} * 32);
    }
  }
  shared_written.assign(shared_bytes / 64 + 2, 0);
  first_level.clear();
  peak_load_bytes = 0;
  std::memset(shared.data(), 0xcd, shared.size());
  uint32_t top = tick_floor;
  for (Warp& w : warps) top = std::max(top, w.order.tick);
  for (uint32_t tick : owner.async.engine_ticks) top = std::max(top, tick);
  tick_floor = top;
  readers.clear();
  free_readers.clear();
  for (SharedCell& cell : shadow) cell.more_readers = 0;
  remote_ticks.clear();
  for (Barrier& barrier : barriers) barrier = Barrier();
  for (uint32_t k = 0; k < count; ++k) {
    Warp& w = warps[k];
    w.block = this;
    w.launch = launch;
    w.counters = &counters;
    w.stores = &stores;
    w.index = k;
    w.first_cluster_warp = rank * count;
    const uint32_t lanes = std::min(32u, threads - 32 * k);
    w.exist = w.alive = lanes == 32 ? kFullMask : (1u << lanes) - 1;
    w.groups.clear();
    w.joins.clear();
    w.free_joins.clear();
    Group group;
    group.mask = w.alive;
    w.groups.push_back(group);
    w.executed = 0;
    w.recent = nullptr;
    w.loads.start(*launch);
    w.copies.clear();
    std::memset(w.copy_groups, 0, sizeof w.copy_groups);
    std::memset(w.bulk_groups, 0, sizeof w.bulk_groups);
    w.trace = nullptr;
    if (owner.traced) {
      Trace& trace = *launch->trace;
      w.trace = &trace.warps.emplace_back(trace, owner.number, linear, rank, k);
    }
    w.snapshot_pc = kNone;
    w.spinning = false;
    w.next_spin_check = w.spin_interval = 1024;
    fill_specials(w);
  }
}

bool Block::step(std::mt19937_64* random, uint64_t quantum) {
  bool any = false;
  const size_t count = warps.size();
  const size_t first = random ? (*random)() % count : 0;
  for (size_t k = 0; k < count; ++k) {
    Warp& w = warps[(first + k) % count];
    if (w.finished()) continue;
    if (w.spinning && w.snapshot_stores != launch->stores()) w.spinning = false;
    const uint64_t before = w.executed;
    w.run(random ? 1 + (*random)() % 256 : quantum);
    if (w.executed != before && !w.spinning) any = true;
  }
  finished = std::all_of(warps.begin(), warps.end(), [](const Warp& w) { return w.finished(); });
  if (finished) check_exit();
  return any;
}

// A block that accesses this block's shared memory must have been waited for.
void Block::check_exit() {
  check_copies_at_exit(*this);
  if (remote_ticks.empty() || !launch->checks.shared_races) return;
  Knowledge all;
  for (const Warp& w : warps) all.join(w.order.known);
  for (size_t k = 0; k < remote_ticks.size(); ++k) {
    if (remote_ticks[k] <= std::max(all.clock[k], tick_floor)) continue;
    cluster->running = &warps.back();
    fault(
        kErrorIllegalAddress,
        "the block of rank " + std::to_string(rank) + " exits while " +
            (k < warps.size() * cluster->blocks.size()
                 ? "the block of rank " + std::to_string(k / warps.size())
                 : std::string("an asynchronous copy")) +
            " may still access its shared memory: no barrier of the cluster puts the access before "
            "the exit",
        -1);
  }
}

void Block::arrive(Warp& w, Group& group, const Instruction& i, bool wait) {
  const uint32_t id = w.reg<uint32_t>(i.a)[__builtin_ctz(group.mask)];
  if (id >= 16)
    fault(kErrorIllegalInstruction, "barrier " + std::to_string(id) + ": there are only 16",
          __builtin_ctz(group.mask));
  Barrier& barrier = barriers[id];
  const uint32_t all = static_cast<uint32_t>(warps.size()) * 32;
  const uint32_t expected = i.b == kNone ? all : w.reg<uint32_t>(i.b)[__builtin_ctz(group.mask)];
  if (expected == 0 || expected % 32 != 0)
    fault(kErrorIllegalInstruction,
          "barrier for " + std::to_string(expected) + " threads: not a multiple of the warp size",
          __builtin_ctz(group.mask));
  if (barrier.arrived == 0) {
    barrier.expected = expected;
    barrier.first = &i;
    barrier.predicate_count = barrier.predicate_lanes = 0;
    barrier.left.clear();
    barrier.latest = 0;
  } else if (barrier.expected != expected) {
    fault(kErrorLaunchFailure,
          "barrier " + std::to_string(id) + " for " + std::to_string(expected) +
              " threads, while others wait at it for " + std::to_string(barrier.expected),
          __builtin_ctz(group.mask));
  }
  uint32_t lanes = static_cast<uint32_t>(__builtin_popcount(group.mask));
  if (group.mask & 1)
    lanes += 32 - static_cast<uint32_t>(__builtin_popcount(w.exist));  // lanes a partial warp lacks
  barrier.arrived += lanes;
  if (i.immediate) {
    const uint32_t p = (i.flags & 1) ? ~w.predicate(i.c) : w.predicate(i.c);
    barrier.predicate_count += static_cast<uint32_t>(__builtin_popcount(p & group.mask));
    barrier.predicate_lanes += static_cast<uint32_t>(__builtin_popcount(group.mask));
  }
  leave_knowledge(w, group.mask, barrier.left);
  barrier.latest = std::max(barrier.latest, w.loads.clock());
  if (w.trace) {
    w.trace->arrive(barrier.signal);
    if (wait) w.trace->wait(barrier.signal);
  }
  ++w.counters->block_barriers;
  if (wait) {
    group.state = Group::State::AtBarrier;
    group.barrier = id;
  }
  release_if_complete(id);
}

void Block::release_if_complete(uint32_t id) {
  Barrier& barrier = barriers[id];
  if (barrier.arrived < barrier.expected) return;
  if (barrier.arrived > barrier.expected)
    fault(kErrorLaunchFailure,
          "barrier " + std::to_string(id) + " reached by " + std::to_string(barrier.arrived) +
              " threads, more than the " + std::to_string(barrier.expected) + " it is for",
          -1);
  const std::vector<Instruction>& code = launch->program->code;
  for (Warp& w : warps) {
    uint32_t pc = kNone;
    for (Group& group : w.groups) {
      if (group.state != Group::State::AtBarrier || group.barrier != id) continue;
      const Instruction& i = code[group.pc];
      if (pc != kNone && pc != group.pc && (i.flags & 2)) {
        cluster->running = &w;
        w.current = &i;
        fault(kErrorLaunchFailure,
              "barrier reached by part of a warp: lanes of one warp wait at " + i.text +
                  " on PTX lines " + std::to_string(code[pc].line) + " and " +
                  std::to_string(i.line),
              __builtin_ctz(group.mask));
      }
      pc = group.pc;
      if (i.immediate) {
        const uint32_t count = barrier.predicate_count;
        if (i.immediate == 1) {
          for_lanes(w.reg<uint32_t>(i.dst), group.mask, [=](int) { return count; });
        } else {
          const bool value = i.immediate == 2 ? count == barrier.predicate_lanes : count != 0;
          write_predicate(w, i.dst, group.mask, value ? kFullMask : 0);
        }
      }
      group.state = Group::State::Ready;
      ++group.pc;
    }
    if (pc != kNone) {
      take_at_barrier(w, barrier.left);
      w.loads.wait_until(barrier.latest);
    }
  }
  barrier.arrived = 0;
  barrier.signal = 0;
}

void Block::count_loads(Warp& w) {
  w.loads.finish(*w.counters);
  peak_load_bytes += w.loads.peak_bytes();
  w.counters->peak_load_bytes = std::max(w.counters->peak_load_bytes, peak_load_bytes);
}

}  // namespace fusednorm::emulator
