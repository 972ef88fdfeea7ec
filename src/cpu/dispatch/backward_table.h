// SPDX-License-Identifier: Apache-2.0
// The tables of backward kernels of one x dtype; see forward_table.h.
#include "cpu/kernels/backward-inl.h"
#include "cpu/kernels/column_sums-inl.h"
// After the kernels.
#include "cpu/dispatch/select.h"

HWY_BEFORE_NAMESPACE();
FUSEDNORM_TARGET_BEGIN

/// Not for f32 and f64 rows, which are taken one at a time and would load and store the column sums
/// of a head for each; that was not tried.
template <class B>
constexpr auto heads_of() -> decltype(BackwardKernels::heads) {
  if constexpr (B::sixteen_bit && !B::from_y && B::Output::can_bypass)
    return &head_rows<B>;
  else
    return nullptr;
}

template <typename TX, typename TP, typename TY, bool from_y>
const BackwardKernels* backward_table() {
  using B = BackwardTypes<TX, TY, from_y>;
  using L = typename B::Lanes;
  static constexpr BackwardKernels kernels = {
      &backward_rows<B>,      heads_of<B>(),
      &segment_sums<B>,       &merge_sums<B>,
      &write_shared_dx<B>,    &compensate<typename B::C>,
      &settle<typename B::C>, &store_column_sums<L, TP>,
      &expand<L, TP>,         std::is_same_v<TP, typename B::C> && !in_pairs<L>};
  return &kernels;
}

static const BackwardKernels* find_backward(DType param, DType y, bool from_y) {
  return with_dtypes<FUSEDNORM_X>(param, y, [from_y](auto tp, auto ty) {
    using TP = typename decltype(tp)::type;
    using TY = typename decltype(ty)::type;
    using TX = FUSEDNORM_X;
    return from_y ? backward_table<TX, TP, TY, true>() : backward_table<TX, TP, TY, false>();
  });
}

FUSEDNORM_TARGET_END

#if HWY_ONCE

namespace fusednorm::cpu {

HWY_EXPORT(find_backward);

const BackwardKernels* FUSEDNORM_BACKWARD(std::int64_t highway_target, DType param, DType y,
                                          bool from_y) {
  const auto find = FUSEDNORM_SELECT_TARGET(find_backward, highway_target);
  return find ? find(param, y, from_y) : nullptr;
}

}  // namespace fusednorm::cpu
#endif
