// SPDX-License-Identifier: Apache-2.0
// The CPU backend: query a Device once, plan a problem (a pure function), run the plan.
//
//   auto device = fusednorm::cpu::query();
//   fusednorm::ForwardProblem problem;  problem.rows = 4096;  problem.cols = 768;
//   auto plan = fusednorm::cpu::plan(problem, device);
//   if (!plan) report(plan.status().message());
//   std::vector<std::byte> workspace(plan->workspace_bytes);
//   auto status = fusednorm::cpu::run(*plan, {x, gamma, beta, y}, {workspace.data(),
//   workspace.size()});
//
// run() checks every argument before it writes anything, allocates nothing, keeps nothing, and is
// safe to call from any number of threads, also with one plan. Guarantees: run_to_run,
// batch_invariant and thread_invariant, as docs/guarantees.md defines them; a caller's parallel_for
// cannot break them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "fusednorm/problem.h"
#include "fusednorm/status.h"

namespace fusednorm::cpu {

/// A reference to a callable; it does not own it, so it must not outlive the full expression of a
/// call.
template <typename Signature>
class FunctionReference;

template <typename Return, typename... Arguments>
class FunctionReference<Return(Arguments...)> {
 public:
  template <typename Callable,
            typename = std::enable_if_t<!std::is_same_v<std::decay_t<Callable>, FunctionReference>>>
  FunctionReference(Callable&& callable)  // NOLINT: implicit by design
      : callable_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* target, Arguments... arguments) -> Return {
          return (*static_cast<std::remove_reference_t<Callable>*>(target))(arguments...);
        }) {}
  Return operator()(Arguments... arguments) const { return call_(callable_, arguments...); }

 private:
  void* callable_;
  Return (*call_)(void*, Arguments...);
};

/// One piece of work, by number.
using Task = FunctionReference<void(std::int64_t task)>;

/// How tasks get onto threads. parallel_for(tasks, body) calls body(0) … body(tasks - 1), each
/// once, in any order and on any thread, and returns when all are done.
using ParallelFor = FunctionReference<void(std::int64_t tasks, Task body)>;

/// The default: OpenMP, on at most plan.device.threads threads (or in this thread, in a build
/// without it).
struct OpenMP {
  int threads;
  void operator()(std::int64_t tasks, Task body) const;
};

/// An instruction set by Highway's name, "AVX2" say. 0 is none: plan(), which does not look at the
/// machine, refuses it.
struct InstructionSet {
  std::int64_t highway_target = 0;
  std::string name() const;
};

/// The best instruction set that this machine has.
InstructionSet best_instruction_set();

/// What a plan needs to know of the machine. Query it once, or write it by hand.
struct Device {
  int threads = 1;                      ///< how many threads parallel_for offers
  std::int64_t cache_shared = 1 << 24;  ///< last-level bytes, all threads together
  InstructionSet instruction_set = best_instruction_set();
};

/// This machine: OpenMP's thread count, the last-level cache and the best instruction set.
Device query();

/// Every instruction set that this build holds and this machine has, best first.
std::vector<InstructionSet> instruction_sets();

/// How the work is cut; see docs/cpu.md. Results do not depend on it.
enum class Schedule : std::uint8_t {
  calling_thread,  ///< too small to wake another thread
  rows,            ///< each task takes whole rows
  segments,        ///< threads share each row, segment by segment
};

// Internal: what plan() found for the instruction set and the dtypes.
struct ForwardKernels;
struct BackwardKernels;
struct AddArguments;
using AddRows = void (*)(const AddArguments&, std::int64_t row, std::int64_t rows,
                         std::int64_t column, std::int64_t cols);

struct ForwardPlan {
  ForwardProblem problem;
  Device device;
  Schedule schedule = Schedule::calling_thread;
  bool streaming_stores = false;  ///< y goes past the cache: it would not stay there anyway
  std::int64_t tasks = 1;
  std::size_t workspace_bytes = 0;
  const ForwardKernels* kernels = nullptr;
  AddRows add_residual = nullptr;
  AddRows round_y = nullptr;  ///< f32 and f64 rows with a narrower y
};

struct BackwardPlan {
  BackwardProblem problem;
  Device device;
  Schedule schedule = Schedule::calling_thread;
  bool streaming_stores = false;
  std::int64_t tasks = 1;
  std::int64_t row_blocks = 1;  ///< partial sums of dgamma and dbeta: a function of the shape alone
  std::size_t workspace_bytes = 0;
  const BackwardKernels* kernels = nullptr;
  AddRows widen_dy = nullptr;  ///< f32 and f64 rows with a narrower dy
  AddRows add_ds = nullptr;    ///< dx and dresidual from d in the compute type
};

Result<ForwardPlan> plan(const ForwardProblem& problem, const Device& device);
Result<BackwardPlan> plan(const BackwardProblem& problem, const Device& device);

/// The choice in a sentence, for people.
std::string explain(const ForwardPlan& plan);
std::string explain(const BackwardPlan& plan);

Status run(const ForwardPlan& plan, const ForwardBuffers& buffers, Workspace workspace = {});
Status run(const ForwardPlan& plan, const ForwardBuffers& buffers, Workspace workspace,
           ParallelFor parallel_for);
Status run(const BackwardPlan& plan, const BackwardBuffers& buffers, Workspace workspace = {});
Status run(const BackwardPlan& plan, const BackwardBuffers& buffers, Workspace workspace,
           ParallelFor parallel_for);

}  // namespace fusednorm::cpu
