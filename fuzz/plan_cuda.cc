// SPDX-License-Identifier: Apache-2.0
// Any problem for any CUDA device is planned, within the limits of a launch, or refused with a
// sentence. Host code: no GPU and no nvcc.
#include "expect.h"
#include "fusednorm/cuda.h"
#include "problem_bytes.h"

namespace {

using namespace fusednorm;

cuda::Device device_of(fuzz::Bytes& bytes) {
  cuda::Device device;
  if (!bytes.flag()) return device;
  const int capabilities[] = {75, 80, 86, 89, 90, 100, 103, 120};
  device.compute_capability =
      bytes.flag() ? capabilities[bytes.any<std::uint8_t>() % 8] : bytes.any<std::uint16_t>();
  device.multiprocessors = bytes.flag() ? 1 + bytes.any<std::uint8_t>() : bytes.any<std::int16_t>();
  device.shared_bytes_per_block = bytes.flag() ? 64 << 10 : bytes.size();
  device.l2_bytes = bytes.flag() ? 50 << 20 : bytes.size();
  device.clusters = bytes.flag();
  return device;
}

template <typename Problem>
void check(const Problem& problem, const cuda::Device& device) {
  const auto plan = cuda::plan(problem, device);
  if (!plan) {
    fuzz::expect(!plan.status().message().empty(), "refused without a reason");
    return;
  }
  const cuda::Launch& launch = plan->launch;
  fuzz::expect(!fuzz::addressable(problem) || plan->workspace_bytes < std::size_t{1} << 62,
               "workspace_bytes wrapped around");
  if (launch.kernel == cuda::Kernel::none) return;
  fuzz::expect(launch.blocks > 0 && launch.blocks < std::int64_t{1} << 31,
               "a grid of " + std::to_string(launch.blocks) + " blocks");
  fuzz::expect(launch.threads_per_block > 0 && launch.threads_per_block <= 1024,
               "blocks of " + std::to_string(launch.threads_per_block) + " threads");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Bytes bytes(data, size);
  const cuda::Device device = device_of(bytes);
  if (bytes.flag()) {
    check(fuzz::forward_problem(bytes), device);
  } else {
    check(fuzz::backward_problem(bytes), device);
  }
  return 0;
}
