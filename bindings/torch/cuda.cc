// SPDX-License-Identifier: Apache-2.0
// The CUDA kernels: the core's CUDA backend on the tensor's device, PyTorch's current stream and
// PyTorch's caching allocator; and their registration.
#include "fusednorm/cuda.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/EmptyTensor.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

#include "kernels.h"
#include "operators.h"

namespace fusednorm::operators::cuda {
namespace {

/// What a plan needs to know, from the properties that PyTorch already holds for each device.
fusednorm::cuda::Device describe(c10::DeviceIndex ordinal) {
  const auto* properties = at::cuda::getDeviceProperties(ordinal);
  fusednorm::cuda::Device device;
  device.ordinal = ordinal;
  device.compute_capability = properties->major * 10 + properties->minor;
  device.multiprocessors = properties->multiProcessorCount;
  device.shared_bytes_per_block = static_cast<int64_t>(properties->sharedMemPerBlockOptin);
  device.l2_bytes = properties->l2CacheSize;
  return device;
}

/// A plan with clusters, or for rows that only larger ones might hold.
template <typename Plan>
bool may_have_clusters(const Plan& plan) {
  using fusednorm::cuda::Kernel;
  const Kernel kernel = plan.launch.kernel;
  const bool long_rows =
      kernel == Kernel::reread || kernel == Kernel::split || kernel == Kernel::strips;
  return kernel == Kernel::cluster || (plan.device.compute_capability >= 90 && long_rows);
}

struct Cuda {
  static Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype, const Tensor& like) {
    return Tensor(at::detail::empty_cuda(sizes, dtype, like.device(),
                                         /*memory_format_opt=*/std::nullopt));
  }

  template <typename Problem, typename Buffers>
  static void run(const Problem& problem, const Buffers& buffers, const Tensor& like) {
    const c10::cuda::CUDAGuard guard(like.device());
    auto plan = fusednorm::cuda::plan(problem, describe(like.get_device()));
    // Whether the code that was loaded has kernels with clusters, and how large ones the device
    // schedules, is asked of the runtime, which takes time, only where it may matter.
    if (plan.ok() && may_have_clusters(*plan)) {
      const auto queried = fusednorm::cuda::query(like.get_device());
      raise_unless_ok(problem, queried.status());
      plan = fusednorm::cuda::plan(problem, *queried);
    }
    raise_unless_ok(problem, plan.status());
    c10::DataPtr workspace;
    if (plan->workspace_bytes > 0) {
      workspace = c10::cuda::CUDACachingAllocator::get()->allocate(plan->workspace_bytes);
    }
    const auto status =
        fusednorm::cuda::run(*plan, buffers, {workspace.get(), plan->workspace_bytes},
                             at::cuda::getCurrentCUDAStream().stream());
    raise_unless_ok(problem, status);
  }
};

}  // namespace

FUSEDNORM_DEFINE_KERNELS(Cuda)

}  // namespace fusednorm::operators::cuda

namespace fusednorm::operators {
namespace {

FUSEDNORM_KERNEL(CUDA, template device<cuda::run>)

}  // namespace
}  // namespace fusednorm::operators
