// SPDX-License-Identifier: Apache-2.0
// Traces made ready for a replay.
#include "prepared.h"

#include <algorithm>

namespace fusednorm::cost {

Sets::Sets(const FusednormEmulatorLaunch& launch) {
  const auto product = [](const std::uint32_t n[3]) { return std::uint64_t{n[0]} * n[1] * n[2]; };
  cluster_blocks = static_cast<int>(product(launch.cluster));
  clusters = product(launch.grid) / product(launch.cluster);
  blocks_at_once = static_cast<int>(launch.resident_blocks);
  sets = std::max<std::uint64_t>(1, launch.resident_clusters / launch.resident_blocks);
  sets = std::min(sets, clusters);
  replayed = std::clamp<std::uint64_t>(replayed_multiprocessors / cluster_blocks, 1, sets);
}

Prepared::Prepared(const TracedLaunch& traced, const Gpu& gpu)
    : costs(costs_of(traced.trace, gpu)) {
  const std::vector<Place> places = schedule(traced.trace, costs);
  std::vector<std::uint32_t> local(traced.trace.signal_count + 1, 0);
  for (std::size_t k = 0; k < traced.trace.warp_count; ++k) {
    const FusednormEmulatorTracedWarp& warp = traced.trace.warps[k];
    TracedCluster& cluster = clusters[warp.cluster];
    const auto number = [&](std::uint32_t signal) -> std::uint32_t {
      if (signal == 0) return 0;
      if (local[signal] == 0) {
        cluster.arrivals.push_back(0);
        local[signal] = static_cast<std::uint32_t>(cluster.arrivals.size());
      }
      return local[signal];
    };
    std::vector<Op>& ops = cluster.warps[{warp.rank, warp.warp}];
    for (std::size_t s = 0; s < warp.step_count;) {
      const std::size_t first = ops.size();
      const std::uint32_t block = places[warp.steps[s].statement].block;
      std::uint32_t last = 0;
      do {
        const FusednormEmulatorStep& step = warp.steps[s++];
        last = step.statement;
        ops.push_back({&costs[last], &traced.trace.statements[last], &step, number(step.arrives),
                       number(step.waits)});
        if (step.arrives) ++cluster.arrivals[ops.back().arrives - 1];
      } while (s < warp.step_count && places[warp.steps[s].statement].block == block &&
               (warp.steps[s].statement > last || warp.steps[s].continues));
      std::stable_sort(ops.begin() + static_cast<std::ptrdiff_t>(first), ops.end(),
                       [&](const Op& a, const Op& b) {
                         return places[a.step->statement].rank < places[b.step->statement].rank;
                       });
    }
  }
}

}  // namespace fusednorm::cost
