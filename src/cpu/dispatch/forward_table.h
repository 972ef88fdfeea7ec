// SPDX-License-Identifier: Apache-2.0
// The tables of forward kernels of one x dtype. The including file defines FUSEDNORM_X, the element
// type, and FUSEDNORM_FORWARD, the name under which kernels.cc finds them; it is compiled once per
// instruction set. No include guard, for the same reason.
#include "cpu/kernels/forward-inl.h"
#include "cpu/kernels/shared_forward-inl.h"
// After the kernels.
#include "cpu/dispatch/select.h"

HWY_BEFORE_NAMESPACE();
FUSEDNORM_TARGET_BEGIN

template <typename TX, typename TP, typename TY>
const ForwardKernels* forward_table() {
  using F = ForwardTypes<TX, TY>;
  using L = typename F::Lanes;
  static constexpr ForwardKernels kernels = {
      &forward_rows<F>,   &segment_moments<F>, &merge_moments<F>,
      &write_shared_y<F>, &expand<L, TP>,      std::is_same_v<TP, typename F::C> && !in_pairs<L>,
      longest_added<F>};
  return &kernels;
}

static const ForwardKernels* find_forward(DType param, DType y) {
  return with_dtypes<FUSEDNORM_X>(param, y, [](auto tp, auto ty) {
    return forward_table<FUSEDNORM_X, typename decltype(tp)::type, typename decltype(ty)::type>();
  });
}

FUSEDNORM_TARGET_END

#if HWY_ONCE

namespace fusednorm::cpu {

HWY_EXPORT(find_forward);

const ForwardKernels* FUSEDNORM_FORWARD(std::int64_t highway_target, DType param, DType y) {
  const auto find = FUSEDNORM_SELECT_TARGET(find_forward, highway_target);
  return find ? find(param, y) : nullptr;
}

}  // namespace fusednorm::cpu
#endif
