// SPDX-License-Identifier: Apache-2.0
// A block and the cluster it belongs to: shared memory, barriers, and the order in which warps run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "async_copies.h"
#include "first_level_cache.h"
#include "warp.h"

namespace fusednorm::emulator {

struct Cluster;

struct SharedCell;
struct SharedReader;

struct Barrier {
  uint32_t arrived = 0;  // lanes, those that a partial last warp lacks included
  uint32_t expected = 0;
  uint32_t predicate_count = 0, predicate_lanes = 0;
  Knowledge left;       // by the warps that have arrived
  uint64_t latest = 0;  // of their LoadsInFlight::clock()
  uint32_t signal = 0;  // of a trace
  const Instruction* first = nullptr;
};

struct Block {
  Launch* launch = nullptr;
  Cluster* cluster = nullptr;
  uint32_t rank = 0;  // in the cluster
  uint32_t index[3] = {};
  uint64_t linear = 0;
  bool started = false;
  bool finished = false;
  uint32_t shared_base = 0;  // the address of the first byte of `shared`
  std::vector<uint8_t> shared;
  std::vector<uint64_t> shared_written;            // a bit a byte
  std::vector<SharedCell> shadow;                  // a cell for two bytes
  std::vector<std::vector<SharedReader>> readers;  // of cells that several warps read
  std::vector<uint32_t> free_readers;
  // The last access of each warp (and copy engine) of other blocks to `shared`: its tick.
  std::vector<uint32_t> remote_ticks;
  std::vector<Warp> warps;
  std::unique_ptr<uint8_t[]> registers;  // of all warps
  FirstLevelCache first_level;
  uint64_t peak_load_bytes = 0;  // sum over the warps that have exited
  Barrier barriers[16];
  uint32_t tick_floor = 0;  // accesses up to here belong to a block that ran before

  // False if nothing could run.
  bool step(std::mt19937_64* random, uint64_t quantum);
  void start(Cluster& cluster, uint64_t linear, uint32_t rank, Counters& counters,
             std::atomic<uint64_t>& stores);
  void arrive(Warp& warp, Group& group, const Instruction& instruction, bool wait);
  void release_if_complete(uint32_t barrier);
  void count_loads(Warp& warp);  // that has exited

 private:
  void check_exit();
};

// Blocks that run together; a launch without clusters has clusters of one block.
struct Cluster {
  Launch* launch = nullptr;
  uint64_t number = 0;
  std::vector<Block> blocks;
  uint32_t phase = 0;
  uint32_t arrived = 0;  // lanes
  uint32_t total_lanes = 0;
  Knowledge left;                  // by the warps that have arrived
  Knowledge completed;             // of the phase that is over
  std::map<uint32_t, Flag> flags;  // in shared memory: by rank + 1 and address
  AsyncCopies async;
  uint64_t latest = 0, completed_latest = 0;  // of LoadsInFlight::clock() at the barrier
  uint32_t signal = 0;                        // of a trace
  Warp* running = nullptr;
  std::unique_ptr<std::mt19937_64> random;
  bool stalled = false;
  uint64_t stalled_at_stores = 0;
  bool traced = false;

  void start(Launch& launch, uint64_t index, Counters& counters, std::atomic<uint64_t>& stores,
             bool trace);
  // Runs until finished or nothing can go on; true when finished.
  bool run(uint64_t rounds);
  bool finished() const;
  void cluster_arrive(Warp& warp, uint32_t lanes, bool relaxed);
  void cluster_waited(Warp& warp, uint32_t lanes);
  void lanes_exited(Warp& warp, uint32_t lanes);
  bool complete_cluster_barrier();
  // Blocks of a cluster do not start at once: one more of them. False if all have.
  bool start_another();
  // Throws a fault that says which warp waits for which.
  [[noreturn]] void report_stall();
};

}  // namespace fusednorm::emulator
