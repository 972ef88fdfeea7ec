// SPDX-License-Identifier: Apache-2.0
// One kernel launch: its shape, its parameters and the state its blocks share.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "counters.h"
#include "memory.h"
#include "program.h"

namespace fusednorm::emulator {

struct Checks {
  bool uninitialised = true;  // reads of shared and global memory nobody wrote
  bool shared_races = true;
  bool global_races = true;
};

struct Trace;
struct Warp;
class GlobalFlags;

// A launch of the same stream that may not be over when this one starts (programmatic dependent
// launch), and what it touched.
struct EarlierLaunch {
  std::string kernel;
  std::map<const Allocation*, Memory::Touched> touched;
};

// A checker's finding or an error of the kernel; `error` is a cudaError_t.
struct Fault : std::runtime_error {
  Fault(int error_, const std::string& what, int lane_ = -1)
      : std::runtime_error(what), error(error_), lane(lane_) {}
  int error;
  int lane;
};

struct Launch {
  const Program* program = nullptr;
  Memory* memory = nullptr;
  int device = 0;
  uint32_t sm_count = 1;
  uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, cluster[3] = {1, 1, 1};
  bool explicit_cluster = false;
  bool cooperative = false;
  bool programmatic = false;
  uint32_t dynamic_shared_bytes = 0;
  std::vector<uint8_t> parameters;
  uint64_t grid_workspace = 0;  // device address, for cooperative launches
  uint64_t id = 0;              // unique, for the marks in allocations
  uint64_t seed = 0;            // 0: fixed order
  uint32_t host_threads = 1;
  uint32_t resident_blocks = 1;                 // that a multiprocessor holds at once
  uint32_t resident_clusters = 1;               // that the device holds at once
  uint32_t load_latency = 0;                    // cycles, for LoadsInFlight
  std::shared_ptr<Trace> trace;                 // null: nobody wants one
  std::function<int(uint64_t cluster)> choice;  // FUSEDNORM_EMULATOR_RUN and its kin
  Checks checks;
  GlobalFlags* flags = nullptr;
  std::vector<std::shared_ptr<const EarlierLaunch>> unfinished;

  // State while it runs.
  std::atomic<uint64_t> next_cluster{0};
  // Memory changes of each host thread; their sum is the progress a spinning warp may hope for.
  struct alignas(64) Progress {
    std::atomic<uint64_t> stores{0};
  };
  std::vector<Progress> progress;
  std::atomic<bool> stop{false};
  // Somebody let later launches start (griddepcontrol.launch_dependents) without having waited for
  // the earlier ones.
  std::atomic<bool> triggered_early{false};
  std::mutex fault_mutex;
  std::unique_ptr<Fault> fault;
  std::string fault_report;
  Counters counters;

  uint32_t running_workers = 0;
  std::vector<const void*> idle_workers;

  // Which cluster is the place-th to start: in order, or shuffled by the seed.
  uint64_t order(uint64_t place, uint64_t count) const;
  void idle(const void* worker, bool is_idle);
  uint32_t busy_workers();
  // The linear number of the block of this rank.
  uint64_t block_number(uint64_t cluster_number, uint32_t rank) const;
  uint64_t blocks() const { return uint64_t{grid[0]} * grid[1] * grid[2]; }
  uint64_t stores() const {
    uint64_t total = 0;
    for (const Progress& part : progress) total += part.stores.load(std::memory_order_relaxed);
    return total;
  }
  uint64_t clusters() const { return blocks() / cluster_blocks(); }
  // How often the device is filled for the whole grid.
  uint64_t waves() const { return (clusters() + resident_clusters - 1) / resident_clusters; }
  // On a multiprocessor that has its share of the grid.
  uint32_t blocks_at_once() const {
    const uint64_t first_wave =
        std::min<uint64_t>(blocks(), uint64_t{resident_clusters} * cluster_blocks());
    return static_cast<uint32_t>(
        std::min<uint64_t>(resident_blocks, (first_wave + sm_count - 1) / sm_count));
  }
  uint32_t resident_warps() const { return blocks_at_once() * ((threads() + 31) / 32); }
  uint32_t threads() const { return block[0] * block[1] * block[2]; }
  uint32_t cluster_blocks() const { return cluster[0] * cluster[1] * cluster[2]; }
};

// Runs every block; afterwards `fault` is set if something went wrong.
void run_launch(Launch& launch);

// The report of a fault: kernel, block, thread, PTX line, source line.
std::string describe_fault(const Launch& launch, const Warp* warp, const Fault& fault);

}  // namespace fusednorm::emulator
