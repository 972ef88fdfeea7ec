// SPDX-License-Identifier: Apache-2.0
// Measures the CUDA backend: events around each call, the L2 overwritten before it, a device copy
// as the limit.
#include <algorithm>
#include <memory>

#include "device_array.h"
#include "fusednorm/cuda.h"
#include "measure.h"
#include "problems/minimal_bytes.h"

namespace fusednorm::bench {
namespace {

/// Seconds of one call, the L2 overwritten before it.
class EventTimer {
 public:
  explicit EventTimer(std::int64_t l2_bytes) : flush_(2 * l2_bytes, DType::f16, 0) {
    (void)cudaEventCreate(&begin_);
    (void)cudaEventCreate(&end_);
  }
  EventTimer(const EventTimer&) = delete;
  EventTimer& operator=(const EventTimer&) = delete;
  ~EventTimer() {
    (void)cudaEventDestroy(begin_);
    (void)cudaEventDestroy(end_);
  }
  double time(const std::function<void()>& call) {
    (void)cudaMemsetAsync(flush_.data(), 0, flush_.bytes(), nullptr);
    (void)cudaEventRecord(begin_, nullptr);
    call();
    (void)cudaEventRecord(end_, nullptr);
    (void)cudaEventSynchronize(end_);
    float milliseconds = 0;
    (void)cudaEventElapsedTime(&milliseconds, begin_, end_);
    return std::max(static_cast<double>(milliseconds) * 1e-3, 1e-9);
  }

 private:
  DeviceArray flush_;
  cudaEvent_t begin_{}, end_{};
};

}  // namespace

Measurement measure_cuda(const problems::Problem& problem, const Options& options) {
  Measurement result;
  result.minimal_bytes = static_cast<double>(minimal_bytes(problem).total());
  const auto device = cuda::query(0);
  if (!device) return result.error = device.status().message(), result;
  result.threads = device->multiprocessors;
  const DeviceArrays arrays(problem);
  if (!arrays.exist()) return result.error = "not enough device memory", result;
  Status status;
  std::unique_ptr<DeviceArray> workspace;
  std::function<void()> work;
  const auto prepare = [&](const auto& plan, const auto& buffers) {
    if (!plan) return void(status = plan.status());
    workspace = std::make_unique<DeviceArray>(
        static_cast<std::int64_t>(plan->workspace_bytes) / 2 + 1, DType::f16, 0);
    work = [&status, plan = *plan, buffers, place = workspace->data()] {
      status = cuda::run(plan, buffers, {place, plan.workspace_bytes}, nullptr);
    };
  };
  if (problem.is_forward())
    prepare(cuda::plan(forward_problem(problem), *device), arrays.forward(problem));
  else
    prepare(cuda::plan(backward_problem(problem), *device), arrays.backward(problem));
  if (!status) return result.error = status.message(), result;
  const DeviceArray& out = arrays.out(problem);
  const std::size_t bytes = std::min(arrays.in.bytes(), out.bytes());
  const auto copy = [&] {
    (void)cudaMemcpyAsync(out.data(), arrays.in.data(), bytes, cudaMemcpyDeviceToDevice, nullptr);
  };
  EventTimer timer(device->l2_bytes);
  Contest contest(work, {copy}, [&timer](const auto& action) { return timer.time(action); });
  run_in_turns(options.seconds, {&contest});
  if (!status) return result.error = status.message(), result;
  contest.summarise(&result);
  result.copy_bytes = 2.0 * static_cast<double>(bytes);
  return result;
}

}  // namespace fusednorm::bench
