// Races in global memory between blocks of one launch.
#include "global_races.h"

#include <algorithm>

#include "block.h"
#include "lanes.h"
#include "launch.h"
#include "memory_access.h"

namespace fusednorm::emulator {

void GlobalRaces::publish(const BlockState& state, uint64_t block, uint64_t address) {
  if (state.fenced == 0 && state.seen.empty()) return;
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Release>& releases = objects_[address].releases;
  any_published_.store(true, std::memory_order_relaxed);
  // A block that spins on an atomic says the same thing each time.
  if (!releases.empty() && releases.back().block == block &&
      releases.back().clock == state.fenced && releases.back().seen == state.seen)
    return;
  releases.push_back({block, state.fenced, state.seen});
}

void GlobalRaces::learn(BlockState& state, uint64_t address) {
  if (!any_published_.load(std::memory_order_relaxed)) return;
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = objects_.find(address);
  if (found == objects_.end()) return;
  const Object* object = &found->second;
  for (Seen& seen : state.seen)
    if (seen.object == object) {
      seen.count = object->releases.size();
      return;
    }
  state.seen.push_back({object, object->releases.size()});
}

bool GlobalRaces::search(const std::vector<Seen>& seen, uint64_t other, uint32_t clock,
                         std::map<const Object*, size_t>& done) const {
  for (const Seen& at : seen) {
    size_t& from = done[at.object];
    const size_t begin = from;
    from = std::max(from, at.count);
    for (size_t k = begin; k < at.count; ++k) {
      const Release& release = at.object->releases[k];
      if (release.block == other && release.clock >= clock) return true;
    }
    for (size_t k = begin; k < at.count; ++k)
      if (search(at.object->releases[k].seen, other, clock, done)) return true;
  }
  return false;
}

bool GlobalRaces::knows(BlockState& state, uint64_t other, uint32_t clock) {
  const auto cached = state.known.find(other);
  if (cached != state.known.end() && cached->second >= clock) return true;
  std::lock_guard<std::mutex> lock(mutex_);
  std::map<const Object*, size_t> done;
  if (!search(state.seen, other, clock, done)) return false;
  uint32_t& known = state.known[other];
  known = std::max(known, clock);
  return true;
}

void release_fence(Warp& w) {
  if (w.launch->global_races) GlobalRaces::fence(w.block->order);
}

void publish_at(Warp& w, uint32_t lanes, const uint64_t address[32], uint8_t flags) {
  GlobalRaces* races = w.launch->global_races;
  if (!races) return;
  if (flags & kRelease) GlobalRaces::fence(w.block->order);
  for_each_active(
      lanes, [&](int lane) { races->publish(w.block->order, w.block->linear, address[lane]); });
}

void learn_at(Warp& w, uint32_t lanes, const uint64_t address[32]) {
  GlobalRaces* races = w.launch->global_races;
  if (!races) return;
  for_each_active(lanes, [&](int lane) { races->learn(w.block->order, address[lane]); });
}

namespace {

// Barriers of clusters are published under an address no memory has: the first block of the
// cluster, odd.
uint64_t cluster_key(const Warp& w) {
  return w.block->cluster->blocks[0].linear * 2 + 1;
}

// The stamp of a LineAccess: strong (1 bit), block + 1 (39), clock (24).
constexpr int kBlockShift = 24;
constexpr uint64_t kStrongBit = 1ull << 63;

uint64_t block_of(uint64_t stamp) {
  return ((stamp & ~kStrongBit) >> kBlockShift) - 1;
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
  uint64_t stamp;

  [[noreturn]] void report(const char* before, uint64_t other_stamp, uint64_t at,
                           uint64_t shared[2]) const {
    const uint64_t byte =
        at + (shared[0] ? __builtin_ctzll(shared[0]) : 64 + __builtin_ctzll(shared[1]));
    int culprit = __builtin_ctz(lanes);
    for_each_active(lanes, [&](int lane) {
      if (byte - address[lane] < bytes) culprit = lane;
    });
    const uint64_t other = block_of(other_stamp);
    const uint32_t* grid = w.launch->grid;
    fault(kErrorLaunchFailure,
          std::string("global-memory race between blocks: ") + (writes ? "write" : "read") +
              " at " + hexadecimal(address[culprit]) + " after a " + before + " by block (" +
              std::to_string(other % grid[0]) + ", " + std::to_string(other / grid[0] % grid[1]) +
              ", " + std::to_string(other / grid[0] / grid[1]) +
              ") with nothing to order them (a fence and an atomic, or a grid-wide barrier)",
          culprit);
  }

  // The record of another block or time: refuses a conflict; what this access supersedes (the last
  // writer, the last reader of a byte) is taken out.
  void against(LineAccess& other, const LineMask& mask, uint64_t at) const {
    const bool mine = block_of(other.stamp) == w.block->linear;
    if (!mine && !(strong && (other.stamp & kStrongBit)))
      for (const bool reads : {false, true}) {
        const uint64_t* theirs = reads ? other.read : other.written;
        if ((reads && !writes) || !mask.touches(theirs)) continue;
        if (w.launch->global_races->knows(w.block->order, block_of(other.stamp),
                                          static_cast<uint32_t>(other.stamp & 0xffffff)))
          continue;
        uint64_t shared[2] = {mask.bits[0] & theirs[0], mask.bits[1] & theirs[1]};
        report(reads ? "read" : "write", other.stamp, at, shared);
      }
    for (int half = 0; half < 2; ++half) {
      if (writes) other.written[half] &= ~mask.bits[half];
      if (writes || !strong) other.read[half] &= ~mask.bits[half];
    }
  }

  void remember(LineAccess& own, const LineMask& mask) const {
    own.stamp = stamp;
    uint64_t* into = writes ? own.written : own.read;
    into[0] |= mask.bits[0];
    into[1] |= mask.bits[1];
  }

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
      line.first = LineAccess();
    }
    const bool records = writes || !strong;  // a polling load takes part in no race
    if (line.more == 0 && (line.first.stamp == stamp || line.first.stamp == 0)) {
      if (records) remember(line.first, mask);
      return;
    }
    const uint64_t at = allocation.address + offset;
    if (line.first.stamp != stamp) against(line.first, mask, at);
    LineAccess* own = line.first.stamp == stamp || line.first.empty() ? &line.first : nullptr;
    if (line.more) {
      std::vector<LineAccess>& more = allocation.shadow->more(line);
      for (LineAccess& other : more)
        if (other.stamp != stamp) against(other, mask, at);
      more.erase(std::remove_if(more.begin(), more.end(),
                                [](const LineAccess& access) { return access.empty(); }),
                 more.end());
      for (LineAccess& other : more)
        if (other.stamp == stamp) own = &other;
    }
    if (!records) return;
    if (!own) own = &allocation.shadow->more(line).emplace_back();
    remember(*own, mask);
  }
};

}  // namespace

void publish_to_cluster(Warp& w) {
  GlobalRaces* races = w.launch->global_races;
  if (!races || w.block->cluster->blocks.size() == 1) return;
  GlobalRaces::fence(w.block->order);
  races->publish(w.block->order, w.block->linear, cluster_key(w));
}

void learn_from_cluster(Warp& w) {
  GlobalRaces* races = w.launch->global_races;
  if (races && w.block->cluster->blocks.size() > 1) races->learn(w.block->order, cluster_key(w));
}

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
      (w.block->linear + 1) << kBlockShift | w.block->order.clock | (strong ? kStrongBit : 0)};
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
