// Measures the CUDA backend: events around each call, the L2 overwritten before it, a device copy
// as the roof.
#include <algorithm>
#include <limits>
#include <memory>

#include "device_array.h"
#include "fusednorm/cuda.h"
#include "measure.h"

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

Measurement measure_cuda(const Case& which, const Options& options) {
  Measurement result;
  result.bytes = minimal_bytes(which);
  const auto device = cuda::query(0);
  if (!device) return result.error = device.status().message(), result;
  result.threads = device->multiprocessors;
  const std::int64_t stride = which.row_stride == packed ? which.shape.cols : which.row_stride;
  const bool backward = which.pass == Pass::backward;
  const DeviceArrays arrays(backward, which.shape.rows, which.shape.cols, stride, which.dtype,
                            which.param_dtype, which.offset);
  if (!arrays.exist()) return result.error = "not enough device memory", result;
  Status status;
  std::unique_ptr<DeviceArray> workspace;
  std::function<void()> work;
  const auto prepare = [&](const auto& plan, const auto& buffers) {
    if (!plan) return void(result.error = plan.status().message());
    result.explanation = cuda::explain(*plan);
    workspace = std::make_unique<DeviceArray>(
        static_cast<std::int64_t>(plan->workspace_bytes) / 2 + 1, DType::f16, 0);
    work = [&status, plan = *plan, buffers, place = workspace->data()] {
      status = cuda::run(plan, buffers, {place, plan.workspace_bytes}, nullptr);
    };
  };
  if (backward)
    prepare(cuda::plan(backward_problem(which), *device), arrays.backward());
  else
    prepare(cuda::plan(forward_problem(which), *device), arrays.forward());
  if (!result.error.empty()) return result;
  const auto copy = [&] {
    (void)cudaMemcpyAsync(arrays.y.data(), arrays.x.data(), arrays.x.bytes(),
                          cudaMemcpyDeviceToDevice, nullptr);
  };
  EventTimer timer(device->l2_bytes);
  result.seconds = result.copy_seconds = std::numeric_limits<double>::infinity();
  double spent = 0;
  for (int round = 0; round < 5 || spent < options.seconds; ++round) {
    const double own = timer.time(work), other = timer.time(copy);
    spent += own + other;
    if (!status) return result.error = status.message(), result;
    result.seconds = std::min(result.seconds, own);
    result.copy_seconds = std::min(result.copy_seconds, other);
  }
  result.copy_bytes = 2.0 * static_cast<double>(arrays.x.bytes());
  return result;
}

}  // namespace fusednorm::bench
