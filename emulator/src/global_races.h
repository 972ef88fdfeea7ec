// Races in global memory between blocks of one launch.
//
// Order is followed at the grain of blocks. A block's accesses carry its clock. A fence
// (__threadfence, or the release of an atomic) closes a clock; an atomic, volatile or release store
// after it publishes the closed clock at its address; an atomic, volatile or acquire load at that
// address by another block learns all that was published there before, and what the publishers had
// learned themselves. Two accesses of different blocks to the same bytes, one of them a write, not
// both atomic or volatile, are a race unless the later block has learned the earlier one's clock.
// Not followed: which warp of a block fenced (a barrier inside the block is taken for granted).
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "memory_access.h"

namespace fusednorm::emulator {

class GlobalRaces {
 public:
  explicit GlobalRaces(uint64_t blocks) : blocks_(blocks) {}
  void fence(uint64_t block);
  void publish(uint64_t block, uint64_t address);
  void learn(uint64_t block, uint64_t address);
  uint32_t clock(uint64_t block) const { return blocks_[block].clock; }
  // Whether `block` has learned what `other` did up to `clock`.
  bool knows(uint64_t block, uint64_t other, uint32_t clock);

 private:
  struct Object;
  struct Seen {
    const Object* object;
    size_t count;
  };
  struct Release {
    uint64_t block;
    uint32_t clock;
    std::vector<Seen> seen;
  };
  struct Object {
    std::vector<Release> releases;
  };
  struct BlockState {
    uint32_t clock = 1, fenced = 0;
    std::vector<Seen> seen;
    std::unordered_map<uint64_t, uint32_t> known;
  };
  bool search(const std::vector<Seen>& seen, uint64_t other, uint32_t clock,
              std::map<const Object*, size_t>& done) const;

  std::mutex mutex_;
  std::vector<BlockState> blocks_;
  std::map<uint64_t, Object> objects_;
};

void release_fence(Warp& w);

// Around an atomic, volatile, acquire or release access to a global address: publish before it is
// done, learn after, so that whoever sees its value also learns what it published.
void publish_at(Warp& w, uint32_t lanes, const uint64_t address[32], uint8_t flags);
void learn_at(Warp& w, uint32_t lanes, const uint64_t address[32]);

}  // namespace fusednorm::emulator
