// SPDX-License-Identifier: Apache-2.0
// A trace of a launch: the statements that the warps of chosen clusters execute, with what each
// asked of memory and which warps it waited for. See include/fusednorm_emulator.h.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "../include/fusednorm_emulator.h"

namespace fusednorm::emulator {

struct Allocation;
struct Instruction;
struct Program;

// Of one warp. The handler of the statement that runs fills in its last step.
class WarpTrace {
 public:
  WarpTrace(struct Trace& trace, uint64_t cluster, uint64_t block, uint32_t rank, uint32_t warp)
      : trace_(trace), cluster(cluster), block(block), rank(rank), warp(warp) {}

  void begin(uint32_t statement, uint32_t lanes);
  // Sectors asked for, those the first-level cache lacks, those nobody touched before.
  void global(const Allocation& allocation, uint64_t new_sectors);
  void sectors(uint64_t asked, uint64_t beyond_first_level);
  void shared(uint64_t wavefronts) { steps.back().wavefronts += static_cast<uint32_t>(wavefronts); }
  void remote() { steps.back().remote = 1; }
  void value(uint32_t value) { steps.back().value = value; }
  // The signal that is being collected at a barrier, made at its first arrival.
  uint32_t arrive(uint32_t& signal);
  void wait(uint32_t signal) { steps.back().waits = signal; }
  // The wait that runs was not over: what follows until it runs again is no work.
  void wait_failed() { spin_ = steps.size(); }

  struct Trace& trace_;
  uint64_t cluster, block;
  uint32_t rank, warp;
  std::vector<FusednormEmulatorStep> steps;

 private:
  size_t spin_ = 0;  // steps up to and with the last wait that was not over; 0: none
};

struct Trace {
  std::list<WarpTrace> warps;
  std::vector<FusednormEmulatorArray> arrays;
  std::map<const Allocation*, uint32_t> array_numbers;
  uint32_t signals = 0;  // the last one given out

  // For the caller: made when the launch is over.
  std::vector<std::string> texts;
  std::vector<uint32_t> registers;
  std::vector<FusednormEmulatorStatement> statements;
  std::vector<FusednormEmulatorTracedWarp> listed;
  uint32_t register_count = 0;

  void finish(const Program& program);
};

}  // namespace fusednorm::emulator
