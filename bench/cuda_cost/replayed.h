// SPDX-License-Identifier: Apache-2.0
// What the replay of the model of time follows: clusters, their warps and signals.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "prepared.h"

namespace fusednorm::cost {

struct Warp;

struct Signal {
  std::uint32_t missing = 0;
  double given = 0;
  std::vector<Warp*> waiting;
};

struct Cluster {
  std::vector<Signal> signals;
  std::deque<Warp> warps;
  std::size_t running = 0;
  std::size_t set = 0;
};

/// What a warp asks of the L2 ahead of its loads of an array. A kernel that prefetches the next row
/// does so before it loads this one: loads wait for the prefetches of the row before.
class Prefetches {
 public:
  void add(double arrives) {
    if (loading_) row_ = next_row_, next_row_ = 0, loading_ = false;
    next_row_ = std::max(next_row_, arrives);
  }
  /// A load; when the L2 has what it wants.
  double load() {
    loading_ = true;
    return row_;
  }

 private:
  double row_ = 0, next_row_ = 0;  ///< when the L2 has the row that is loaded, and the next
  bool loading_ = true;            ///< a load came since: the next prefetch begins a row
};

struct Warp {
  const std::vector<Op>* ops = nullptr;
  std::size_t at = 0;
  double ready = 0;  ///< when the next one may issue, units apart
  double wake = 0;   ///< latency of the wait that it is in
  bool waits = false;
  Cluster* cluster = nullptr;
  int scheduler = 0;
  std::uint64_t last = 0;              ///< when it was chosen last, for the round robin
  std::vector<double> registers;       ///< when each can be read
  std::vector<double> copies;          ///< when each group of copies is there
  double open_copies = 0;              ///< of the group that is not committed
  std::vector<Prefetches> prefetches;  ///< by array
};

}  // namespace fusednorm::cost
