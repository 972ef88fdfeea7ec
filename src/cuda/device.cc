// Asks the CUDA runtime what a plan needs to know of a device.
#include "launch.h"

namespace fusednorm::cuda {

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
  int major = 0, minor = 0, shared_block = 0, shared_multiprocessor = 0, l2 = 0;
  const std::pair<int*, cudaDeviceAttr> facts[] = {
      {&major, cudaDevAttrComputeCapabilityMajor},
      {&minor, cudaDevAttrComputeCapabilityMinor},
      {&device.multiprocessors, cudaDevAttrMultiProcessorCount},
      {&device.max_threads_per_multiprocessor, cudaDevAttrMaxThreadsPerMultiProcessor},
      {&shared_block, cudaDevAttrMaxSharedMemoryPerBlockOptin},
      {&shared_multiprocessor, cudaDevAttrMaxSharedMemoryPerMultiprocessor},
      {&l2, cudaDevAttrL2CacheSize}};
  for (const auto& [value, attribute] : facts) {
    if (const cudaError_t error = cudaDeviceGetAttribute(value, attribute, ordinal);
        error != cudaSuccess) {
      return failed("cudaDeviceGetAttribute", error);
    }
  }
  device.compute_capability = 10 * major + minor;
  device.shared_bytes_per_block = shared_block;
  device.shared_bytes_per_multiprocessor = shared_multiprocessor;
  device.l2_bytes = l2;
  return device;
}

}  // namespace fusednorm::cuda
