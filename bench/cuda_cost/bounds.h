// SPDX-License-Identifier: Apache-2.0
// What a counted cost leaves of the memory bandwidth of real devices.
#pragma once

#include "recorded.h"

namespace fusednorm::cost {

/// Peak figures; latency is what a load takes under load, for Little's law.
struct Gpu {
  const char* name;
  int architecture;
  int multiprocessors;
  double clock;      ///< Hz
  double bandwidth;  ///< bytes a second
  double latency;    ///< seconds
};

inline constexpr Gpu gpus[] = {{"A100", 80, 108, 1.41e9, 2.04e12, 600e-9},
                               {"H100", 90, 132, 1.755e9, 3.35e12, 650e-9},
                               {"B200", 100, 148, 1.85e9, 8.0e12, 800e-9},
                               {"RTX 5090", 120, 170, 2.41e9, 1.79e12, 700e-9}};

/// A multiprocessor issues four warp instructions a cycle.
inline constexpr double issues_per_cycle = 4;

void print_bounds(const Row& row);

}  // namespace fusednorm::cost
