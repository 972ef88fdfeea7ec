// SPDX-License-Identifier: Apache-2.0
// Asks the CUDA runtime what a plan needs to know of a device.
#include "kernels/kernels.h"
#include "plan/geometry.h"
#include "plan/sizes.h"
#include "run/launch.h"

namespace fusednorm::cuda {

namespace {

/// A kernel with clusters, as they are launched.
KernelAddress cluster_kernel() {
  const int vectors =
      geometry_of(std::int64_t{1} << 40, sizeof(float), forward_lane_registers).vectors;
  return forward_kernels_f32().wide({vectors, true, true});
}

/// Kernels with clusters are empty in code for architectures that have none. A library built for an
/// A100 alone also runs on an H100, from PTX, and must not launch those there.
cudaError_t code_has_clusters(bool& result) {
  cudaFuncAttributes attributes{};
  const cudaError_t error = cudaFuncGetAttributes(&attributes, cluster_kernel());
  result = attributes.ptxVersion >= 90;
  return error;
}

/// Clusters of `blocks` blocks that run at once, each with so much shared memory that a
/// multiprocessor holds one.
cudaError_t count_clusters(int blocks, std::int64_t shared_bytes, int& resident) {
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = static_cast<unsigned>(blocks);
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(cluster.val.clusterDim.x);
  config.blockDim = dim3(cluster_threads);
  config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
  config.attrs = &cluster;
  config.numAttrs = 1;
  return cudaOccupancyMaxActiveClusters(&resident, cluster_kernel(), &config);
}

/// A size that the device does not schedule has none, or is an error.
cudaError_t count_clusters(Device& device) {
  cudaError_t error = allow_most_shared(cluster_kernel());
  if (error == cudaSuccess) error = allow_large_clusters(cluster_kernel());
  if (error != cudaSuccess) return error;
  for (int i = 0; i < 4; ++i) {
    if (count_clusters(2 << i, device.shared_bytes_per_block - most_static_bytes,
                       device.resident_clusters[i]) != cudaSuccess) {
      (void)cudaGetLastError();
      device.resident_clusters[i] = 0;
    }
  }
  if (device.resident_clusters[0] == 0) device.clusters = false;
  return cudaSuccess;
}

/// What is asked of the current device: `ordinal` is, while this runs.
cudaError_t ask_of_clusters(int ordinal, Device& device) {
  int current = 0;
  cudaError_t error = cudaGetDevice(&current);
  if (error == cudaSuccess && current != ordinal) error = cudaSetDevice(ordinal);
  if (error != cudaSuccess) return error;
  error = code_has_clusters(device.clusters);
  if (error == cudaSuccess && device.clusters) error = count_clusters(device);
  if (current == ordinal) return error;
  const cudaError_t back = cudaSetDevice(current);
  return error == cudaSuccess ? back : error;
}

}  // namespace

Result<Device> query(int ordinal) {
  Device device;
  device.ordinal = ordinal;
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    return failed("cudaGetDeviceCount", error);
  }
  if (ordinal < 0 || ordinal >= count) {
    return Status::invalid_argument("ordinal = " + std::to_string(ordinal) + ": expected one of " +
                                    std::to_string(count) + " devices");
  }
  int major = 0, minor = 0, shared_block = 0, l2 = 0;
  const std::pair<int*, cudaDeviceAttr> facts[] = {
      {&major, cudaDevAttrComputeCapabilityMajor},
      {&minor, cudaDevAttrComputeCapabilityMinor},
      {&device.multiprocessors, cudaDevAttrMultiProcessorCount},
      {&shared_block, cudaDevAttrMaxSharedMemoryPerBlockOptin},
      {&l2, cudaDevAttrL2CacheSize}};
  for (const auto& [value, attribute] : facts) {
    if (const cudaError_t error = cudaDeviceGetAttribute(value, attribute, ordinal);
        error != cudaSuccess) {
      return failed("cudaDeviceGetAttribute", error);
    }
  }
  device.compute_capability = 10 * major + minor;
  device.shared_bytes_per_block = shared_block;
  device.l2_bytes = l2;
  device.clusters = major >= 9;
  if (device.clusters) {
    if (const cudaError_t error = ask_of_clusters(ordinal, device); error != cudaSuccess)
      return failed("cudaOccupancyMaxActiveClusters", error);
  }
  return device;
}

}  // namespace fusednorm::cuda
