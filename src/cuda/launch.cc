// The few calls of the CUDA runtime that a run makes, with errors as Status.
#include "launch.h"

#include <string>

namespace fusednorm::cuda {

Status failed(const char* what, cudaError_t error) {
  (void)cudaGetLastError();  // a launch error is reported here and must not surface again elsewhere
  return Status::device_error(std::string(what) + ": " + cudaGetErrorName(error) + " (" +
                              cudaGetErrorString(error) + ")");
}

Status check_device(const Device& device, const Workspace& workspace, std::size_t needed) {
  int current = -1;
  if (const cudaError_t error = cudaGetDevice(&current); error != cudaSuccess) {
    return failed("cudaGetDevice", error);
  }
  if (current != device.ordinal) {
    return Status::invalid_argument("plan.device.ordinal = " + std::to_string(device.ordinal) +
                                    ": expected the current device, " + std::to_string(current));
  }
  if (needed == 0) return {};
  cudaPointerAttributes attributes{};
  if (const cudaError_t error = cudaPointerGetAttributes(&attributes, workspace.data);
      error != cudaSuccess) {
    return failed("workspace.data: cudaPointerGetAttributes", error);
  }
  const bool on_device =
      attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
  if (!on_device ||
      (attributes.type == cudaMemoryTypeDevice && attributes.device != device.ordinal)) {
    return Status::invalid_argument(std::string("workspace.data is ") +
                                    (on_device ? "on device " + std::to_string(attributes.device)
                                               : std::string("not device memory")) +
                                    ": expected memory of device " +
                                    std::to_string(device.ordinal));
  }
  return {};
}

Status launch(const char* name, KernelAddress kernel, const LaunchShape& shape, void** arguments,
              Stream stream) {
  constexpr std::size_t without_asking = 48 << 10;
  if (kernel == nullptr)
    return Status::invalid_argument("plan: expected the result of fusednorm::cuda::plan()");
  if (shape.shared_bytes > without_asking) {
    const cudaError_t error = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shape.shared_bytes));
    if (error != cudaSuccess) return failed(name, error);
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(shape.blocks));
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  cudaLaunchAttribute cluster{};
  if (shape.cluster > 1) {
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = static_cast<unsigned>(shape.cluster);
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    config.attrs = &cluster;
    config.numAttrs = 1;
  }
  const cudaError_t error = cudaLaunchKernelExC(&config, kernel, arguments);
  return error == cudaSuccess ? Status() : failed(name, error);
}

}  // namespace fusednorm::cuda
