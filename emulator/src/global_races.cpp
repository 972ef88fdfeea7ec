// Races in global memory between blocks of one launch.
#include "global_races.h"

#include <algorithm>

#include "lanes.h"
#include "race_checker.h"

namespace fusednorm::emulator {

void GlobalRaces::fence(uint64_t block) {
  BlockState& state = blocks_[block];
  state.fenced = state.clock++;
}

void GlobalRaces::publish(uint64_t block, uint64_t address) {
  BlockState& state = blocks_[block];
  if (state.fenced == 0 && state.seen.empty()) return;
  std::lock_guard<std::mutex> lock(mutex_);
  objects_[address].releases.push_back({block, state.fenced, state.seen});
}

void GlobalRaces::learn(uint64_t block, uint64_t address) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = objects_.find(address);
  if (found == objects_.end()) return;
  const Object* object = &found->second;
  for (Seen& seen : blocks_[block].seen)
    if (seen.object == object) {
      seen.count = object->releases.size();
      return;
    }
  blocks_[block].seen.push_back({object, object->releases.size()});
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

bool GlobalRaces::knows(uint64_t block, uint64_t other, uint32_t clock) {
  BlockState& state = blocks_[block];
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
  if (w.launch->global_races) w.launch->global_races->fence(w.block->linear);
}

void publish_at(Warp& w, uint32_t lanes, const uint64_t address[32], uint8_t flags) {
  GlobalRaces* races = w.launch->global_races;
  if (!races) return;
  if (flags & kRelease) races->fence(w.block->linear);
  for_each_active(lanes, [&](int lane) { races->publish(w.block->linear, address[lane]); });
}

void learn_at(Warp& w, uint32_t lanes, const uint64_t address[32]) {
  GlobalRaces* races = w.launch->global_races;
  if (!races) return;
  for_each_active(lanes, [&](int lane) { races->learn(w.block->linear, address[lane]); });
}

namespace {

// An access in a shadow cell of four bytes: strong (1 bit), which bytes (4), block + 1 (35), clock
// (24).
constexpr int kBlockShift = 24, kBytesShift = 59;
constexpr uint64_t kStrongBit = 1ull << 63;

uint64_t block_of(uint64_t stamp) {
  return (stamp >> kBlockShift & ((1ull << 35) - 1)) - 1;
}

[[noreturn]] void report(Warp& w, const char* now, const char* before, uint64_t stamp,
                         uint64_t address, int lane) {
  const uint64_t other = block_of(stamp);
  const uint32_t* grid = w.launch->grid;
  fault(kErrorLaunchFailure,
        std::string("global-memory race between blocks: ") + now + " at " + hexadecimal(address) +
            " after a " + before + " by block (" + std::to_string(other % grid[0]) + ", " +
            std::to_string(other / grid[0] % grid[1]) + ", " +
            std::to_string(other / grid[0] / grid[1]) +
            ") with nothing to order them (a fence and an atomic, or a grid-wide barrier)",
        lane);
}

}  // namespace

void check_global(Warp& w, Allocation& allocation, uint32_t lanes, const uint64_t address[32],
                  uint32_t bytes, AccessKind kind, uint8_t flags) {
  GlobalRaces& races = *w.launch->global_races;
  const uint64_t me = w.block->linear;
  const bool strong = kind == AccessKind::Atomic || (flags & kStrong),
             writes = kind != AccessKind::Load;
  const uint64_t stamp = (me + 1) << kBlockShift | races.clock(me) | (strong ? kStrongBit : 0);
  const uint32_t cells = bytes < 4 ? 1 : bytes / 4;
  auto conflicts = [&](uint64_t other, uint64_t which) {
    if (other == 0 || (other >> kBytesShift & 15 & which) == 0 || block_of(other) == me ||
        (strong && (other & kStrongBit)))
      return false;
    return !races.knows(me, block_of(other), static_cast<uint32_t>(other & 0xffffff));
  };
  for_each_active(lanes, [&](int lane) {
    const uint64_t offset = address[lane] - allocation.address;
    const uint64_t which = bytes >= 4 ? 15 : ((1ull << bytes) - 1) << (offset & 3);
    const uint64_t mine = stamp | which << kBytesShift;
    GlobalShadowCell* cell = &allocation.shadow[offset / 4];
    for (uint32_t k = 0; k < cells; ++k, ++cell) {
      const uint64_t writer = cell->writer.load(std::memory_order_relaxed);
      if (conflicts(writer, which))
        report(w, writes ? "write" : "read", "write", writer, address[lane], lane);
      if (writes) {
        const uint64_t reader = cell->reader.load(std::memory_order_relaxed);
        if (conflicts(reader, which)) report(w, "write", "read", reader, address[lane], lane);
        const uint64_t before = cell->writer.exchange(mine, std::memory_order_relaxed);
        if (before != writer && conflicts(before, which))
          report(w, "write", "write", before, address[lane], lane);
      } else if (!strong && cell->reader.load(std::memory_order_relaxed) != mine) {
        cell->reader.store(mine, std::memory_order_relaxed);
      }
    }
  });
}

}  // namespace fusednorm::emulator
