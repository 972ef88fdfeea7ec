// SPDX-License-Identifier: Apache-2.0
// A model of time: replays traces of the emulated device on a few multiprocessors of a real one.
//
// What is modelled: four schedulers a multiprocessor that issue one warp instruction a cycle each,
// round robin; the width of each kind of unit; the latency from an instruction to the first that
// needs its result; shared memory by wavefronts; L1, L2 and DRAM, each with a latency and a rate,
// served in the order of asking; stores that drain from the L2 when DRAM has time; barriers of
// warps, blocks and clusters, mbarriers and asynchronous copies; blocks that start as others end;
// launches, and the gap between them. ptxas is played by a list scheduler within basic blocks.
//
// What is not: the instruction cache, the TLB, banks and channels of DRAM (their loss is in
// Gpu::copy_share), how ptxas allocates registers or unrolls, clocks that fall under load. It ranks
// designs. It is no measurement, and docs/cost-model.md says how far off it has been seen.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "devices.h"
#include "fusednorm_emulator.h"
#include "memory_model.h"
#include "prepared.h"

namespace fusednorm::cost {

/// Which clusters of a launch must be traced for the model: FUSEDNORM_EMULATOR_TRACE or _SKIP.
int choose_cluster(const FusednormEmulatorLaunch* launch, std::uint64_t cluster, void*);

struct LaunchTime {
  bool complete = false;  ///< false: warps of the trace wait for ever, and the rest means nothing
  double seconds = 0;     ///< without launch and gap
  double dram_bytes = 0;
  /// Shares of the time that units of the multiprocessor and the memory are at work.
  double dram_busy = 0, issue_busy = 0, shared_busy = 0, pipe_busy = 0;
  /// Bytes that a multiprocessor has asked of DRAM and not received, on average while it still
  /// asks.
  double bytes_in_flight = 0;
};

struct Prediction {
  double seconds = 0;  ///< all launches, with launching
  double dram_bytes = 0;
  std::vector<LaunchTime> launches;
  const char* bound = "";  ///< what keeps the longest launch from being faster
};

/// One launch by itself.
LaunchTime replay(const Gpu& gpu, const TracedLaunch& launch, const Prepared& prepared,
                  MemoryOptions memory);

/// Replays launches that follow each other in one stream, caches cold.
Prediction predict(const Gpu& gpu, const std::vector<TracedLaunch>& launches,
                   MemoryOptions memory = {});

}  // namespace fusednorm::cost
