// SPDX-License-Identifier: Apache-2.0
// Devices of the CUDA runtime API: attributes, properties, which is current.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "runtime.h"

namespace fusednorm::emulator {
namespace {

int reserved_shared(const FusednormEmulatorDevice& config) {
  return config.major >= 8 ? kReservedShared : 0;
}

bool valid_device(int device) {
  return device >= 0 && static_cast<size_t>(device) < Runtime::get().devices.size();
}

int attribute(const FusednormEmulatorDevice& c, cudaDeviceAttr which, bool& known) {
  known = true;
  switch (which) {
    case cudaDevAttrMaxThreadsPerBlock:
      return 1024;
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
      return 1024;
    case cudaDevAttrMaxBlockDimZ:
      return 64;
    case cudaDevAttrMaxGridDimX:
      return 2147483647;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      return 65535;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return static_cast<int>(c.shared_per_block);
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return static_cast<int>(c.shared_per_block_optin);
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return static_cast<int>(c.shared_per_multiprocessor);
    case cudaDevAttrReservedSharedMemoryPerBlock:
      return reserved_shared(c);
    case cudaDevAttrTotalConstantMemory:
      return 65536;
    case cudaDevAttrWarpSize:
      return 32;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      return 65536;
    case cudaDevAttrClockRate:
      return 1000000;
    case cudaDevAttrMemoryClockRate:
      return 1000000;
    case cudaDevAttrGlobalMemoryBusWidth:
      return 4096;
    case cudaDevAttrMultiProcessorCount:
      return c.multiprocessors;
    case cudaDevAttrL2CacheSize:
      return static_cast<int>(c.l2_bytes);
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return c.threads_per_multiprocessor;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return c.blocks_per_multiprocessor;
    case cudaDevAttrComputeCapabilityMajor:
      return c.major;
    case cudaDevAttrComputeCapabilityMinor:
      return c.minor;
    case cudaDevAttrCooperativeLaunch:
      return 1;
    case cudaDevAttrClusterLaunch:
      return c.major >= 9;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrCanMapHostMemory:
      return 1;
    case cudaDevAttrManagedMemory:
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrStreamPrioritiesSupported:
      return 1;
    case cudaDevAttrMaxPersistingL2CacheSize:
      return static_cast<int>(c.l2_bytes / 4 * 3);
    case cudaDevAttrTextureAlignment:
      return 512;
    case cudaDevAttrMaxPitch:
      return 2147483647;
    case cudaDevAttrAsyncEngineCount:
      return 2;
    case cudaDevAttrIntegrated:
    case cudaDevAttrEccEnabled:
    case cudaDevAttrComputeMode:
    case cudaDevAttrKernelExecTimeout:
    case cudaDevAttrTccDriver:
    case cudaDevAttrPageableMemoryAccess:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrPciBusId:
    case cudaDevAttrPciDeviceId:
    case cudaDevAttrPciDomainId:
    case cudaDevAttrIsMultiGpuBoard:
      return 0;
    default:
      known = false;
      return 0;
  }
}

}  // namespace
}  // namespace fusednorm::emulator

using namespace fusednorm::emulator;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = static_cast<int>(Runtime::get().devices.size());
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (!valid_device(device)) return result(cudaErrorInvalidDevice);
  set_current_device(device);
  return result(device_state());
}
cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  return result(valid_device(device) ? cudaSuccess : cudaErrorInvalidDevice);
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}
cudaError_t cudaSetDeviceFlags(unsigned) {
  return cudaSuccess;
}
cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  *flags = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceReset(void) {
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  runtime.device(current_device()).sticky = cudaSuccess;
  for (const auto& kernel : runtime.kernels) kernel->attributes.erase(current_device());
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  if (!valid_device(device)) return result(cudaErrorInvalidDevice);
  bool known = false;
  *value = attribute(Runtime::get().device(device).config, which, known);
  if (!known) {
    Runtime::get().report("fusednorm emulator: cudaDeviceGetAttribute asks for attribute " +
                          std::to_string(static_cast<int>(which)) +
                          ", which the emulator does not model");
    return result(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  if (!valid_device(device) || !out)
    return result(valid_device(device) ? cudaErrorInvalidValue : cudaErrorInvalidDevice);
  const FusednormEmulatorDevice& c = Runtime::get().device(device).config;
  *out = {};
  std::snprintf(out->name, sizeof out->name, "fusednorm emulator sm_%d%d", c.major, c.minor);
  out->totalGlobalMem = c.memory_bytes;
  out->sharedMemPerBlock = c.shared_per_block;
  out->sharedMemPerBlockOptin = c.shared_per_block_optin;
  out->sharedMemPerMultiprocessor = c.shared_per_multiprocessor;
  out->reservedSharedMemPerBlock = static_cast<size_t>(reserved_shared(c));
  out->regsPerBlock = out->regsPerMultiprocessor = 65536;
  out->warpSize = 32;
  out->memPitch = 2147483647;
  out->maxThreadsPerBlock = 1024;
  out->maxThreadsDim[0] = out->maxThreadsDim[1] = 1024;
  out->maxThreadsDim[2] = 64;
  out->maxGridSize[0] = 2147483647;
  out->maxGridSize[1] = out->maxGridSize[2] = 65535;
  out->totalConstMem = 65536;
  out->major = c.major;
  out->minor = c.minor;
  out->textureAlignment = 512;
  out->multiProcessorCount = c.multiprocessors;
  out->canMapHostMemory = out->concurrentKernels = out->unifiedAddressing = out->managedMemory = 1;
  out->memoryBusWidth = 4096;
  out->l2CacheSize = static_cast<int>(c.l2_bytes);
  out->persistingL2CacheMaxSize = static_cast<int>(c.l2_bytes / 4 * 3);
  out->maxThreadsPerMultiProcessor = c.threads_per_multiprocessor;
  out->maxBlocksPerMultiProcessor = c.blocks_per_multiprocessor;
  out->streamPrioritiesSupported = out->cooperativeLaunch = out->memoryPoolsSupported = 1;
  out->clusterLaunch = c.major >= 9;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
  return result(cudaErrorPeerAccessUnsupported);
}
cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) {
  return cudaSuccess;
}
cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit) {
  *value = 1 << 20;
  return cudaSuccess;
}
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) {
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaProfilerStart(void) {
  return cudaSuccess;
}
cudaError_t cudaProfilerStop(void) {
  return cudaSuccess;
}
}
