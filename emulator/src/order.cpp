// SPDX-License-Identifier: Apache-2.0
// Which warp has synchronised with which accesses.
#include "order.h"

#include <algorithm>
#include <cstring>

#include "address_space.h"
#include "block.h"
#include "lanes.h"
#include "launch.h"
#include "memory_access.h"
#include "race_checker.h"

namespace fusednorm::emulator {

namespace {

void join_clock(std::vector<uint32_t>& into, const std::vector<uint32_t>& from) {
  if (into.size() < from.size()) into.resize(from.size(), 0);
  for (size_t k = 0; k < from.size(); ++k) into[k] = std::max(into[k], from[k]);
}

// Adds what is known of `one`'s key, or raises what is known already.
template <class Entry, class Key, class Value>
void add_or_raise(std::vector<Entry>& list, const Entry& one, Key Entry::*key,
                  Value Entry::*value) {
  for (Entry& known : list)
    if (known.*key == one.*key) {
      known.*value = std::max(known.*value, one.*value);
      return;
    }
  list.push_back(one);
}

void add_observation(std::vector<Observation>& list, const Observation& one) {
  add_or_raise(list, one, &Observation::flag, &Observation::count);
}

void add_lane(std::vector<LaneTick>& list, const LaneTick& one) {
  add_or_raise(list, one, &LaneTick::thread, &LaneTick::tick);
}

bool reaches(const Knowledge& known, uint32_t warp, int lane, uint32_t tick) {
  if (warp < known.clock.size() && known.clock[warp] >= tick) return true;
  return std::any_of(known.lanes.begin(), known.lanes.end(), [&](const LaneTick& one) {
    return one.thread / 32u == warp && (lane == kAnyLane || one.thread % 32 == lane) &&
           one.tick >= tick;
  });
}

// The accesses that these lanes have made or synchronised with.
void add_own(const Warp& w, uint32_t lanes, Knowledge& into) {
  const uint32_t warp = cluster_warp(w);
  const bool all = (w.alive & ~lanes) == 0;
  uint32_t& own = into.clock[warp];
  own = std::max(own, all ? w.order.tick : w.order.full_sync_tick);
  if (all) return;
  for_each_active(lanes, [&](int lane) {
    add_lane(into.lanes,
             {static_cast<uint16_t>(warp * 32 + static_cast<uint32_t>(lane)), w.order.tick});
    for (int k = 0; w.order.lane_sync && k < 32; ++k)
      if (w.order.lane_sync[lane * 32 + k] > own)
        add_lane(into.lanes, {static_cast<uint16_t>(warp * 32 + static_cast<uint32_t>(k)),
                              w.order.lane_sync[lane * 32 + k]});
  });
}

bool follows_order(const Warp& w) {
  return w.launch->checks.shared_races || w.launch->checks.global_races;
}

Scope scope_of(uint8_t flags) {
  return static_cast<Scope>((flags & kScopeMask) >> kScopeShift);
}

uint64_t cluster_of(const Warp& w) {
  return w.block->cluster->number;
}

// What these lanes know, their own accesses included.
Knowledge knowledge_of(const Warp& w, uint32_t lanes) {
  Knowledge all = w.order.known;
  for (const WarpOrder::Part& part : w.order.parts)
    if ((lanes & ~part.lanes) == 0) all.join(part.known);
  add_own(w, lanes, all);
  return all;
}

// Takes what the releases of an observation hold for a reader here, as far as `scope` reaches.
void acquire(Warp& w, uint32_t lanes, const Observation& seen, Scope scope) {
  Knowledge gained;
  size_t begin = 0;
  for (const Observation& known : w.order.known.acquired)
    if (known.flag == seen.flag) begin = known.count;
  bool elsewhere = false;
  for (size_t k = begin; k < seen.count; ++k) {
    const Release& release = seen.flag->releases[k];
    const Scope distance = release.cluster != cluster_of(w) ? kScopeDevice
                           : release.rank != w.block->rank  ? kScopeCluster
                                                            : kScopeBlock;
    if (distance > scope || !release.of[distance]) continue;
    if (distance == kScopeDevice)
      elsewhere = true;
    else
      gained.join(*release.of[distance]);
  }
  if (elsewhere) add_observation(gained.acquired, seen);
  take_knowledge(w, lanes, gained);
}

void publish(Warp& w, Flag& flag, uint8_t flags, bool replaces) {
  const std::shared_ptr<const Knowledge>* fenced = w.order.fenced;
  if (!fenced[kScopeBlock]) return;
  Release release{cluster_of(w), w.block->rank, cluster_warp(w), {}};
  for (int s = 0; s <= std::min<int>(scope_of(flags), kScopeDevice); ++s) release.of[s] = fenced[s];
  for (auto it = flag.releases.rbegin(); it != flag.releases.rend(); ++it) {
    if (it->cluster != release.cluster || it->warp != release.warp) continue;
    // A warp that spins on an atomic says the same thing each time.
    if (std::equal(it->of, it->of + 3, release.of)) return;
    if (replaces) {
      *it = release;
      return;
    }
    break;
  }
  flag.releases.push_back(std::move(release));
}

bool found_in(const std::vector<Observation>& seen, uint64_t cluster, uint32_t warp, uint32_t tick,
              std::map<const Flag*, size_t>& done) {
  for (const Observation& at : seen) {
    size_t& from = done[at.flag];
    const size_t begin = from;
    from = std::max(from, at.count);
    for (size_t k = begin; k < at.count; ++k) {
      const Release& release = at.flag->releases[k];
      const Knowledge* known = release.of[kScopeDevice].get();
      if (!known) continue;
      if (release.cluster == cluster && reaches(*known, warp, kAnyLane, tick)) return true;
      if (found_in(known->acquired, cluster, warp, tick, done)) return true;
    }
  }
  return false;
}

}  // namespace

void Knowledge::join(const Knowledge& other) {
  join_clock(clock, other.clock);
  join_clock(proxy, other.proxy);
  for (const LaneTick& one : other.lanes) add_lane(lanes, one);
  if (!lanes.empty())
    lanes.erase(std::remove_if(lanes.begin(), lanes.end(),
                               [&](const LaneTick& one) {
                                 return one.thread / 32u < clock.size() &&
                                        one.tick <= clock[one.thread / 32];
                               }),
                lanes.end());
  for (const Observation& one : other.acquired) add_observation(acquired, one);
  for (const Observation& one : other.observed) add_observation(observed, one);
  cluster_started = cluster_started || other.cluster_started;
  dependency_met = dependency_met || other.dependency_met;
}

void Knowledge::clear() {
  clock.clear();
  lanes.clear();
  proxy.clear();
  acquired.clear();
  observed.clear();
  cluster_started = dependency_met = false;
}

void WarpOrder::reset(uint32_t floor, size_t clocks) {
  tick = floor + 1;
  full_sync_tick = floor;
  lane_sync.reset();
  known.clear();
  known.clock.assign(clocks, floor);
  parts.clear();
  for (auto& one : fenced) one.reset();
  of_other_cluster.clear();
}

void order_lanes(Warp& w, uint32_t lanes) {
  WarpOrder& order = w.order;
  const bool all = (lanes & w.alive) == w.alive;
  for (size_t k = 0; k < order.parts.size();) {
    WarpOrder::Part& part = order.parts[k];
    if (part.lanes & lanes) part.lanes |= lanes;
    if ((w.alive & ~part.lanes) == 0) {
      order.known.join(part.known);
      order.parts.erase(order.parts.begin() + static_cast<std::ptrdiff_t>(k));
    } else {
      ++k;
    }
  }
  if (all) {
    order.full_sync_tick = order.tick++;
    return;
  }
  if (!order.lane_sync) order.lane_sync.reset(new uint32_t[32 * 32]());
  uint32_t known[32] = {};
  for_each_active(lanes, [&](int lane) {
    for (int k = 0; k < 32; ++k) known[k] = std::max(known[k], order.lane_sync[lane * 32 + k]);
  });
  for_each_active(lanes, [&](int lane) { known[lane] = order.tick; });
  for_each_active(lanes,
                  [&](int lane) { std::memcpy(&order.lane_sync[lane * 32], known, sizeof known); });
  ++order.tick;
}

void leave_knowledge(Warp& w, uint32_t lanes, Knowledge& into) {
  into.join(w.order.known);
  for (const WarpOrder::Part& part : w.order.parts)
    if (lanes & part.lanes) into.join(part.known);  // each lane brings its own
  add_own(w, lanes, into);
  ++w.order.tick;
}

void take_knowledge(Warp& w, uint32_t lanes, const Knowledge& from) {
  if ((w.alive & ~lanes) == 0) {
    w.order.known.join(from);
    return;
  }
  for (WarpOrder::Part& part : w.order.parts)
    if (part.lanes == lanes) {
      part.known.join(from);
      return;
    }
  w.order.parts.push_back({lanes, from});
}

void spread_knowledge(Warp& w, uint32_t lanes) {
  Knowledge together;
  for (size_t k = 0; k < w.order.parts.size();) {
    WarpOrder::Part& part = w.order.parts[k];
    if ((part.lanes & ~lanes) == 0) {
      together.join(part.known);
      w.order.parts.erase(w.order.parts.begin() + static_cast<std::ptrdiff_t>(k));
    } else {
      ++k;
    }
  }
  take_knowledge(w, lanes, together);
}

void take_at_barrier(Warp& w, const Knowledge& from) {
  w.order.known.join(from);
  w.order.parts.clear();
  w.order.full_sync_tick = w.order.tick++;
}

void fence(Warp& w, uint32_t lanes, Scope scope) {
  if (!follows_order(w)) return;
  const auto taken = [&](std::vector<Observation>& observed) {
    if (observed.empty()) return;
    std::lock_guard<std::mutex> lock(w.launch->flags->mutex);
    const std::vector<Observation> list = scope >= kScopeDevice ? std::move(observed) : observed;
    if (scope >= kScopeDevice) observed.clear();
    for (const Observation& one : list) acquire(w, lanes, one, scope);
  };
  taken(w.order.known.observed);
  for (size_t k = 0; k < w.order.parts.size(); ++k)
    if ((lanes & ~w.order.parts[k].lanes) == 0) taken(w.order.parts[k].known.observed);
  const auto now = std::make_shared<const Knowledge>(knowledge_of(w, lanes));
  for (int s = 0; s <= std::min<int>(scope, kScopeDevice); ++s) w.order.fenced[s] = now;
  ++w.order.tick;
}

void fence_proxy(Warp& w, uint32_t lanes) {
  if (!follows_order(w)) return;
  const Knowledge now = knowledge_of(w, lanes);
  // The lanes' own accesses count in full: a lane that fences for others has synchronised with
  // them.
  Knowledge shown;
  shown.proxy = now.clock;
  shown.proxy[cluster_warp(w)] = w.order.tick;
  take_knowledge(w, lanes, shown);
  ++w.order.tick;
}

void publish_global(Warp& w, uint32_t lanes, const uint64_t address[32], uint8_t flags) {
  if (!follows_order(w)) return;
  if (flags & kRelease) fence(w, lanes, scope_of(flags));
  if (!w.order.fenced[kScopeBlock]) return;
  std::lock_guard<std::mutex> lock(w.launch->flags->mutex);
  for_each_active(lanes,
                  [&](int lane) { publish(w, w.launch->flags->at(address[lane]), flags, false); });
}

void observe_global(Warp& w, uint32_t lanes, const uint64_t address[32], uint8_t flags) {
  if (!follows_order(w) || !w.launch->flags->any()) return;
  std::lock_guard<std::mutex> lock(w.launch->flags->mutex);
  for_each_active(lanes, [&](int lane) {
    const Flag* flag = w.launch->flags->find(address[lane]);
    if (!flag) return;
    const Observation seen{flag, flag->releases.size()};
    if (flags & kAcquire)
      acquire(w, lanes, seen, scope_of(flags));
    else
      add_observation(w.order.known.observed, seen);
  });
}

void publish_shared(Warp& w, int lane, uint64_t address, uint8_t flags) {
  if (!follows_order(w)) return;
  if (flags & kRelease) fence(w, 1u << lane, scope_of(flags));
  if (w.order.fenced[kScopeBlock])
    publish(w, w.block->cluster->flags[shared_key(w, address)], flags, true);
}

void observe_shared(Warp& w, int lane, uint64_t address, uint8_t flags) {
  if (!follows_order(w)) return;
  const auto found = w.block->cluster->flags.find(shared_key(w, address));
  if (found == w.block->cluster->flags.end()) return;
  const Observation seen{&found->second, found->second.releases.size()};
  if (flags & kAcquire) {
    acquire(w, 1u << lane, seen, scope_of(flags));
  } else {
    Knowledge later;
    later.observed.push_back(seen);
    take_knowledge(w, 1u << lane, later);
  }
}

bool knows(Warp& w, uint32_t lanes, uint64_t cluster, uint32_t warp, int by, uint32_t tick) {
  if (cluster == cluster_of(w)) {
    if (reaches(w.order.known, warp, by, tick)) return true;
    return std::any_of(w.order.parts.begin(), w.order.parts.end(),
                       [&](const WarpOrder::Part& part) {
                         return (lanes & ~part.lanes) == 0 && reaches(part.known, warp, by, tick);
                       });
  }
  if (!w.launch->flags->any()) return false;
  const uint64_t key = cluster << kWarpBits | warp;
  const auto cached = w.order.of_other_cluster.find(key);
  if (cached != w.order.of_other_cluster.end() && cached->second >= tick) return true;
  std::lock_guard<std::mutex> lock(w.launch->flags->mutex);
  std::map<const Flag*, size_t> done;
  bool found = found_in(w.order.known.acquired, cluster, warp, tick, done);
  for (const WarpOrder::Part& part : w.order.parts)
    if (!found && (lanes & ~part.lanes) == 0)
      found = found_in(part.known.acquired, cluster, warp, tick, done);
  if (!found) return false;
  uint32_t& known = w.order.of_other_cluster[key];
  known = std::max(known, tick);
  return true;
}

bool knows_started(const Warp& w, int lane, uint32_t rank) {
  const size_t warps = w.block->warps.size();
  const uint32_t floor = w.block->tick_floor;
  const auto started = [&](const Knowledge& known) {
    if (known.cluster_started) return true;
    if (known.clock.size() < (rank + 1) * warps) return false;
    const auto first = known.clock.begin() + static_cast<std::ptrdiff_t>(rank * warps);
    return std::any_of(first, first + static_cast<std::ptrdiff_t>(warps),
                       [&](uint32_t tick) { return tick > floor; });
  };
  if (started(w.order.known)) return true;
  return std::any_of(w.order.parts.begin(), w.order.parts.end(), [&](const WarpOrder::Part& part) {
    return (part.lanes >> lane & 1) && started(part.known);
  });
}

}  // namespace fusednorm::emulator
