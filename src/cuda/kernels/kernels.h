// SPDX-License-Identifier: Apache-2.0
// Finds the compiled kernel for a row's storage and geometry. Null where there is none: a plan asks
// once, and only for those that exist.
#pragma once

#include "fusednorm/dtype.h"

namespace fusednorm::cuda {

/// What kernel addresses stand for; plans keep them and runs hand them to the CUDA runtime.
using KernelAddress = const void*;

struct WideVariant {
  int vectors;  ///< of a lane, by the geometry
  bool clustered;
  bool whole;  ///< aligned rows of whole segments
};

struct ForwardFinder {
  KernelAddress (*narrow)(int lanes, int vectors);
  KernelAddress (*wide)(WideVariant);
  KernelAddress reread;
  KernelAddress split_moments;
  KernelAddress split_finish;
};

struct BackwardFinder {
  KernelAddress (*narrow)(int lanes, int vectors);
  KernelAddress (*wide)(WideVariant);
  KernelAddress strip_sums;
  KernelAddress strip_dx;
};

/// One for each size of an element of the row that is normalised, in a file of its own.
ForwardFinder forward_kernels_16bit();
ForwardFinder forward_kernels_f32();
ForwardFinder forward_kernels_f64();
BackwardFinder backward_kernels_16bit();
BackwardFinder backward_kernels_f32();
BackwardFinder backward_kernels_f64();
BackwardFinder backward_from_y_kernels_16bit();
BackwardFinder backward_from_y_kernels_f32();
BackwardFinder backward_from_y_kernels_f64();

inline ForwardFinder forward_kernels_of(DType row) {
  return row == DType::f64   ? forward_kernels_f64()
         : row == DType::f32 ? forward_kernels_f32()
                             : forward_kernels_16bit();
}
inline BackwardFinder backward_kernels_of(DType row, bool from_y) {
  if (from_y) {
    return row == DType::f64   ? backward_from_y_kernels_f64()
           : row == DType::f32 ? backward_from_y_kernels_f32()
                               : backward_from_y_kernels_16bit();
  }
  return row == DType::f64   ? backward_kernels_f64()
         : row == DType::f32 ? backward_kernels_f32()
                             : backward_kernels_16bit();
}

KernelAddress columns_kernel(DType compute);
KernelAddress copy_kernel(DType compute);

}  // namespace fusednorm::cuda
