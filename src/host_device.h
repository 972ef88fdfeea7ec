// SPDX-License-Identifier: Apache-2.0
// Marks functions that plain C++ and CUDA device code share.
#pragma once

#if defined(__CUDACC__)
#define FUSEDNORM_HOST_DEVICE __host__ __device__
#else
#define FUSEDNORM_HOST_DEVICE
#endif
