// SPDX-License-Identifier: Apache-2.0
// Races in global memory between warps of one launch.
#include "global_races.h"

#include <algorithm>

#include "block.h"
#include "lanes.h"
#include "launch.h"
#include "memory_access.h"
#include "race_checker.h"

namespace fusednorm::emulator {

namespace {

constexpr size_t kMostReaders = 8;

// The warp that made a LineAccess: strong (1 bit), cluster + 1, warp of the cluster (kWarpBits).
constexpr uint64_t kStrongBit = 1ull << 63;

uint64_t cluster_of(uint64_t who) {
  return ((who & ~kStrongBit) >> kWarpBits) - 1;
}
uint32_t warp_of(uint64_t who) {
  return static_cast<uint32_t>(who & ((1u << kWarpBits) - 1));
}

// The bytes of a line that an access wants, a bit each, and whose lane asked for each first.
struct LineMask {
  uint64_t bits[2] = {};
  bool touches(const uint64_t other[2]) const {
    return ((bits[0] & other[0]) | (bits[1] & other[1])) != 0;
  }
  void add(uint64_t begin, uint64_t end) {
    for (int half = 0; half < 2; ++half) {
      const uint64_t low = 64ull * half, from = std::max(begin, low), to = std::min(end, low + 64);
      if (from < to)
        bits[half] |= (to - from == 64 ? ~0ull : (1ull << (to - from)) - 1) << (from - low);
    }
  }
};

// One access of a warp while it is checked.
struct Check {
  Warp& w;
  Allocation& allocation;
  const uint64_t* address;
  uint32_t lanes, bytes;
  bool writes, strong;
  uint64_t who;
  uint32_t tick;

  [[noreturn]] void report(const char* before, uint64_t other, uint64_t at,
                           uint64_t shared[2]) const {
    const uint64_t byte =
        at + (shared[0] ? __builtin_ctzll(shared[0]) : 64 + __builtin_ctzll(shared[1]));
    int culprit = __builtin_ctz(lanes);
    for_each_active(lanes, [&](int lane) {
      if (byte - address[lane] < bytes) culprit = lane;
    });
    const uint32_t warps = static_cast<uint32_t>(w.block->warps.size());
    const uint32_t rank = warp_of(other) / warps;
    const uint64_t block = w.launch->block_number(cluster_of(other), rank);
    const bool same_block = block == w.block->linear;
    const uint32_t* grid = w.launch->grid;
    fault(kErrorLaunchFailure,
          std::string("global-memory race between ") + (same_block ? "warps" : "blocks") + ": " +
              (writes ? "write" : "read") + " at " + hexadecimal(address[culprit]) + " after a " +
              before + " by warp " + std::to_string(warp_of(other) % warps) + " of block (" +
              std::to_string(block % grid[0]) + ", " + std::to_string(block / grid[0] % grid[1]) +
              ", " + std::to_string(block / grid[0] / grid[1]) + ") with nothing to order them (" +
              (same_block ? "a barrier"
                          : "a fence, a flag or atomic, and a fence; a barrier of the cluster that "
                            "releases and acquires; a grid-wide barrier") +
              ")",
          culprit);
  }

  bool mine(const LineAccess& other) const {
    return (other.who | kStrongBit) == (who | kStrongBit);
  }

  // The record of another warp or time: refuses a conflict; what this access supersedes is taken
  // out: writes and reads by a write, and reads that come before this read.
  void against(LineAccess& other, const LineMask& mask, uint64_t at) const {
    if (!mask.touches(other.written) && !mask.touches(other.read)) return;
    const bool known = mine(other) || knows(w, lanes, cluster_of(other.who), warp_of(other.who),
                                            kAnyLane, other.tick);
    if (!known && !(strong && (other.who & kStrongBit)))
      for (const bool reads : {false, true}) {
        const uint64_t* theirs = reads ? other.read : other.written;
        if ((reads && !writes) || !mask.touches(theirs)) continue;
        uint64_t shared[2] = {mask.bits[0] & theirs[0], mask.bits[1] & theirs[1]};
        report(reads ? "read" : "write", other.who, at, shared);
      }
    for (int half = 0; half < 2; ++half) {
      if (writes) other.written[half] &= ~mask.bits[half];
      if (writes || (known && !strong)) other.read[half] &= ~mask.bits[half];
    }
  }

  void remember(LineAccess& own, const LineMask& mask) const {
    own.who = who;
    own.tick = tick;
    uint64_t* into = writes ? own.written : own.read;
    into[0] |= mask.bits[0];
    into[1] |= mask.bits[1];
  }

  bool same(const LineAccess& other) const { return other.who == who && other.tick == tick; }

  void line(uint64_t offset, const LineMask& mask) const {
    GlobalLine& line = allocation.shadow->line(offset);
    while (line.busy.exchange(1, std::memory_order_acquire)) __builtin_ia32_pause();
    struct Unlock {
      std::atomic<uint32_t>& busy;
      ~Unlock() { busy.store(0, std::memory_order_release); }
    } unlock{line.busy};
    const uint32_t launch = static_cast<uint32_t>(w.launch->id);
    if (line.launch != launch) {
      line.launch = launch;
      line.more = 0;
      line.written = line.readers = 0;
      line.first = LineAccess();
    }
    const bool records = writes || !strong;  // a polling load takes part in no race
    // Parameters: every block reads them, and nobody writes.
    if (!writes && !line.written && line.readers >= kMostReaders) return;
    if (writes) {
      line.written = 1;
      line.readers = 0;
    }
    if (line.more == 0 && (line.first.who == 0 || same(line.first))) {
      if (records) remember(line.first, mask);
      return;
    }
    const uint64_t at = allocation.address + offset;
    if (!same(line.first)) against(line.first, mask, at);
    LineAccess* own = same(line.first) || line.first.empty() ? &line.first : nullptr;
    if (line.more) {
      std::vector<LineAccess>& more = allocation.shadow->more(line);
      for (LineAccess& other : more)
        if (!same(other)) against(other, mask, at);
      more.erase(std::remove_if(more.begin(), more.end(),
                                [](const LineAccess& access) { return access.empty(); }),
                 more.end());
      for (LineAccess& other : more)
        if (same(other)) own = &other;
    }
    if (!records) return;
    if (!own) {
      if (!writes && line.readers >= kMostReaders) return;
      own = &allocation.shadow->more(line).emplace_back();
    }
    if (own->empty()) *own = LineAccess();
    if (!writes && !same(*own)) ++line.readers;
    remember(*own, mask);
  }
};

bool dependency_met(const Warp& w, uint32_t lanes) {
  if (w.order.known.dependency_met) return true;
  return std::any_of(w.order.parts.begin(), w.order.parts.end(), [&](const WarpOrder::Part& part) {
    return part.known.dependency_met && (lanes & ~part.lanes) == 0;
  });
}

// Sectors of an allocation that an unfinished earlier launch touched, and this warp is not to.
void check_dependency(Warp& w, const Allocation& allocation, uint32_t lanes,
                      const uint64_t address[32], uint32_t bytes, AccessKind kind) {
  for (const auto& earlier : w.launch->unfinished) {
    const auto found = earlier->touched.find(&allocation);
    if (found == earlier->touched.end()) continue;
    for_each_active(lanes, [&](int lane) {
      const uint64_t origin = allocation.address / 32, begin = address[lane] / 32 - origin,
                     end = (address[lane] + bytes + 31) / 32 - origin;
      const bool stored = found->second.stored.any(begin, end);
      const bool loaded = kind != AccessKind::Load && found->second.loaded.any(begin, end);
      if (!stored && !loaded) return;
      fault(kErrorLaunchFailure,
            std::string(kind == AccessKind::Load ? "read" : "write") + " at " +
                hexadecimal(address[lane]) + " before griddepcontrol.wait: the launch of " +
                earlier->kernel + ", which may still run, " + (stored ? "writes" : "reads") +
                " there (cudaGridDependencySynchronize comes first)",
            lane);
    });
  }
}

}  // namespace

void check_global(Warp& w, Allocation& allocation, uint32_t lanes, const uint64_t address[32],
                  uint32_t bytes, bool contiguous, AccessKind kind, uint8_t flags) {
  const bool strong = kind == AccessKind::Atomic || (flags & kStrong);
  const Check check{
      w,
      allocation,
      address,
      lanes,
      bytes,
      kind != AccessKind::Load,
      strong,
      (w.block->cluster->number + 1) << kWarpBits | cluster_warp(w) | (strong ? kStrongBit : 0),
      w.order.tick};
  if (!w.launch->unfinished.empty() && !dependency_met(w, lanes))
    check_dependency(w, allocation, lanes, address, bytes, kind);
  LineMask mask;
  uint64_t line = ~0ull;  // its offset
  auto bytes_at = [&](uint64_t at, uint64_t end) {
    while (at < end) {
      const uint64_t here = at / kLineBytes * kLineBytes;
      if (here != line) {
        if (line != ~0ull) check.line(line, mask);
        line = here;
        mask = LineMask();
      }
      const uint64_t stop = std::min(end, here + kLineBytes);
      mask.add(at - here, stop - here);
      at = stop;
    }
  };
  if (contiguous) {
    const uint64_t offset = address[0] - allocation.address;
    bytes_at(offset, offset + 32ull * bytes);
  } else {
    for_each_active(lanes, [&](int lane) {
      const uint64_t offset = address[lane] - allocation.address;
      bytes_at(offset, offset + bytes);
    });
  }
  if (line != ~0ull) check.line(line, mask);
}

}  // namespace fusednorm::emulator
