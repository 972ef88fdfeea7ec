// The few calls of the CUDA runtime that a run makes, with errors as Status.
#pragma once

#include <cuda_runtime_api.h>

#include "fusednorm/cuda.h"
#include "kernels.h"

namespace fusednorm::cuda {

Status failed(const char* what, cudaError_t error);

/// The plan's device is current and the workspace lies on it.
Status check_device(const Device& device, const Workspace& workspace, std::size_t needed);

struct LaunchShape {
  std::int64_t blocks;
  int threads;
  int cluster;  ///< blocks in a cluster; 1: none
  std::size_t shared_bytes;
};

/// Launches `kernel`, whose parameters are `arguments`.
Status launch(const char* name, KernelAddress kernel, const LaunchShape& shape, void** arguments,
              Stream stream);

}  // namespace fusednorm::cuda
