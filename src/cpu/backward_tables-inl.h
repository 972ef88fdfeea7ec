// The backward kernels of one x dtype as tables. Included once per instruction set.
#if defined(FUSEDNORM_CPU_BACKWARD_TABLES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_BACKWARD_TABLES_INL_H_
#undef FUSEDNORM_CPU_BACKWARD_TABLES_INL_H_
#else
#define FUSEDNORM_CPU_BACKWARD_TABLES_INL_H_
#endif

#include "cpu/backward-inl.h"
#include "cpu/column_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fusednorm::cpu {
namespace HWY_NAMESPACE {

template <typename TX, typename TP, typename TY, bool from_y>
const BackwardKernels* backward_table() {
  using Kernel = Backward<TX, TY, from_y>;
  using C = Compute<TX>;
  using Sums = ColumnSummation<C>;
  static constexpr BackwardKernels kernels = {&Kernel::rows,
                                              &Kernel::sums,
                                              &Kernel::merge,
                                              &Kernel::segment,
                                              &Sums::compensate,
                                              &Sums::settle,
                                              &Sums::template store_total<TP, Kernel::pairs>,
                                              &expand<C, TP, Kernel::pairs>,
                                              std::is_same_v<TP, C> && !Kernel::pairs};
  return &kernels;
}

template <typename TX>
const BackwardKernels* backward_of(DType param, DType y, bool from_y) {
  return with_types<TX>(param, y, [from_y](auto tp, auto ty) {
    using TP = typename decltype(tp)::type;
    using TY = typename decltype(ty)::type;
    return from_y ? backward_table<TX, TP, TY, true>() : backward_table<TX, TP, TY, false>();
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
