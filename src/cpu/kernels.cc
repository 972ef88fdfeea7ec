// Finds the kernels of a dtype triple and an instruction set. Each x dtype and pass is a file of
// its own, so that they compile side by side.
#include "cpu/kernels.h"

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

const ForwardKernels* forward_kernels(std::int64_t highway_target, DType x, DType param, DType y) {
  switch (x) {
    case DType::f64:
      return forward_f64(highway_target, param, y);
    case DType::f32:
      return forward_f32(highway_target, param, y);
    case DType::f16:
      return forward_f16(highway_target, param, y);
    case DType::bf16:
      return forward_bf16(highway_target, param, y);
  }
  return nullptr;
}

const BackwardKernels* backward_kernels(std::int64_t highway_target, DType x, DType param, DType y,
                                        bool from_y) {
  switch (x) {
    case DType::f64:
      return backward_f64(highway_target, param, y, from_y);
    case DType::f32:
      return backward_f32(highway_target, param, y, from_y);
    case DType::f16:
      return backward_f16(highway_target, param, y, from_y);
    case DType::bf16:
      return backward_bf16(highway_target, param, y, from_y);
  }
  return nullptr;
}

std::int64_t compiled_targets() {
  return HWY_TARGETS;
}

}  // namespace fusednorm::cpu
