// SPDX-License-Identifier: Apache-2.0
// Launches one behind the other: which clusters are traced, what is still in the L2, gaps.
#include <algorithm>

#include "time_model.h"

namespace fusednorm::cost {
namespace {

constexpr double reused_share = 0.8;  // of the L2 that still holds the last launch's arrays
constexpr double small_share = 0.1;   // of the L2: an array that stays whatever streams by
constexpr double programmatic_gap_share = 0.3;

/// What the launch before has left in the L2: all it touched if that fits, else what is small, such
/// as the partial sums that it wrote last.
std::vector<bool> cached_arrays(const Gpu& gpu, const FusednormEmulatorTrace& trace,
                                const FusednormEmulatorTrace* before) {
  std::vector<bool> cached(trace.array_count, false);
  if (!before) return cached;
  double touched = 0;
  for (std::size_t k = 0; k < before->array_count; ++k)
    touched += static_cast<double>(before->arrays[k].bytes);
  const bool all = touched <= gpu.l2_bytes * reused_share;
  for (std::size_t k = 0; k < trace.array_count; ++k)
    for (std::size_t other = 0; other < before->array_count; ++other)
      if (trace.arrays[k].address == before->arrays[other].address)
        cached[k] = all || static_cast<double>(trace.arrays[k].bytes) <= gpu.l2_bytes * small_share;
  return cached;
}

const char* bound_of(const LaunchTime& launch, double launch_share) {
  if (launch_share > 0.4) return "launch";
  const double most =
      std::max({launch.dram_busy, launch.issue_busy, launch.pipe_busy, launch.shared_busy});
  if (most < 0.8) return "latency";
  return most == launch.dram_busy    ? "memory"
         : most == launch.issue_busy ? "issue"
         : most == launch.pipe_busy  ? "units"
                                     : "shared";
}

}  // namespace

int choose_cluster(const FusednormEmulatorLaunch* launch, std::uint64_t cluster, void*) {
  const Sets sets(*launch);
  if (cluster / sets.sets >= traced_turns) return FUSEDNORM_EMULATOR_SKIP;
  for (std::uint64_t k = 0; k < sets.replayed; ++k)
    if (cluster % sets.sets == sets.set(k)) return FUSEDNORM_EMULATOR_TRACE;
  return FUSEDNORM_EMULATOR_SKIP;
}

Prediction predict(const Gpu& gpu, const std::vector<TracedLaunch>& launches,
                   MemoryOptions memory) {
  Prediction out;
  double overhead = 0, longest = -1;
  const LaunchTime* main = nullptr;
  out.launches.reserve(launches.size());
  for (std::size_t k = 0; k < launches.size(); ++k) {
    Prepared prepared(launches[k], gpu);
    prepared.cached =
        cached_arrays(gpu, launches[k].trace, k > 0 ? &launches[k - 1].trace : nullptr);
    out.launches.push_back(replay(gpu, launches[k], prepared, memory));
    const LaunchTime& launch = out.launches.back();
    const double gap =
        k == 0 ? gpu.launch_us
               : gpu.gap_us * (launches[k].launch.programmatic ? programmatic_gap_share : 1);
    overhead += gap * 1e-6;
    out.seconds += launch.seconds + gap * 1e-6;
    out.dram_bytes += launch.dram_bytes;
    if (launch.seconds > longest) {
      longest = launch.seconds;
      main = &launch;
    }
  }
  if (main) out.bound = bound_of(*main, overhead / out.seconds);
  return out;
}

}  // namespace fusednorm::cost
