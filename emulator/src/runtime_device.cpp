// Devices, functions and occupancy of the CUDA runtime API.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "runtime.h"

namespace fusednorm::emulator {
namespace {

constexpr int kReservedShared = 1024;  // a block, from sm_80 on

int reserved_shared(const FusednormEmulatorDevice& config) { return config.major >= 8 ? kReservedShared : 0; }

bool valid_device(int device) { return device >= 0 && static_cast<size_t>(device) < Runtime::get().devices.size(); }

int attribute(const FusednormEmulatorDevice& c, cudaDeviceAttr which, bool& known) {
  known = true;
  switch (which) {
    case cudaDevAttrMaxThreadsPerBlock: return 1024;
    case cudaDevAttrMaxBlockDimX: case cudaDevAttrMaxBlockDimY: return 1024;
    case cudaDevAttrMaxBlockDimZ: return 64;
    case cudaDevAttrMaxGridDimX: return 2147483647;
    case cudaDevAttrMaxGridDimY: case cudaDevAttrMaxGridDimZ: return 65535;
    case cudaDevAttrMaxSharedMemoryPerBlock: return static_cast<int>(c.shared_per_block);
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return static_cast<int>(c.shared_per_block_optin);
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return static_cast<int>(c.shared_per_multiprocessor);
    case cudaDevAttrReservedSharedMemoryPerBlock: return reserved_shared(c);
    case cudaDevAttrTotalConstantMemory: return 65536;
    case cudaDevAttrWarpSize: return 32;
    case cudaDevAttrMaxRegistersPerBlock: case cudaDevAttrMaxRegistersPerMultiprocessor: return 65536;
    case cudaDevAttrClockRate: return 1000000;
    case cudaDevAttrMemoryClockRate: return 1000000;
    case cudaDevAttrGlobalMemoryBusWidth: return 4096;
    case cudaDevAttrMultiProcessorCount: return c.multiprocessors;
    case cudaDevAttrL2CacheSize: return static_cast<int>(c.l2_bytes);
    case cudaDevAttrMaxThreadsPerMultiProcessor: return c.threads_per_multiprocessor;
    case cudaDevAttrMaxBlocksPerMultiprocessor: return c.blocks_per_multiprocessor;
    case cudaDevAttrComputeCapabilityMajor: return c.major;
    case cudaDevAttrComputeCapabilityMinor: return c.minor;
    case cudaDevAttrCooperativeLaunch: return 1;
    case cudaDevAttrClusterLaunch: return c.major >= 9;
    case cudaDevAttrUnifiedAddressing: case cudaDevAttrConcurrentKernels: case cudaDevAttrCanMapHostMemory: return 1;
    case cudaDevAttrManagedMemory: case cudaDevAttrMemoryPoolsSupported: case cudaDevAttrStreamPrioritiesSupported: return 1;
    case cudaDevAttrMaxPersistingL2CacheSize: return static_cast<int>(c.l2_bytes / 4 * 3);
    case cudaDevAttrTextureAlignment: return 512;
    case cudaDevAttrMaxPitch: return 2147483647;
    case cudaDevAttrAsyncEngineCount: return 2;
    case cudaDevAttrIntegrated: case cudaDevAttrEccEnabled: case cudaDevAttrComputeMode: case cudaDevAttrKernelExecTimeout:
    case cudaDevAttrTccDriver: case cudaDevAttrPageableMemoryAccess: case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrPciBusId: case cudaDevAttrPciDeviceId: case cudaDevAttrPciDomainId: case cudaDevAttrIsMultiGpuBoard:
      return 0;
    default:
      known = false;
      return 0;
  }
}

const Program* find_program(const void* function, Kernel*& kernel, cudaError_t& error) {
  Runtime& runtime = Runtime::get();
  error = device_state();
  if (error != cudaSuccess) return nullptr;
  kernel = runtime.kernel(function);
  if (!kernel) {
    error = cudaErrorInvalidDeviceFunction;
    return nullptr;
  }
  return runtime.program(*kernel, current_device(), error);
}

void cluster_of(const cudaLaunchConfig_t& config, const Program& program, dim3& cluster) {
  const uint32_t* required = program.function->required_cluster;
  cluster = required[0] ? dim3(required[0], required[1], required[2]) : dim3(1, 1, 1);
  for (unsigned k = 0; k < config.numAttrs; ++k)
    if (config.attrs[k].id == cudaLaunchAttributeClusterDimension)
      cluster = dim3(config.attrs[k].val.clusterDim.x, config.attrs[k].val.clusterDim.y, config.attrs[k].val.clusterDim.z);
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
cudaError_t cudaInitDevice(int device, unsigned, unsigned) { return result(valid_device(device) ? cudaSuccess : cudaErrorInvalidDevice); }
cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}
cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  *flags = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceReset(void) {
  Runtime::get().device(current_device()).sticky = cudaSuccess;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  if (!valid_device(device)) return result(cudaErrorInvalidDevice);
  bool known = false;
  *value = attribute(Runtime::get().device(device).config, which, known);
  if (!known) {
    Runtime::get().report("fusednorm emulator: cudaDeviceGetAttribute asks for attribute " + std::to_string(static_cast<int>(which)) +
                          ", which the emulator does not model");
    return result(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  if (!valid_device(device) || !out) return result(valid_device(device) ? cudaErrorInvalidValue : cudaErrorInvalidDevice);
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
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return result(cudaErrorPeerAccessUnsupported); }
cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }
cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit) {
  *value = 1 << 20;
  return cudaSuccess;
}
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaProfilerStart(void) { return cudaSuccess; }
cudaError_t cudaProfilerStop(void) { return cudaSuccess; }

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void* function) {
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  Kernel* kernel = nullptr;
  cudaError_t error = cudaSuccess;
  const Program* program = find_program(function, kernel, error);
  if (!program) return result(error);
  const Device& device = runtime.device(current_device());
  const Function& text = *program->function;
  *out = {};
  out->sharedSizeBytes = program->static_shared_bytes;
  out->localSizeBytes = program->local_bytes;
  out->maxThreadsPerBlock = text.max_threads ? static_cast<int>(text.max_threads) : 1024;
  out->numRegs = static_cast<int>(text.max_registers);  // PTX does not say: 0 unless .maxnreg does
  out->ptxVersion = device.capability();
  out->binaryVersion = device.capability();
  out->maxDynamicSharedSizeBytes = kernel->max_dynamic_shared
                                       ? kernel->max_dynamic_shared
                                       : static_cast<int>(device.config.shared_per_block - std::min<size_t>(device.config.shared_per_block, program->static_shared_bytes));
  out->preferredShmemCarveout = kernel->carveout;
  out->requiredClusterWidth = static_cast<int>(text.required_cluster[0]);
  out->requiredClusterHeight = static_cast<int>(text.required_cluster[1]);
  out->requiredClusterDepth = static_cast<int>(text.required_cluster[2]);
  out->nonPortableClusterSizeAllowed = kernel->allows_large_clusters;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute which, int value) {
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  Kernel* kernel = nullptr;
  cudaError_t error = cudaSuccess;
  const Program* program = find_program(function, kernel, error);
  if (!program) return result(error);
  const Device& device = runtime.device(current_device());
  switch (which) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize:
      if (value < 0 || static_cast<size_t>(value) + program->static_shared_bytes > device.config.shared_per_block_optin) {
        runtime.report("fusednorm emulator: " + std::to_string(value) + " bytes of dynamic shared memory for " + kernel->name +
                       " are more than the device has a block (" + std::to_string(device.config.shared_per_block_optin) + ")");
        return result(cudaErrorInvalidValue);
      }
      kernel->max_dynamic_shared = value;
      return cudaSuccess;
    case cudaFuncAttributePreferredSharedMemoryCarveout:
      kernel->carveout = value;
      return cudaSuccess;
    case cudaFuncAttributeNonPortableClusterSizeAllowed:
      kernel->allows_large_clusters = value != 0;
      return cudaSuccess;
    default:
      return cudaSuccess;
  }
}
cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaFuncGetName(const char** name, const void* function) {
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  const Kernel* kernel = runtime.kernel(function);
  if (!kernel) return result(cudaErrorInvalidDeviceFunction);
  *name = kernel->name.c_str();
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function, int threads, size_t shared, unsigned) {
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  Kernel* kernel = nullptr;
  cudaError_t error = cudaSuccess;
  const Program* program = find_program(function, kernel, error);
  if (!program) return result(error);
  if (threads <= 0) return result(cudaErrorInvalidValue);
  *blocks = blocks_per_multiprocessor(runtime.device(current_device()), *program, threads, shared);
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
}
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* function, int blocks, int) {
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  Kernel* kernel = nullptr;
  cudaError_t error = cudaSuccess;
  const Program* program = find_program(function, kernel, error);
  if (!program) return result(error);
  if (blocks <= 0) return result(cudaErrorInvalidValue);
  const FusednormEmulatorDevice& c = runtime.device(current_device()).config;
  const size_t share = c.shared_per_multiprocessor / static_cast<size_t>(blocks), taken = program->static_shared_bytes + kReservedShared;
  *bytes = std::min(share > taken ? share - taken : 0, c.shared_per_block_optin - program->static_shared_bytes);
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* function, const cudaLaunchConfig_t* config) {
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  Kernel* kernel = nullptr;
  cudaError_t error = cudaSuccess;
  const Program* program = find_program(function, kernel, error);
  if (!program) return result(error);
  const Device& device = runtime.device(current_device());
  if (device.config.major < 9) return result(cudaErrorNotSupported);
  dim3 cluster;
  cluster_of(*config, *program, cluster);
  const int size = static_cast<int>(cluster.x * cluster.y * cluster.z);
  if (size < 1 || size > (kernel->allows_large_clusters ? 16 : 8)) return result(cudaErrorInvalidClusterSize);
  const int threads = static_cast<int>(config->blockDim.x * config->blockDim.y * config->blockDim.z);
  const int each = blocks_per_multiprocessor(device, *program, threads, config->dynamicSmemBytes);
  // A cluster lives in one group of 16 multiprocessors.
  const int groups = device.config.multiprocessors / 16, rest = device.config.multiprocessors % 16;
  *clusters = groups * (16 * each / size) + rest * each / size;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void* function, const cudaLaunchConfig_t*) {
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  Kernel* kernel = nullptr;
  cudaError_t error = cudaSuccess;
  if (!find_program(function, kernel, error)) return result(error);
  if (runtime.device(current_device()).config.major < 9) return result(cudaErrorNotSupported);
  *size = kernel->allows_large_clusters ? 16 : 8;
  return cudaSuccess;
}
}
