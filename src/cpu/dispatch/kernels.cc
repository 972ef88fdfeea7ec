// SPDX-License-Identifier: Apache-2.0
// Finds the kernels of a dtype triple and an instruction set. Each x dtype and pass is a file of
// its own, so that they compile side by side.
#include "cpu/dispatch/kernels.h"

#include "hwy/highway.h"

namespace fusednorm::cpu {

const ForwardKernels* forward_f64(std::int64_t highway_target, DType param, DType y);
const ForwardKernels* forward_f32(std::int64_t highway_target, DType param, DType y);
const ForwardKernels* forward_f16(std::int64_t highway_target, DType param, DType y);
const ForwardKernels* forward_bf16(std::int64_t highway_target, DType param, DType y);
const BackwardKernels* backward_f64(std::int64_t highway_target, DType param, DType y, bool from_y);
const BackwardKernels* backward_f32(std::int64_t highway_target, DType param, DType y, bool from_y);
const BackwardKernels* backward_f16(std::int64_t highway_target, DType param, DType y, bool from_y);
const BackwardKernels* backward_bf16(std::int64_t highway_target, DType param, DType y,
                                     bool from_y);

// In the order of DType.
const ForwardKernels* forward_kernels(std::int64_t highway_target, DType x, DType param, DType y) {
  constexpr decltype(&forward_f64) find[] = {forward_f64, forward_f32, forward_f16, forward_bf16};
  return find[static_cast<int>(x)](highway_target, param, y);
}

const BackwardKernels* backward_kernels(std::int64_t highway_target, DType x, DType param, DType y,
                                        bool from_y) {
  constexpr decltype(&backward_f64) find[] = {backward_f64, backward_f32, backward_f16,
                                              backward_bf16};
  return find[static_cast<int>(x)](highway_target, param, y, from_y);
}

std::int64_t compiled_targets() {
  return HWY_TARGETS;
}

}  // namespace fusednorm::cpu
