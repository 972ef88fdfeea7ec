// SPDX-License-Identifier: Apache-2.0
// The few calls of the CUDA runtime that a run makes, with errors as Status.
#include "run/launch.h"

#include <string>

#include "plan/sizes.h"

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

cudaError_t allow_most_shared(const void* kernel) {
  int device = 0, most = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
  if (const cudaError_t error =
          cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
      error != cudaSuccess) {
    return error;
  }
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              most - most_static_bytes);
}

cudaError_t allow_large_clusters(const void* kernel) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
}

namespace {

/// Code for older architectures, which the driver may have compiled for this device, does not wait
/// for the launch before. In a graph the launch is an ordinary one: not every runtime and driver
/// captures dependent ones.
bool may_be_dependent(const void* kernel, Stream stream) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &capture) != cudaSuccess ||
      capture != cudaStreamCaptureStatusNone) {
    return false;
  }
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess && attributes.ptxVersion >= 90;
}

}  // namespace

Status launch(const char* name, const Launch& planned, bool aligned, void** arguments,
              Stream stream) {
  // A block gets 48 KiB without asking, its static arrays included.
  constexpr std::size_t without_asking = (48 << 10) - most_static_bytes;
  const bool fast = aligned && planned.aligned_function != nullptr;
  const void* kernel = fast ? planned.aligned_function : planned.function;
  const std::size_t shared_bytes = fast ? planned.aligned_shared_bytes : planned.shared_bytes;
  if (kernel == nullptr)
    return Status::invalid_argument("plan: expected the result of fusednorm::cuda::plan()");
  if (shared_bytes > without_asking) {
    if (const cudaError_t error = allow_most_shared(kernel); error != cudaSuccess)
      return failed(name, error);
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(planned.blocks));
  config.blockDim = dim3(static_cast<unsigned>(planned.threads_per_block));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  cudaLaunchAttribute attributes[2] = {};
  config.attrs = attributes;
  if (planned.kernel == Kernel::cluster) {
    if (planned.blocks_per_row > portable_cluster_blocks) {
      if (const cudaError_t error = allow_large_clusters(kernel); error != cudaSuccess)
        return failed(name, error);
    }
    cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = static_cast<unsigned>(planned.blocks_per_row);
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  }
  if (planned.dependent && may_be_dependent(kernel, stream)) {
    cudaLaunchAttribute& dependent = attributes[config.numAttrs++];
    dependent.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    dependent.val.programmaticStreamSerializationAllowed = 1;
  }
  const cudaError_t error = cudaLaunchKernelExC(&config, kernel, arguments);
  return error == cudaSuccess ? Status() : failed(name, error);
}

}  // namespace fusednorm::cuda
