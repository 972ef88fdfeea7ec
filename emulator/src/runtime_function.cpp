// SPDX-License-Identifier: Apache-2.0
// What can be asked and set of a kernel: attributes and occupancy.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "runtime.h"

namespace fusednorm::emulator {
namespace {

void cluster_of(const cudaLaunchConfig_t& config, const Program& program, dim3& cluster) {
  const uint32_t* required = program.function->required_cluster;
  cluster = required[0] ? dim3(required[0], required[1], required[2]) : dim3(1, 1, 1);
  for (unsigned k = 0; k < config.numAttrs; ++k)
    if (config.attrs[k].id == cudaLaunchAttributeClusterDimension)
      cluster = dim3(config.attrs[k].val.clusterDim.x, config.attrs[k].val.clusterDim.y,
                     config.attrs[k].val.clusterDim.z);
}

// body(kernel, attributes, program, device) of a function on the current device, under the lock.
template <class Body>
cudaError_t with_program(const void* function, Body body) {
  if (const cudaError_t error = device_state()) return result(error);
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  Kernel* const kernel = runtime.kernel(function);
  if (!kernel) return result(cudaErrorInvalidDeviceFunction);
  cudaError_t error = cudaSuccess;
  const Program* const program = runtime.program(*kernel, current_device(), error);
  if (!program) return result(error);
  return result(body(*kernel, kernel->attributes[current_device()], *program,
                     runtime.device(current_device())));
}

}  // namespace
}  // namespace fusednorm::emulator

using namespace fusednorm::emulator;

extern "C" {

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void* function) {
  return with_program(function, [&](const Kernel&, const FunctionAttributes& attributes,
                                    const Program& program, const Device& device) {
    const Function& text = *program.function;
    *out = {};
    out->sharedSizeBytes = program.static_shared_bytes;
    out->localSizeBytes = program.local_bytes;
    out->maxThreadsPerBlock = text.max_threads ? static_cast<int>(text.max_threads) : 1024;
    out->numRegs =
        static_cast<int>(text.max_registers);  // PTX does not say: 0 unless .maxnreg does
    // Of the PTX that was chosen, not of the device: ".target sm_80" is 80.
    out->ptxVersion = std::atoi(program.module->target.c_str() + std::strlen("sm_"));
    out->binaryVersion = device.capability();
    out->maxDynamicSharedSizeBytes =
        static_cast<int>(dynamic_shared_limit(device, attributes, program));
    out->preferredShmemCarveout = attributes.carveout;
    out->requiredClusterWidth = static_cast<int>(text.required_cluster[0]);
    out->requiredClusterHeight = static_cast<int>(text.required_cluster[1]);
    out->requiredClusterDepth = static_cast<int>(text.required_cluster[2]);
    out->nonPortableClusterSizeAllowed = attributes.allows_large_clusters;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute which, int value) {
  return with_program(function, [&](const Kernel& kernel, FunctionAttributes& attributes,
                                    const Program& program, const Device& device) {
    switch (which) {
      case cudaFuncAttributeMaxDynamicSharedMemorySize:
        if (value < 0 || static_cast<size_t>(value) + program.static_shared_bytes >
                             device.config.shared_per_block_optin) {
          Runtime::get().report("fusednorm emulator: " + std::to_string(value) +
                                " bytes of dynamic shared memory for " + kernel.name +
                                " are more than the device has a block (" +
                                std::to_string(device.config.shared_per_block_optin) + ")");
          return cudaErrorInvalidValue;
        }
        attributes.max_dynamic_shared = value;
        return cudaSuccess;
      case cudaFuncAttributePreferredSharedMemoryCarveout:
        attributes.carveout = value;
        return cudaSuccess;
      case cudaFuncAttributeNonPortableClusterSizeAllowed:
        attributes.allows_large_clusters = value != 0;
        return cudaSuccess;
      default:
        return cudaSuccess;
    }
  });
}
cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) {
  return cudaSuccess;
}
cudaError_t cudaFuncGetName(const char** name, const void* function) {
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  const Kernel* kernel = runtime.kernel(function);
  if (!kernel) return result(cudaErrorInvalidDeviceFunction);
  *name = kernel->name.c_str();
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks,
                                                                   const void* function,
                                                                   int threads, size_t shared,
                                                                   unsigned) {
  return with_program(function, [&](const Kernel&, const FunctionAttributes&,
                                    const Program& program, const Device& device) {
    if (threads <= 0) return cudaErrorInvalidValue;
    *blocks = blocks_per_multiprocessor(device, program, threads, shared);
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                          int threads, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared,
                                                                0);
}
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* function,
                                                      int blocks, int) {
  return with_program(function, [&](const Kernel&, const FunctionAttributes&,
                                    const Program& program, const Device& device) {
    if (blocks <= 0) return cudaErrorInvalidValue;
    const FusednormEmulatorDevice& c = device.config;
    const size_t share = c.shared_per_multiprocessor / static_cast<size_t>(blocks),
                 taken = program.static_shared_bytes + kReservedShared;
    *bytes = std::min(share > taken ? share - taken : 0,
                      c.shared_per_block_optin - program.static_shared_bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* function,
                                           const cudaLaunchConfig_t* config) {
  return with_program(function, [&](const Kernel&, const FunctionAttributes& attributes,
                                    const Program& program, const Device& device) {
    if (device.config.major < 9) return cudaErrorNotSupported;
    dim3 cluster;
    cluster_of(*config, program, cluster);
    const int size = static_cast<int>(cluster.x * cluster.y * cluster.z);
    if (size < 1 || size > (attributes.allows_large_clusters ? 16 : 8))
      return cudaErrorInvalidClusterSize;
    const int threads =
        static_cast<int>(config->blockDim.x * config->blockDim.y * config->blockDim.z);
    const int each = blocks_per_multiprocessor(device, program, threads, config->dynamicSmemBytes);
    *clusters = static_cast<int>(resident_clusters(device, each, size));
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void* function,
                                                 const cudaLaunchConfig_t*) {
  return with_program(function, [&](const Kernel&, const FunctionAttributes& attributes,
                                    const Program&, const Device& device) {
    if (device.config.major < 9) return cudaErrorNotSupported;
    *size = attributes.allows_large_clusters ? 16 : 8;
    return cudaSuccess;
  });
}
}
