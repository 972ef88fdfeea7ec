// SPDX-License-Identifier: Apache-2.0
// What a launch cost, as the API tells it, and the printed counters.
#include <algorithm>
#include <cstdio>

#include "runtime.h"

namespace fusednorm::emulator {

FusednormEmulatorLaunch shape_of(const Launch& launch) {
  FusednormEmulatorLaunch out{};
  std::snprintf(out.kernel, sizeof out.kernel, "%s", launch.program->name.c_str());
  out.device = launch.device;
  std::copy(launch.grid, launch.grid + 3, out.grid);
  std::copy(launch.block, launch.block + 3, out.block);
  std::copy(launch.cluster, launch.cluster + 3, out.cluster);
  out.dynamic_shared_bytes = launch.dynamic_shared_bytes;
  out.static_shared_bytes = launch.program->static_shared_bytes;
  out.cooperative = launch.cooperative;
  out.programmatic = launch.programmatic;
  out.resident_blocks = launch.resident_blocks;
  out.resident_clusters = launch.resident_clusters;
  out.waves = static_cast<uint32_t>(launch.waves());
  return out;
}

void record(Runtime& runtime, const Launch& launch) {
  FusednormEmulatorLaunch out = shape_of(launch);
  const Counters& c = launch.counters;
  out.failed = launch.fault != nullptr;
  out.warp_instructions = c.warp_instructions;
  out.thread_instructions = c.thread_instructions;
  out.issue_slots = c.warp_instructions * 32;
  out.raw_warp_instructions = c.raw_warp_instructions;
  out.raw_thread_instructions = c.raw_thread_instructions;
  out.global_load_requests = c.global_load_requests;
  out.global_store_requests = c.global_store_requests;
  out.global_load_sectors = c.global_load_sectors;
  out.global_store_sectors = c.global_store_sectors;
  out.partial_store_sectors = c.partial_store_sectors;
  out.l2_load_sectors = c.l2_load_sectors;
  out.dram_load_sectors = c.distinct_load_sectors;
  out.dram_store_sectors = c.distinct_store_sectors;
  out.shared_load_requests = c.shared_load_requests;
  out.shared_store_requests = c.shared_store_requests;
  out.shared_wavefronts = c.shared_wavefronts;
  out.shared_ideal_wavefronts = c.shared_ideal_wavefronts;
  out.local_requests = c.local_requests;
  out.block_barriers = c.block_barriers;
  out.cluster_barriers = c.cluster_barriers;
  out.warp_barriers = c.warp_barriers;
  out.shuffles = c.shuffles;
  out.votes = c.votes;
  out.global_atomics = c.global_atomics;
  out.shared_atomics = c.shared_atomics;
  out.divergent_branches = c.divergent_branches;
  if (c.warp_quarters)
    out.average_bytes_in_flight =
        double(c.load_byte_quarters) / double(c.warp_quarters) * double(launch.resident_warps());
  out.peak_bytes_in_flight = c.peak_load_bytes * launch.blocks_at_once();
  if (launch.trace) {
    launch.trace->finish(*launch.program);
    runtime.traces[runtime.launches.size()] = launch.trace;
  }
  runtime.launches.push_back(out);
  if (!runtime.print_counters) return;
  auto n = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  std::fprintf(
      stderr,
      "fusednorm emulator: %s <<<(%u,%u,%u),(%u,%u,%u),%u>>> device %d\n"
      "  resident: blocks a multiprocessor %u clusters %u; waves %u\n"
      "  instructions: warp %llu thread %llu issue-slots %llu; barriers %llu shuffles "
      "%llu votes %llu\n"
      "  global: load requests %llu sectors %llu l2 %llu dram %llu; store requests "
      "%llu sectors %llu partial %llu dram %llu; atomics %llu\n"
      "  loads in flight a multiprocessor: average %.0f peak %llu bytes\n"
      "  shared: load requests %llu store requests %llu wavefronts %llu ideal %llu "
      "atomics %llu; local requests %llu; divergent branches %llu\n",
      out.kernel, out.grid[0], out.grid[1], out.grid[2], out.block[0], out.block[1], out.block[2],
      out.dynamic_shared_bytes, out.device, out.resident_blocks, out.resident_clusters, out.waves,
      n(out.warp_instructions), n(out.thread_instructions), n(out.issue_slots),
      n(out.block_barriers), n(out.shuffles), n(out.votes), n(out.global_load_requests),
      n(out.global_load_sectors), n(out.l2_load_sectors), n(out.dram_load_sectors),
      n(out.global_store_requests), n(out.global_store_sectors), n(out.partial_store_sectors),
      n(out.dram_store_sectors), n(out.global_atomics), out.average_bytes_in_flight,
      n(out.peak_bytes_in_flight), n(out.shared_load_requests), n(out.shared_store_requests),
      n(out.shared_wavefronts), n(out.shared_ideal_wavefronts), n(out.shared_atomics),
      n(out.local_requests), n(out.divergent_branches));
}

}  // namespace fusednorm::emulator
