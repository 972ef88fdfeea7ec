// SPDX-License-Identifier: Apache-2.0
// Programmatic dependent launch (sm_90+): the launch of the column sums is set up while the main
// kernel still runs, and waits for its results on the device.
#pragma once

namespace fusednorm::cuda {

/// The next launch may be set up once every block has come here. It finds room only where blocks
/// have left.
__device__ __forceinline__ void let_next_launch_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Until the launch before is over and what it wrote can be read. Does nothing in a launch that was
/// not a dependent one.
__device__ __forceinline__ void wait_for_launch_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace fusednorm::cuda
