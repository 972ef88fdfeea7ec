// SPDX-License-Identifier: Apache-2.0
// Counts what a problem costs on an emulated device.
#include "count.h"

#include "fusednorm_emulator.h"
#include "problems/minimal_bytes.h"

#pragma weak fusednorm_emulator_launch_count
#pragma weak fusednorm_emulator_launch

namespace fusednorm::cost {

Cost count(const Problem& problem, const Device& device, Assembler* assembler) {
  Cost cost;
  cost.error = play(device, assembler);
  PlanFacts facts;
  if (cost.error.empty()) cost.error = run(problem, &facts);
  if (!cost.error.empty()) return cost;
  cost.explanation = facts.explanation;
  cost.load_bytes_per_thread = facts.load_bytes_per_thread;

  double loads = 0, requests = 0, sectors = 0, wavefronts = 0, ideal = 0, barriers = 0,
         shuffles = 0;
  double instructions = 0, slots = 0, dram = 0;
  for (std::size_t i = 0; i < fusednorm_emulator_launch_count(); ++i) {
    FusednormEmulatorLaunch launch;
    fusednorm_emulator_launch(i, &launch);
    cost.kernels.emplace_back(launch.kernel);
    if (cost.launches++ == 0) {
      cost.blocks = launch.grid[0];
      cost.threads_per_block = static_cast<int>(launch.block[0]);
    }
    const auto number = [](std::uint64_t value) { return static_cast<double>(value); };
    instructions += number(launch.thread_instructions);
    slots += number(launch.issue_slots);
    dram += 32 * number(launch.dram_load_sectors + launch.dram_store_sectors);
    loads += 32 * number(launch.l2_load_sectors);
    requests += number(launch.global_load_requests + launch.global_store_requests);
    sectors += number(launch.global_load_sectors + launch.global_store_sectors);
    wavefronts += number(launch.shared_wavefronts);
    ideal += number(launch.shared_ideal_wavefronts);
    barriers += number(launch.block_barriers + launch.cluster_barriers);
    shuffles += number(launch.shuffles);
  }
  const problems::Bytes minimum = minimal_bytes(problem);
  const double rows = static_cast<double>(problem.rows);
  const double elements = rows * static_cast<double>(problem.cols);
  cost.instructions = instructions / elements;
  cost.issue_slots = slots / elements;
  cost.dram_bytes = dram;
  cost.warp_instructions = slots / 32;
  cost.dram_bytes_over_minimum = dram / static_cast<double>(minimum.total());
  cost.l2_reads_over_minimum = loads / static_cast<double>(minimum.read);
  cost.sectors_per_request = sectors / requests;
  cost.shared_conflicts = ideal > 0 ? wavefronts / ideal - 1 : 0;
  cost.barriers_per_row = barriers / rows;
  cost.shuffles_per_row = shuffles / rows;
  return cost;
}

}  // namespace fusednorm::cost
