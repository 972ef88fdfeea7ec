// The forward kernels of one x dtype as tables. Included once per instruction set.
#if defined(FUSEDNORM_CPU_FORWARD_TABLES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_FORWARD_TABLES_INL_H_
#undef FUSEDNORM_CPU_FORWARD_TABLES_INL_H_
#else
#define FUSEDNORM_CPU_FORWARD_TABLES_INL_H_
#endif

#include "cpu/forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fusednorm::cpu {
namespace HWY_NAMESPACE {

template <typename TX, typename TP, typename TY>
const ForwardKernels* forward_table() {
  using Kernel = Forward<TX, TY>;
  using C = Compute<TX>;
  constexpr bool no_expanding = std::is_same_v<TP, C> && !Kernel::pairs;
  static constexpr ForwardKernels kernels = {
      &Kernel::rows, &Kernel::moments, &Kernel::merge_segments, &Kernel::normalize_segment,
      no_expanding ? nullptr : &expand<C, TP, Kernel::pairs>};
  return &kernels;
}

template <typename TX>
const ForwardKernels* forward_of(DType param, DType y) {
  return with_types<TX>(param, y, [](auto tp, auto ty) {
    return forward_table<TX, typename decltype(tp)::type, typename decltype(ty)::type>();
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
