// SPDX-License-Identifier: Apache-2.0
// The CPU backend behind the harness's interface.
#pragma once

#include <string>

#include "backend.h"
#include "fusednorm/cpu.h"
#include "threads.h"

namespace fusednorm::testing {

class CpuBackend : public Backend {
 public:
  /// `threads` runs the tasks; device.threads is what the plan is told, and may differ.
  CpuBackend(cpu::Device device, Threads threads) : device_(device), threads_(threads) {}

  std::string name() const override;
  Status forward(const ForwardProblem& problem, const ForwardPlaces& places,
                 Memory& memory) override;
  Status backward(const BackwardProblem& problem, const BackwardPlaces& places,
                  Memory& memory) override;

  const cpu::Device& device() const { return device_; }

 private:
  template <typename Plan, typename Buffers>
  Status run_guarded(const Plan& plan, const Buffers& buffers, Memory& memory);

  cpu::Device device_;
  Threads threads_;
};

/// A device written by hand, so that a test does not depend on the machine's caches.
inline cpu::Device make_device(cpu::InstructionSet instruction_set, int threads,
                               std::int64_t cache_shared = 1 << 24) {
  return {threads, cache_shared, instruction_set};
}

/// Caches so small that outputs of a few kilobytes are streamed past them.
inline cpu::Device small_cache_device(cpu::InstructionSet instruction_set, int threads) {
  return make_device(instruction_set, threads, 1 << 13);
}

}  // namespace fusednorm::testing
