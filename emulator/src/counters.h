// SPDX-License-Identifier: Apache-2.0
// What a launch is counted by; summed over the warps, so the order of execution does not show, but
// in what leaves the first-level cache of a block that loads more than that holds, and in loads
// in flight of lanes that have parted.
#pragma once

#include <cstdint>
#include <string>

namespace fusednorm::emulator {

struct Counters {
  uint64_t warp_instructions =
      0;  // weighted: moves 0, IEEE division, reciprocal and square root 10
  uint64_t thread_instructions = 0;    // the same a lane, lanes under a false predicate included
  uint64_t raw_warp_instructions = 0;  // every statement once
  uint64_t raw_thread_instructions = 0;
  uint64_t global_load_requests = 0, global_store_requests = 0;
  uint64_t global_load_sectors = 0, global_store_sectors = 0;      // requested
  uint64_t partial_store_sectors = 0;                              // not all bytes written
  uint64_t l2_load_sectors = 0;                                    // not found in the first level
  uint64_t distinct_load_sectors = 0, distinct_store_sectors = 0;  // DRAM traffic
  uint64_t shared_load_requests = 0, shared_store_requests = 0;
  uint64_t shared_wavefronts = 0, shared_ideal_wavefronts = 0;
  uint64_t local_requests = 0;
  uint64_t block_barriers = 0;  // warps arriving at a barrier of the block
  uint64_t cluster_barriers = 0;
  uint64_t warp_barriers = 0;
  uint64_t shuffles = 0, votes = 0;                 // warp instructions; votes with match and redux
  uint64_t global_atomics = 0, shared_atomics = 0;  // warp instructions
  uint64_t divergent_branches = 0;
  // Quarters of a cycle on the clocks of LoadsInFlight: bytes in flight times their time, and time.
  uint64_t load_byte_quarters = 0, warp_quarters = 0;
  uint64_t peak_load_bytes = 0;  // in flight, of the block that has most: not summed

  void add(const Counters& other);
};

}  // namespace fusednorm::emulator
