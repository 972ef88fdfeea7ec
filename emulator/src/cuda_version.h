// SPDX-License-Identifier: Apache-2.0
// The runtime's header, of CUDA 12.4 to 13. CUDA 13 gave its plain names to what CUDA 12 called _v2
// or _v3: here they have the plain names in both. Each major exports what its own programs link.
#pragma once

#include <cuda_runtime_api.h>

#if CUDART_VERSION < 13000
#undef cudaStreamGetCaptureInfo
#define cudaStreamGetCaptureInfo cudaStreamGetCaptureInfo_v3
#define cudaStreamUpdateCaptureDependencies cudaStreamUpdateCaptureDependencies_v2
#define cudaGraphNodeGetDependencies cudaGraphNodeGetDependencies_v2
#define cudaGraphAddNode cudaGraphAddNode_v2
#endif
