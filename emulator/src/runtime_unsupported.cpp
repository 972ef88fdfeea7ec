// SPDX-License-Identifier: Apache-2.0
// Calls that libraries built for CUDA 13 link to and the emulated device does not carry out: memory
// pools with settings, memory shared between processes, modules loaded by name, conditional nodes
// of graphs. Each says so and returns cudaErrorNotSupported.
#include "runtime.h"

namespace fusednorm::emulator {
namespace {

cudaError_t refuse(const char* call) {
  Runtime& runtime = Runtime::get();
  std::lock_guard<std::mutex> lock(runtime.mutex);
  runtime.report(std::string("fusednorm emulator: ") + call +
                 " is not part of the emulated device (emulator/README.md lists what is)");
  return result(cudaErrorNotSupported);
}

}  // namespace
}  // namespace fusednorm::emulator

using fusednorm::emulator::refuse;

extern "C" {

#define FUSEDNORM_REFUSE(call, ...) \
  cudaError_t call(__VA_ARGS__) {   \
    return refuse(#call);           \
  }

FUSEDNORM_REFUSE(cudaDeviceGetDefaultMemPool, cudaMemPool_t*, int)
FUSEDNORM_REFUSE(cudaMemPoolGetAttribute, cudaMemPool_t, cudaMemPoolAttr, void*)
FUSEDNORM_REFUSE(cudaMemPoolSetAttribute, cudaMemPool_t, cudaMemPoolAttr, void*)
FUSEDNORM_REFUSE(cudaMemPoolSetAccess, cudaMemPool_t, const cudaMemAccessDesc*, size_t)
FUSEDNORM_REFUSE(cudaMemPoolTrimTo, cudaMemPool_t, size_t)
FUSEDNORM_REFUSE(cudaDeviceGetGraphMemAttribute, int, cudaGraphMemAttributeType, void*)
FUSEDNORM_REFUSE(cudaDeviceSetGraphMemAttribute, int, cudaGraphMemAttributeType, void*)

FUSEDNORM_REFUSE(cudaIpcGetMemHandle, cudaIpcMemHandle_t*, void*)
FUSEDNORM_REFUSE(cudaIpcOpenMemHandle, void**, cudaIpcMemHandle_t, unsigned)
FUSEDNORM_REFUSE(cudaIpcCloseMemHandle, void*)
FUSEDNORM_REFUSE(cudaIpcGetEventHandle, cudaIpcEventHandle_t*, cudaEvent_t)
FUSEDNORM_REFUSE(cudaIpcOpenEventHandle, cudaEvent_t*, cudaIpcEventHandle_t)

#if CUDART_VERSION >= 13000
FUSEDNORM_REFUSE(cudaLibraryLoadData, cudaLibrary_t*, const void*, cudaJitOption*, void**, unsigned,
                 cudaLibraryOption*, void**, unsigned)
FUSEDNORM_REFUSE(cudaLibraryLoadFromFile, cudaLibrary_t*, const char*, cudaJitOption*, void**,
                 unsigned, cudaLibraryOption*, void**, unsigned)
FUSEDNORM_REFUSE(cudaLibraryUnload, cudaLibrary_t)
FUSEDNORM_REFUSE(cudaLibraryGetKernel, cudaKernel_t*, cudaLibrary_t, const char*)
FUSEDNORM_REFUSE(cudaLibraryGetKernelCount, unsigned*, cudaLibrary_t)
FUSEDNORM_REFUSE(cudaLibraryGetGlobal, void**, size_t*, cudaLibrary_t, const char*)
FUSEDNORM_REFUSE(cudaLibraryGetManaged, void**, size_t*, cudaLibrary_t, const char*)
FUSEDNORM_REFUSE(cudaLibraryGetUnifiedFunction, void**, cudaLibrary_t, const char*)
FUSEDNORM_REFUSE(cudaKernelSetAttributeForDevice, cudaKernel_t, cudaFuncAttribute, int, int)
#endif

FUSEDNORM_REFUSE(cudaGraphAddNode, cudaGraphNode_t*, cudaGraph_t, const cudaGraphNode_t*,
                 const cudaGraphEdgeData*, size_t, cudaGraphNodeParams*)
FUSEDNORM_REFUSE(cudaGraphConditionalHandleCreate, cudaGraphConditionalHandle*, cudaGraph_t,
                 unsigned, unsigned)
}
