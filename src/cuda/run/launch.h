// SPDX-License-Identifier: Apache-2.0
// The few calls of the CUDA runtime that a run makes, with errors as Status.
#pragma once

#include <cuda_runtime_api.h>

#include "fusednorm/cuda.h"
#include "plan/rings.h"

namespace fusednorm::cuda {

Status failed(const char* what, cudaError_t error);

/// The plan's device is current and the workspace lies on it.
Status check_device(const Device& device, const Workspace& workspace, std::size_t needed);

/// Lets a kernel have as much dynamic shared memory as it can ever ask for on this device, or
/// clusters of more than 8 blocks. Such limits belong to the kernel and the device, not to a
/// launch: all threads that set one must set the same.
cudaError_t allow_most_shared(const void* kernel);
cudaError_t allow_large_clusters(const void* kernel);

/// The ring of the kernel that launch() takes for rows that may be accessed so. `skews`: rows that
/// start anywhere may have one, for what lies beside those of an input is not written.
inline Ring ring_of_run(const Launch& planned, Access access, bool skews) {
  const bool two_kernels = planned.aligned_function != nullptr;
  Ring ring = planned.ring;
  if (access == Access::vectors) {
    if (two_kernels) ring = planned.aligned_ring;
  } else if (planned.lanes_per_row < warp_lanes || !skews) {
    return {};
  } else if (access == Access::elements && !two_kernels) {
    ring = skewed(ring);
  }
  ring.bytes = ring.stages * ring.stage_bytes;
  return ring;
}

/// Launches what the plan decided. `arguments` are the kernel's parameters.
Status launch(const char* name, const Launch& planned, bool aligned, void** arguments,
              Stream stream);

}  // namespace fusednorm::cuda
