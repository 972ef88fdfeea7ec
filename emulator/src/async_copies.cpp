// SPDX-License-Identifier: Apache-2.0
// Mbarriers and asynchronous copies of a cluster.
#include "async_copies.h"

#include <algorithm>
#include <cstring>

#include "address_space.h"
#include "block.h"
#include "launch.h"
#include "memory_access.h"
#include "race_checker.h"

namespace fusednorm::emulator {

namespace {

constexpr uint32_t kOffsetMask = (1u << kClusterRankShift) - 1;
constexpr int64_t kMostBytes = (1 << 20) - 1;  // that an mbarrier can be told to expect

void complete_phase_if_done(Mbarrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  ++barrier.phase;
  barrier.given = barrier.signal;
  barrier.signal = 0;
  barrier.pending = barrier.expected;
  barrier.completed.join(barrier.left);
  barrier.left.clear();
}

uint8_t* bytes_at(Cluster& cluster, uint32_t key) {
  Block& block = block_of_key(cluster, key);
  return block.shared.data() + ((key & kOffsetMask) - block.shared_base);
}

void mark_shared_written(Block& block, uint32_t key, uint32_t bytes) {
  const uint32_t offset = (key & kOffsetMask) - block.shared_base;
  for (uint32_t k = offset; k < offset + bytes; ++k)
    block.shared_written[k / 64] |= 1ull << (k % 64);
}

// What a warp that has waited for a copy knows: that the engine is done with it.
Knowledge done_with(const AsyncCopy& copy) {
  Knowledge done;
  done.clock.assign(copy.engine + 1, 0);
  done.clock[copy.engine] = copy.tick;
  done.proxy = done.clock;  // what engines wrote, engines see
  return done;
}

void carry_out(Cluster& cluster, const AsyncCopy& copy) {
  if (!copy.value.empty()) {
    std::memcpy(bytes_at(cluster, copy.to_shared), copy.value.data(), copy.bytes);
  } else {
    const uint8_t* from = copy.from_shared ? bytes_at(cluster, copy.from_shared)
                                           : generic_pointer(*copy.issuer, copy.global, copy.bytes,
                                                             copy.lane, AccessKind::Load);
    uint8_t* to = copy.to_global
                      ? const_cast<uint8_t*>(generic_pointer(*copy.issuer, copy.global, copy.bytes,
                                                             copy.lane, AccessKind::Store))
                      : bytes_at(cluster, copy.to_shared);
    std::memcpy(to, from, copy.bytes);
  }
  if (!copy.to_global)
    mark_shared_written(block_of_key(cluster, copy.to_shared), copy.to_shared, copy.bytes);
  copy.issuer->count_store();
  if (!copy.barrier) return;
  const auto found = cluster.async.barriers.find(copy.barrier);
  if (found == cluster.async.barriers.end())
    fault(kErrorIllegalAddress,
          copy.instruction->text + " signals an mbarrier that is no longer there", copy.lane);
  found->second.left.join(done_with(copy));
  if (copy.load) {
    found->second.latest = std::max(found->second.latest, copy.arrival);
    found->second.loads.push_back({copy.issuer, copy.load});
  }
  found->second.bytes -= copy.bytes;
  complete_phase_if_done(found->second);
}

}  // namespace

void AsyncCopies::clear(uint32_t blocks, uint32_t floor) {
  barriers.clear();
  copies.clear();
  engine_ticks.assign(blocks, floor);
}

uint32_t shared_key(const Warp& w, uint64_t address) {
  const uint32_t offset = static_cast<uint32_t>(address);
  if (offset >> kClusterRankShift) return offset;
  return offset | (w.block->rank + 1) << kClusterRankShift;
}

Block& block_of_key(Cluster& cluster, uint32_t key) {
  return cluster.blocks[(key >> kClusterRankShift) - 1];
}

Mbarrier& mbarrier_at(Warp& w, int lane, uint64_t address, MbarrierUse use) {
  const bool weak = use == MbarrierUse::Init || use == MbarrierUse::Invalidate;
  uint8_t* bytes = shared_pointer(w, address, 8, lane,
                                  weak                       ? AccessKind::Store
                                  : use == MbarrierUse::Test ? AccessKind::Load
                                                             : AccessKind::Atomic,
                                  weak ? 0 : kStrong);
  std::map<uint32_t, Mbarrier>& barriers = w.block->cluster->async.barriers;
  const uint32_t key = shared_key(w, address);
  if (use == MbarrierUse::Init) {
    std::memset(bytes, 0, 8);
    Mbarrier& barrier = barriers[key] = Mbarrier();
    barrier.initialiser = static_cast<uint16_t>(cluster_warp(w) * 32 + static_cast<uint32_t>(lane));
    barrier.initialised = w.order.tick;
    return barrier;
  }
  const auto found = barriers.find(key);
  if (found == barriers.end())
    fault(kErrorIllegalInstruction,
          "no mbarrier at shared address " + hexadecimal(address & kOffsetMask) +
              ": mbarrier.init was not executed for it",
          lane);
  return found->second;
}

void mbarrier_arrive(Mbarrier& barrier, uint32_t count, int lane) {
  if (count > barrier.pending)
    fault(kErrorLaunchFailure,
          "mbarrier: " + std::to_string(count) + " arrivals where " +
              std::to_string(barrier.pending) + " of " + std::to_string(barrier.expected) +
              " were left in this phase",
          lane);
  barrier.pending -= count;
  complete_phase_if_done(barrier);
}

void mbarrier_expect(Mbarrier& barrier, int64_t bytes, int lane) {
  barrier.bytes += bytes;
  if (barrier.bytes > kMostBytes || barrier.bytes < -kMostBytes)
    fault(kErrorLaunchFailure,
          "mbarrier: " + std::to_string(barrier.bytes) + " bytes expected, more than " +
              std::to_string(kMostBytes),
          lane);
}

bool phase_is_over(const Mbarrier& barrier, uint32_t parity) {
  return (barrier.phase & 1) != (parity & 1);
}

void issue_copy(Warp& w, AsyncCopy copy, bool proxy) {
  Cluster& cluster = *w.block->cluster;
  copy.issuer = &w;
  copy.instruction = w.current;
  copy.engine =
      static_cast<uint32_t>(w.block->warps.size() * cluster.blocks.size()) + w.block->rank;
  copy.tick = ++cluster.async.engine_ticks[w.block->rank];
  if (w.launch->checks.shared_races) {
    const auto check = [&](uint32_t key, uint32_t bytes, AccessKind kind) {
      if (key)
        check_shared_copy(w, block_of_key(cluster, key), key & kOffsetMask, bytes, copy.lane, kind,
                          copy.engine, copy.tick, proxy);
    };
    check(copy.from_shared, copy.bytes, AccessKind::Load);
    check(copy.to_shared, copy.bytes, AccessKind::Store);
    for (const uint32_t key : {copy.from_shared, copy.to_shared}) {
      if (!key || &block_of_key(cluster, key) == w.block) continue;
      std::vector<uint32_t>& ticks = block_of_key(cluster, key).remote_ticks;
      if (ticks.size() <= copy.engine) ticks.resize(copy.engine + 1, 0);
      ticks[copy.engine] = copy.tick;
    }
    if (proxy && copy.barrier)
      check_barrier_shown(w, copy.lane, cluster.async.barriers[copy.barrier]);
  }
  ++w.order.tick;
  cluster.async.copies.push_back(std::move(copy));
}

void complete_copies_of(Cluster& cluster, uint32_t key) {
  std::list<AsyncCopy>& copies = cluster.async.copies;
  for (auto it = copies.begin(); it != copies.end();) {
    if (it->barrier != key) {
      ++it;
      continue;
    }
    const AsyncCopy copy = std::move(*it);
    it = copies.erase(it);
    carry_out(cluster, copy);
  }
}

void complete_groups_of(Warp& w, int lane, uint32_t pending) {
  std::list<AsyncCopy>& copies = w.block->cluster->async.copies;
  for (auto it = copies.begin(); it != copies.end();) {
    if (it->barrier || it->issuer != &w || it->lane != lane ||
        it->group + pending >= w.bulk_groups[lane]) {
      ++it;
      continue;
    }
    const AsyncCopy copy = std::move(*it);
    it = copies.erase(it);
    carry_out(*w.block->cluster, copy);
    take_knowledge(w, 1u << lane, done_with(copy));
  }
}

void check_copies_at_exit(Block& block) {
  for (const AsyncCopy& copy : block.cluster->async.copies) {
    const bool touches = [&] {
      for (const uint32_t key : {copy.from_shared, copy.to_shared, copy.barrier})
        if (key && &block_of_key(*block.cluster, key) == &block) return true;
      return false;
    }();
    if (!touches) continue;
    block.cluster->running = copy.issuer;
    copy.issuer->current = copy.instruction;
    fault(kErrorIllegalAddress,
          "the block of rank " + std::to_string(block.rank) + " exits while " +
              copy.instruction->text +
              " may still access its shared memory: nobody has waited for the copy",
          copy.lane);
  }
}

}  // namespace fusednorm::emulator
