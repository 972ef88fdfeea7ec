// SPDX-License-Identifier: Apache-2.0
// Traces made ready for a replay: which clusters run where, instructions in ptxas's order, signals
// counted.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "fusednorm_emulator.h"
#include "statements.h"

namespace fusednorm::cost {

/// Multiprocessors that are replayed; they share so much of the device's memory. More of them run
/// out of step with each other, as on a device, and even out each other's bursts.
inline constexpr int replayed_multiprocessors = 8;

/// Clusters of a set that are traced; where it has more they are repeated.
inline constexpr std::uint64_t traced_turns = 24;

struct TracedLaunch {
  FusednormEmulatorLaunch launch;
  FusednormEmulatorTrace trace;
};

/// Multiprocessors in sets, each as large as a cluster; a set takes every so-many-th cluster.
struct Sets {
  std::uint64_t clusters, sets, replayed;
  int blocks_at_once, cluster_blocks;

  explicit Sets(const FusednormEmulatorLaunch& launch);
  std::uint64_t set(std::uint64_t k) const { return k * sets / replayed; }  // the k-th replayed
  std::uint64_t turns(std::uint64_t set) const { return (clusters - set + sets - 1) / sets; }
};

struct Op {
  const StatementCost* cost;
  const FusednormEmulatorStatement* statement;
  const FusednormEmulatorStep* step;
  std::uint32_t arrives, waits;  ///< signals of the cluster + 1, 0: none
};

struct TracedCluster {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<Op>> warps;  ///< by rank, warp
  std::vector<std::uint32_t> arrivals;                                       ///< by signal
};

/// A launch ready for the replay: statements scheduled, signals counted.
struct Prepared {
  std::vector<StatementCost> costs;
  std::map<std::uint64_t, TracedCluster> clusters;
  std::vector<bool> cached;  ///< by array: still in the L2 from the launch before

  Prepared(const TracedLaunch& traced, const Gpu& gpu);
};

}  // namespace fusednorm::cost
