// SPDX-License-Identifier: Apache-2.0
// What a counted cost leaves of the memory bandwidth of real devices.
#include "bounds.h"

#include <algorithm>
#include <cstdio>

#include "devices.h"

namespace fusednorm::cost {

void print_bounds(const Row& row, Assembler* assembler) {
  std::printf("\n%s\n", to_string(row.problem).c_str());
  for (const Gpu& gpu : gpus) {
    const Cost cost = count(row.problem, {gpu.architecture, gpu.multiprocessors}, assembler);
    if (!cost.error.empty()) {
      std::printf("  %-9s %s\n", gpu.name, cost.error.c_str());
      continue;
    }
    std::string error;
    const auto found = assembler->assemble(cost.kernels[0], gpu.architecture, &error);
    const double memory = cost.dram_bytes / gpu.bandwidth;
    const double issue =
        cost.warp_instructions / (issues_per_cycle * gpu.multiprocessors * gpu.clock);
    const double needed = needed_bytes_in_flight(gpu);
    const double in_flight = found.empty()
                                 ? 0
                                 : static_cast<double>(resident_blocks(
                                       found[0].second, cost.threads_per_block, gpu.architecture)) *
                                       cost.threads_per_block * cost.load_bytes_per_thread;
    const double share = memory / cost.dram_bytes_over_minimum / std::max(memory, issue);
    std::printf(
        "  %-9s %s bound; at most %3.0f %% of peak; loads in flight %3.0f KB a multiprocessor, "
        "Little's law needs %.0f\n",
        gpu.name, memory >= issue ? "memory" : "issue ", 100 * share, in_flight / 1024,
        needed / 1024);
  }
}

}  // namespace fusednorm::cost
