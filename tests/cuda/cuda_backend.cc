// SPDX-License-Identifier: Apache-2.0
// Runs problems on a CUDA device, real or emulated. A poisoned workspace between guards; every byte
// of the test's memory goes there and comes back, so that stray writes show.
#include "cuda_backend.h"

#include <cuda_runtime_api.h>

#include <cstring>

#include "emulation.h"

namespace fusednorm::testing {
namespace {

Status checked(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  std::string report = emulated() ? fusednorm_emulator_last_report() : "";
  if (emulated()) fusednorm_emulator_reset_errors();
  return Status::device_error(std::string(what) + ": " + cudaGetErrorString(error) + "\n" + report);
}

/// Device memory for the time of one run.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes) {
    status_ = checked(cudaMalloc(&data_, bytes), "cudaMalloc");
  }
  DeviceMemory(DeviceMemory&& other) : data_(other.data_), status_(other.status_) {
    other.data_ = nullptr;
  }
  ~DeviceMemory() { (void)cudaFree(data_); }
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  const Status& status() const { return status_; }

 private:
  void* data_ = nullptr;
  Status status_;
};

}  // namespace

std::string CudaBackend::leaves_out(const Problem& problem) const {
  const std::string lacking =
      lacks(problem, {"op=rms_norm", "beta of rms_norm", "rounding", "gamma_offset", "residual",
                      "groups", "inner", "16-bit parameters of f32 x"});
  if (!lacking.empty()) return lacking;
  if (emulated() && size_of(problem) > Size::medium) return "too large for an emulated device";
  return {};
}

template <typename Plan, typename Fill>
Status CudaBackend::run_on_device(const Plan& plan, Memory& memory, const Fill& fill) {
  if (auto s = checked(cudaSetDevice(device_.ordinal), "cudaSetDevice"); !s) return s;
  std::vector<DeviceMemory> images;
  for (const Allocation& allocation : memory.allocations) {
    images.emplace_back(allocation.size());
    if (!images.back().status()) return images.back().status();
    if (auto s = checked(cudaMemcpy(images.back().data(), allocation.data(), allocation.size(),
                                    cudaMemcpyHostToDevice),
                         "copy to the device");
        !s) {
      return s;
    }
  }
  const auto at = [&](Place place) {
    return place ? images[place.allocation].data() + place.offset : nullptr;
  };
  // Any address will do for a workspace: one byte off is the worst of them.
  Allocation expected(plan.workspace_bytes + 1);
  DeviceMemory workspace(expected.size());
  if (auto s = checked(
          cudaMemcpy(workspace.data(), expected.data(), expected.size(), cudaMemcpyHostToDevice),
          "workspace");
      !s) {
    return s;
  }
  cudaStream_t stream;
  if (auto s = checked(cudaStreamCreate(&stream), "cudaStreamCreate"); !s) return s;
  Status status = cuda::run(
      plan, fill(at), {workspace.data() + Allocation::guard + 1, plan.workspace_bytes}, stream);
  const Status waited = checked(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  (void)cudaStreamDestroy(stream);
  if (!status) {
    return Status(status.code(),
                  status.message() +
                      (emulated() ? std::string("\n") + fusednorm_emulator_last_report() : ""));
  }
  if (!waited) return waited;
  for (std::size_t i = 0; i < images.size(); ++i) {
    Allocation& allocation = memory.allocations[i];
    if (auto s = checked(cudaMemcpy(allocation.data(), images[i].data(), allocation.size(),
                                    cudaMemcpyDeviceToHost),
                         "copy from the device");
        !s) {
      return s;
    }
  }
  Allocation after(plan.workspace_bytes + 1);
  if (auto s =
          checked(cudaMemcpy(after.data(), workspace.data(), after.size(), cudaMemcpyDeviceToHost),
                  "workspace");
      !s) {
    return s;
  }
  const std::size_t end = Allocation::guard + 1 + plan.workspace_bytes;
  if (std::memcmp(after.data(), expected.data(), Allocation::guard + 1) != 0 ||
      std::memcmp(after.data() + end, expected.data() + end, Allocation::guard) != 0) {
    return Status::device_error("the run wrote outside its workspace");
  }
  return {};
}

Status CudaBackend::forward(const ForwardProblem& problem, const ForwardPlaces& places,
                            Memory& memory) {
  const auto plan = cuda::plan(problem, device_);
  if (!plan) return plan.status();
  return run_on_device(*plan, memory, [&](const auto& at) { return buffers_of(places, at); });
}

Status CudaBackend::backward(const BackwardProblem& problem, const BackwardPlaces& places,
                             Memory& memory) {
  const auto plan = cuda::plan(problem, device_);
  if (!plan) return plan.status();
  return run_on_device(*plan, memory,
                       [&](const auto& at) { return buffers_of(places, problem.source, at); });
}

/// One device: the real one, or the emulated one that FUSEDNORM_EMULATOR_COMPUTE_CAPABILITY asks
/// for. CTest runs the suites once for each architecture.
Backends backends_under_test() {
  Backends backends;
  const auto device = cuda::query(0);
  if (!device) {
    std::fprintf(stderr, "no CUDA device: %s\n", device.status().message().c_str());
    return backends;
  }
  const std::string label =
      (emulated() ? "emulated sm_" : "sm_") + std::to_string(device->compute_capability);
  backends.push_back(std::make_unique<CudaBackend>(*device, label));
  return backends;
}

}  // namespace fusednorm::testing
