// SPDX-License-Identifier: Apache-2.0
// The CPU kernels: the core's CPU backend on PyTorch's threads and PyTorch's allocator.
#include "fusednorm/cpu.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "kernels.h"

namespace fusednorm::operators::cpu {
namespace {

/// Caches and instruction set of this machine: constant, so queried once.
const fusednorm::cpu::Device& machine() {
  static const auto device = fusednorm::cpu::query();
  return device;
}

/// Page faults of a large new output take several times as long as the kernel that writes it
/// (measured for 48 MiB: 30 ms against 7). Pages of 2 MiB cause 1/512 of the faults. Only a hint.
void advise_huge_pages([[maybe_unused]] const Tensor& tensor) {
#ifdef __linux__
  constexpr size_t huge_page = size_t{1} << 21;
  // Smaller blocks mostly come from malloc's own pool, already mapped.
  constexpr size_t smallest = 4 * huge_page;
  const auto bytes = tensor.nbytes();
  if (bytes < smallest) return;
  const auto begin = reinterpret_cast<uintptr_t>(tensor.mutable_data_ptr());
  const auto first = (begin + huge_page - 1) / huge_page * huge_page;
  const auto last = (begin + bytes) / huge_page * huge_page;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

struct Cpu {
  static Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype, const Tensor&) {
    Tensor tensor(at::detail::empty_cpu(sizes, dtype, /*pin_memory=*/false,
                                        /*memory_format_opt=*/std::nullopt));
    advise_huge_pages(tensor);
    return tensor;
  }

  template <typename Problem, typename Buffers>
  static void run(const Problem& problem, const Buffers& buffers, const Tensor&) {
    auto device = machine();
    device.threads = at::in_parallel_region() ? 1 : at::get_num_threads();
    const auto plan = fusednorm::cpu::plan(problem, device);
    raise_unless_ok(problem, plan.status());
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
    raise_unless_ok(problem, status);
  }
};

}  // namespace

FUSEDNORM_DEFINE_KERNELS(Cpu)

}  // namespace fusednorm::operators::cpu
