// SPDX-License-Identifier: Apache-2.0
// From run-time dtypes and instruction sets to compiled kernels. Highway's own dispatch remembers
// its choice in a global variable; here the caller names the target.
#pragma once

#include "cpu/simd/element_types.h"
#include "hwy/highway.h"

namespace fusednorm::cpu {

template <typename T>
struct Type {
  using type = T;
};

/// Calls body(Type<TP>, Type<TY>) for the dtypes that go with TX; null for any other.
template <typename TX, typename Body>
auto with_dtypes(DType param, DType y, const Body& body) -> decltype(body(Type<TX>(), Type<TX>())) {
  constexpr DType x = dtype_of<TX>;
  if (param == x && y == x) return body(Type<TX>(), Type<TX>());
  if constexpr (x != DType::f32) {
    if (param == DType::f32 && y == x) return body(Type<float>(), Type<TX>());
    if constexpr (sizeof(TX) == 2) {
      if (param == DType::f32 && y == DType::f32) return body(Type<float>(), Type<float>());
    }
  } else {
    if (param == DType::f16 && y == x) return body(Type<Float16>(), Type<TX>());
    if (param == DType::bf16 && y == x) return body(Type<BFloat16>(), Type<TX>());
  }
  return nullptr;
}

/// Where `target` stands in a table that HWY_EXPORT makes. Static, for that depends on the targets
/// of the including file.
static inline size_t dispatch_index(int64_t target) {
  if ((HWY_TARGETS & (HWY_TARGETS - 1)) == 0) return 0;
  hwy::ChosenTarget chosen;
  chosen.Update(target);
  return chosen.GetIndex();
}

}  // namespace fusednorm::cpu

// The function for `target` that HWY_EXPORT(function) noted, or null when this build does not hold
// it.
#define FUSEDNORM_SELECT_TARGET(function, target) \
  (((target) & (HWY_TARGETS)) == 0                \
       ? nullptr                                  \
       : HWY_DISPATCH_TABLE(function)[::fusednorm::cpu::dispatch_index(target)])
