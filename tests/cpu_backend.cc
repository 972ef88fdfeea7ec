// SPDX-License-Identifier: Apache-2.0
// Plans and runs on host memory, with a workspace that is poisoned, guarded and off alignment.
#include "cpu_backend.h"

namespace fusednorm::testing {

std::string CpuBackend::name() const {
  return "cpu " + device_.instruction_set.name() + ", planned for " +
         std::to_string(device_.threads) + " threads and a cache of " +
         std::to_string(device_.cache_shared) + " bytes, run on " +
         std::to_string(threads_.threads) + (threads_.shuffle_seed != 0 ? " shuffled" : "") +
         " threads";
}

template <typename Plan, typename Buffers>
Status CpuBackend::run_guarded(const Plan& plan, const Buffers& buffers, Memory& memory) {
  // The contract promises "any address": one byte off is the worst of them.
  Allocation workspace(plan.workspace_bytes + 1);
  const Allocation before = workspace;
  std::byte* data = workspace.data() + Allocation::guard + 1;
  for (Allocation& allocation : memory.allocations) {
    allocation.forbid_guards();
  }
  const Status status = cpu::run(plan, buffers, Workspace{data, plan.workspace_bytes}, threads_);
  for (Allocation& allocation : memory.allocations) {
    allocation.allow_guards();
  }
  if (std::memcmp(workspace.data(), before.data(), Allocation::guard + 1) != 0 ||
      std::memcmp(data + plan.workspace_bytes,
                  before.data() + Allocation::guard + 1 + plan.workspace_bytes,
                  Allocation::guard) != 0) {
    return Status::device_error("the run wrote outside its workspace");
  }
  return status;
}

Status CpuBackend::forward(const ForwardProblem& problem, const ForwardPlaces& places,
                           Memory& memory) {
  const auto plan = cpu::plan(problem, device_);
  if (!plan) {
    return plan.status();
  }
  const auto at = [&](Place place) { return memory.at(place); };
  return run_guarded(*plan, buffers_of(places, at), memory);
}

Status CpuBackend::backward(const BackwardProblem& problem, const BackwardPlaces& places,
                            Memory& memory) {
  const auto plan = cpu::plan(problem, device_);
  if (!plan) {
    return plan.status();
  }
  const auto at = [&](Place place) { return memory.at(place); };
  return run_guarded(*plan, buffers_of(places, problem.source, at), memory);
}

Backends backends_under_test() {
  Backends backends;
  for (const cpu::InstructionSet& set : cpu::instruction_sets()) {
    backends.push_back(std::make_unique<CpuBackend>(make_device(set, 2), Threads{2}));
    backends.push_back(std::make_unique<CpuBackend>(small_cache_device(set, 3), Threads{3, 7}));
  }
  return backends;
}

}  // namespace fusednorm::testing
