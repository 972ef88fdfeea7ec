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

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace fusednorm::emulator {

struct Allocation;
struct Instruction;
struct Warp;
enum class AccessKind : uint8_t;

class GlobalRaces {
  struct Object;
  struct Seen {
    const Object* object;
    size_t count;
    bool operator==(const Seen& other) const {
      return object == other.object && count == other.count;
    }
  };

 public:
  // What a block that runs has fenced and learned; kept in the Block.
  struct BlockState {
    uint32_t clock = 1, fenced = 0;
    std::vector<Seen> seen;
    std::unordered_map<uint64_t, uint32_t> known;
  };

  static void fence(BlockState& state) { state.fenced = state.clock++; }
  void publish(const BlockState& state, uint64_t block, uint64_t address);
  void learn(BlockState& state, uint64_t address);
  // Whether the block has learned what `other` did up to `clock`.
  bool knows(BlockState& state, uint64_t other, uint32_t clock);

 private:
  struct Release {
    uint64_t block;
    uint32_t clock;
    std::vector<Seen> seen;
  };
  struct Object {
    std::vector<Release> releases;
  };
  bool search(const std::vector<Seen>& seen, uint64_t other, uint32_t clock,
              std::map<const Object*, size_t>& done) const;

  std::mutex mutex_;
  std::atomic<bool> any_published_{false};  // most launches order nothing: no lock for those
  std::map<uint64_t, Object> objects_;
};

// Checks and remembers an access of these lanes, all inside the allocation; contiguous: 32 lanes
// one behind the other.
void check_global(Warp& w, Allocation& allocation, uint32_t lanes, const uint64_t address[32],
                  uint32_t bytes, bool contiguous, AccessKind kind, uint8_t flags);

void release_fence(Warp& w);

// Around an atomic, volatile, acquire or release access to a global address: publish before it is
// done, learn after, so that whoever sees its value also learns what it published.
void publish_at(Warp& w, uint32_t lanes, const uint64_t address[32], uint8_t flags);
void learn_at(Warp& w, uint32_t lanes, const uint64_t address[32]);

// barrier.cluster orders the blocks of a cluster: arriving publishes, having waited learns.
void publish_to_cluster(Warp& w);
void learn_from_cluster(Warp& w);

}  // namespace fusednorm::emulator
