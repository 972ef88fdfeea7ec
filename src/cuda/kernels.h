// Finds the compiled kernel for a dtype and geometry. Null where there is none: a plan never asks
// for those.
#pragma once

#include "fusednorm/dtype.h"

namespace fusednorm::cuda {

/// What kernel addresses stand for; a plan's launch code hands them to the CUDA runtime.
using KernelAddress = const void*;

struct WideVariant {
  int vectors;
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
  KernelAddress strip_dx_same;  ///< parameters in x's dtype
  KernelAddress strip_dx_f32;
};

/// One for each x dtype, in a file of its own; `mixed`: y is f32 though x is not.
ForwardFinder forward_finder_f64(bool mixed);
ForwardFinder forward_finder_f32(bool mixed);
ForwardFinder forward_finder_f16(bool mixed);
ForwardFinder forward_finder_bf16(bool mixed);
BackwardFinder backward_finder_f64(bool mixed, bool from_y);
BackwardFinder backward_finder_f32(bool mixed, bool from_y);
BackwardFinder backward_finder_f16(bool mixed, bool from_y);
BackwardFinder backward_finder_bf16(bool mixed, bool from_y);

ForwardFinder forward_finder(DType x, DType y);
BackwardFinder backward_finder(DType x, DType y, bool from_y);

KernelAddress columns_kernel(DType param, DType compute);

}  // namespace fusednorm::cuda
