// The CPU kernels: the core's CPU backend on PyTorch's threads and PyTorch's allocator.
#include "fusednorm/cpu.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>

#include "kernels.h"

namespace fusednorm::operators::cpu {
namespace {

/// Caches and instruction set of this machine: facts that do not change, asked for once.
const fusednorm::cpu::Device& machine() {
  static const auto device = fusednorm::cpu::query();
  return device;
}

struct Cpu {
  static Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype, const Tensor&) {
    return Tensor(at::detail::empty_cpu(sizes, dtype, /*pin_memory=*/false,
                                        /*memory_format_opt=*/std::nullopt));
  }

  template <typename Problem, typename Buffers>
  static void run(const Problem& problem, const Buffers& buffers, const Tensor&) {
    auto device = machine();
    device.threads = at::in_parallel_region() ? 1 : at::get_num_threads();
    const auto plan = fusednorm::cpu::plan(problem, device);
    TORCH_CHECK(plan.ok(), "layer_norm: ", plan.status().message());
    c10::DataPtr workspace;
    if (plan->workspace_bytes > 0) {
      workspace = c10::GetCPUAllocator()->allocate(plan->workspace_bytes);
    }
    const auto status = fusednorm::cpu::run(
        *plan, buffers, {workspace.get(), plan->workspace_bytes},
        [](int64_t tasks, fusednorm::cpu::Task body) {
          at::parallel_for(0, tasks, /*grain_size=*/1, [&](int64_t begin, int64_t end) {
            for (auto task = begin; task < end; ++task) body(task);
          });
        });
    TORCH_CHECK(status.ok(), "layer_norm: ", status.message());
  }
};

}  // namespace

FUSEDNORM_DEFINE_KERNELS(Cpu)

}  // namespace fusednorm::operators::cpu
