// SPDX-License-Identifier: Apache-2.0
// Which warp has synchronised with which accesses: vector clocks, fences and flags, as far as the
// PTX memory model orders the accesses of our kinds of kernels. race_checker.h (shared memory) and
// global_races.h ask it.
//
// Every warp counts ticks; a barrier, a warp-level sync or a fence ends a tick. An access is
// stamped (warp, tick). A warp knows of it once its clock for that warp has reached the tick:
//   by a barrier of the block, a releasing barrier of the cluster, or an mbarrier: a warp leaves
//     what it knows where it arrives, and takes what others left once it has waited;
//   by a flag: a fence closes what a warp knows; a strong store or atomic after it publishes that
//     at its address; a strong load or atomic that comes later at that address observes it, and a
//     fence after that acquires it (.release and .acquire are access and fence in one). Fence and
//     flag must be wide enough: .cta reaches the block, .cluster the cluster, .gpu and .sys
//     every block.
// A lane that arrives or fences alone speaks for itself and for lanes it has synchronised with, not
// for the rest of its warp; in global memory lanes are not told apart.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace fusednorm::emulator {

struct Warp;
struct Flag;

enum Scope : uint8_t { kScopeBlock, kScopeCluster, kScopeDevice, kScopeSystem };

// The first `count` releases at a flag.
struct Observation {
  const Flag* flag;
  size_t count;
};

// A tick that is known of one thread only.
struct LaneTick {
  uint16_t thread;  // in the cluster
  uint32_t tick;
};

struct Knowledge {
  std::vector<uint32_t> clock;  // ticks by warp of the cluster, then by copy engine of its blocks
  std::vector<LaneTick> lanes;  // beyond the clock of their warps
  std::vector<uint32_t> proxy;  // of these, what fence.proxy.async has shown to the copy engines
  std::vector<Observation> acquired;  // releases of other clusters
  std::vector<Observation> observed;  // flags read with no fence since
  bool cluster_started = false;       // all blocks of the cluster have: a cluster barrier completed
  bool dependency_met = false;        // griddepcontrol.wait: earlier launches are over

  void join(const Knowledge& other);
  void clear();
};

// What a warp had fenced when it stored a flag.
struct Release {
  uint64_t cluster;
  uint32_t rank, warp;                     // the block's, and the warp's in the cluster
  std::shared_ptr<const Knowledge> of[3];  // for readers in the block, the cluster, the device
};

// An address at which strong stores publish.
struct Flag {
  std::vector<Release> releases;
};

// What a warp knows, and what only some of its lanes know as yet.
struct WarpOrder {
  uint32_t tick = 1;
  uint32_t full_sync_tick = 0;            // all lanes know of each other's accesses up to here
  std::unique_ptr<uint32_t[]> lane_sync;  // [lane][lane], only after a sync of part of the warp
  Knowledge known;
  struct Part {
    uint32_t lanes;
    Knowledge known;
  };
  std::vector<Part> parts;
  std::shared_ptr<const Knowledge> fenced[3];               // by scope
  std::unordered_map<uint64_t, uint32_t> of_other_cluster;  // answers of knows()

  void reset(uint32_t floor, size_t clocks);
};

// Flags in global memory, of one launch.
class GlobalFlags {
 public:
  std::mutex mutex;
  Flag& at(uint64_t address) {
    any_.store(true, std::memory_order_relaxed);
    return flags_[address];
  }
  // nullptr: nothing was published there.
  const Flag* find(uint64_t address) const {
    const auto found = flags_.find(address);
    return found == flags_.end() ? nullptr : &found->second;
  }
  bool any() const { return any_.load(std::memory_order_relaxed); }  // most launches have none

 private:
  std::atomic<bool> any_{false};
  std::map<uint64_t, Flag> flags_;
};

constexpr int kWarpBits = 10;  // 16 blocks of 32 warps, and a copy engine each

// A __syncwarp, shuffle or the like with these lanes.
void order_lanes(Warp& w, uint32_t lanes);
// What these lanes leave at a barrier, accesses of their own included; the warp's next tick begins.
void leave_knowledge(Warp& w, uint32_t lanes, Knowledge& into);
// What these lanes take with them from a barrier or flag.
void take_knowledge(Warp& w, uint32_t lanes, const Knowledge& from);
// What each of these lanes knows, they all know: they learned it in one instruction.
void spread_knowledge(Warp& w, uint32_t lanes);
// As take_knowledge, for all lanes, which are also ordered among each other.
void take_at_barrier(Warp& w, const Knowledge& from);

void fence(Warp& w, uint32_t lanes, Scope scope);
void fence_proxy(Warp& w, uint32_t lanes);

// Around a strong access to a flag: publish before it is done, observe after, so that a warp that
// sees its value also learns what it published. `flags` are AccessFlags.
void publish_global(Warp& w, uint32_t lanes, const uint64_t address[32], uint8_t flags);
void observe_global(Warp& w, uint32_t lanes, const uint64_t address[32], uint8_t flags);
void publish_shared(Warp& w, int lane, uint64_t address, uint8_t flags);
void observe_shared(Warp& w, int lane, uint64_t address, uint8_t flags);

constexpr int kAnyLane = -1;
// Whether these lanes know of an access of another warp, by its lane `by`.
bool knows(Warp& w, uint32_t lanes, uint64_t cluster, uint32_t warp, int by, uint32_t tick);
// Whether a lane knows that the block of this rank has started.
bool knows_started(const Warp& w, int lane, uint32_t rank);

}  // namespace fusednorm::emulator
