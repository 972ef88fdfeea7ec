// The backward kernels of bf16 x, compiled for every instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/backward_bf16.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/backward_tables-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fusednorm::cpu {
namespace HWY_NAMESPACE {

const BackwardKernels* find_backward_bf16(DType param, DType y, bool from_y) {
  return backward_of<BFloat16>(param, y, from_y);
}

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "cpu/select_target.h"

namespace fusednorm::cpu {

HWY_EXPORT(find_backward_bf16);

const BackwardKernels* backward_bf16(std::int64_t highway_target, DType param, DType y,
                                     bool from_y) {
  const auto find = FUSEDNORM_SELECT_TARGET(find_backward_bf16, highway_target);
  return find ? find(param, y, from_y) : nullptr;
}

}  // namespace fusednorm::cpu
#endif
