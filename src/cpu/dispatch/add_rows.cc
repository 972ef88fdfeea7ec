// SPDX-License-Identifier: Apache-2.0
// The add passes of all dtypes, compiled once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/dispatch/add_rows.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/kernels/add_pass-inl.h"
// After the kernels.
#include "cpu/dispatch/select.h"

HWY_BEFORE_NAMESPACE();
FUSEDNORM_TARGET_BEGIN

/// The three dtypes are alike but where rows meet wider ones, on either side.
static AddRows find_add_rows(DType a, DType b, DType first) {
  const auto is = [&](DType of_a, DType of_b, DType of_first) {
    return a == of_a && b == of_b && first == of_first;
  };
  constexpr DType f64 = DType::f64, f32 = DType::f32, f16 = DType::f16, bf16 = DType::bf16;
  if (is(f64, f64, f64)) return &add_rows<double, double, double>;
  if (is(f32, f32, f32)) return &add_rows<float, float, float>;
  if (is(f16, f16, f16)) return &add_rows<Float16, Float16, Float16>;
  if (is(bf16, bf16, bf16)) return &add_rows<BFloat16, BFloat16, BFloat16>;
  if (is(f16, f32, f32)) return &add_rows<Float16, float, float>;
  if (is(bf16, f32, f32)) return &add_rows<BFloat16, float, float>;
  if (is(f32, f32, f16)) return &add_rows<float, float, Float16>;
  if (is(f32, f32, bf16)) return &add_rows<float, float, BFloat16>;
  if (is(f64, f64, f32)) return &add_rows<double, double, float>;
  if (is(f32, f64, f64)) return &add_rows<float, double, double>;
  return nullptr;
}

FUSEDNORM_TARGET_END

#if HWY_ONCE

namespace fusednorm::cpu {

HWY_EXPORT(find_add_rows);

AddRows add_rows(std::int64_t highway_target, DType a, DType b, DType first) {
  const auto find = FUSEDNORM_SELECT_TARGET(find_add_rows, highway_target);
  return find ? find(a, b, first) : nullptr;
}

}  // namespace fusednorm::cpu
#endif
