// SPDX-License-Identifier: Apache-2.0
// A stand-in for libcuda.so.1 with the functions that PyTorch's libraries look up. Devices can be
// counted and described; contexts, modules and launches belong to the runtime alone
// (libcudart.so.13), and here answer CUDA_ERROR_NOT_SUPPORTED.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdio>

namespace {

CUresult refuse(const char* call) {
  std::fprintf(stderr,
               "fusednorm emulator: the driver function %s is not part of the emulated device\n",
               call);
  return CUDA_ERROR_NOT_SUPPORTED;
}

// The runtime's codes are the driver's.
CUresult of(cudaError_t error) {
  return static_cast<CUresult>(error);
}

bool exists(CUdevice device) {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && device >= 0 && device < count;
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned) {
  return CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int* version) {
  return of(cudaDriverGetVersion(version));
}
CUresult cuDeviceGetCount(int* count) {
  return of(cudaGetDeviceCount(count));
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (!device || !exists(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return of(cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(attribute), device));
}
// Always active: autograd asks, before it sends a thread to a device.
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  if (!exists(device)) return CUDA_ERROR_INVALID_DEVICE;
  *flags = 0;
  *active = 1;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = cudaGetErrorString(static_cast<cudaError_t>(error));
  return CUDA_SUCCESS;
}

#define FUSEDNORM_REFUSE(call, ...) \
  CUresult call(__VA_ARGS__) {      \
    return refuse(#call);           \
  }

FUSEDNORM_REFUSE(cuCtxGetCurrent, CUcontext*)
FUSEDNORM_REFUSE(cuCtxSetCurrent, CUcontext)
FUSEDNORM_REFUSE(cuDevicePrimaryCtxRetain, CUcontext*, CUdevice)
FUSEDNORM_REFUSE(cuPointerGetAttribute, void*, CUpointer_attribute, CUdeviceptr)
FUSEDNORM_REFUSE(cuModuleLoad, CUmodule*, const char*)
FUSEDNORM_REFUSE(cuModuleLoadData, CUmodule*, const void*)
FUSEDNORM_REFUSE(cuModuleLoadDataEx, CUmodule*, const void*, unsigned, CUjit_option*, void**)
FUSEDNORM_REFUSE(cuModuleUnload, CUmodule)
FUSEDNORM_REFUSE(cuModuleGetFunction, CUfunction*, CUmodule, const char*)
FUSEDNORM_REFUSE(cuLinkCreate, unsigned, CUjit_option*, void**, CUlinkState*)
FUSEDNORM_REFUSE(cuLinkAddData, CUlinkState, CUjitInputType, void*, size_t, const char*, unsigned,
                 CUjit_option*, void**)
FUSEDNORM_REFUSE(cuLinkComplete, CUlinkState, void**, size_t*)
FUSEDNORM_REFUSE(cuFuncGetAttribute, int*, CUfunction_attribute, CUfunction)
FUSEDNORM_REFUSE(cuFuncSetAttribute, CUfunction, CUfunction_attribute, int)
FUSEDNORM_REFUSE(cuFuncSetCacheConfig, CUfunction, CUfunc_cache)
FUSEDNORM_REFUSE(cuLaunchKernel, CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                 unsigned, unsigned, CUstream, void**, void**)
FUSEDNORM_REFUSE(cuLaunchCooperativeKernel, CUfunction, unsigned, unsigned, unsigned, unsigned,
                 unsigned, unsigned, unsigned, CUstream, void**)
FUSEDNORM_REFUSE(cuOccupancyMaxActiveBlocksPerMultiprocessor, int*, CUfunction, int, size_t)
FUSEDNORM_REFUSE(cuTensorMapEncodeTiled, CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*,
                 const cuuint64_t*, const cuuint64_t*, const cuuint32_t*, const cuuint32_t*,
                 CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                 CUtensorMapFloatOOBfill)
}
