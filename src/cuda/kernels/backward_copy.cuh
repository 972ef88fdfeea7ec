// SPDX-License-Identifier: Apache-2.0
// Backward without dy: the gradient of the row is ds, for dx and dresidual.
#pragma once

#include "device/row_input.cuh"
#include "plan/sizes.h"

namespace fusednorm::cuda {

/// A thread takes every blockDim.x * gridDim.x-th element. dx or dresidual may be ds.
template <typename C>
__global__ void __launch_bounds__(copy_threads)
    backward_copy(const __grid_constant__ BackwardArguments a) {
  const std::int64_t count = a.map.rows * a.cols;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * copy_threads;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * copy_threads + threadIdx.x;
  for (; i < count; i += step) {
    const std::int64_t row = a.per_step.quotient(i), column = i - row * a.cols;
    const C d = load_as<C>(row_address(a.ds, a.map, row, column), 0, a.row_dtype);
    if (a.dx.data) store_as(row_address(a.dx, a.map, row, column), 0, d, a.dx.dtype);
    if (a.dresidual.data) store_as(row_address(a.dresidual, a.map, row, column), 0, d, a.row_dtype);
  }
}

}  // namespace fusednorm::cuda
