// The backward kernels compiled for every instruction set, and the table that finds them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/backward_kernels.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/backward-inl.h"
#include "cpu/column_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fusednorm::cpu {
namespace HWY_NAMESPACE {

template <typename TX, typename TP, typename TY, bool from_y>
const BackwardKernels* table() {
  using Kernel = Backward<TX, TY, from_y>;
  using C = Compute<TX>;
  using Sums = ColumnSummation<C>;
  constexpr bool as_given = std::is_same_v<TP, C> && !Kernel::pairs;
  static constexpr BackwardKernels kernels = {&Kernel::rows,
                                              &Kernel::sums,
                                              &Kernel::merge,
                                              &Kernel::segment,
                                              &Sums::compensate,
                                              &Sums::settle,
                                              &Sums::template store_total<TP, Kernel::pairs>,
                                              as_given ? nullptr : &expand<C, TP, Kernel::pairs>};
  return &kernels;
}

const BackwardKernels* find_backward(DType x, DType param, DType y, bool from_y) {
  return with_types(x, param, y, [from_y](auto tx, auto tp, auto ty) {
    using TX = typename decltype(tx)::type;
    using TP = typename decltype(tp)::type;
    using TY = typename decltype(ty)::type;
    return from_y ? table<TX, TP, TY, true>() : table<TX, TP, TY, false>();
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "cpu/select_target.h"

namespace fusednorm::cpu {

HWY_EXPORT(find_backward);

const BackwardKernels* backward_kernels(std::int64_t highway_target, DType x, DType param, DType y,
                                        bool from_y) {
  const auto find = FUSEDNORM_SELECT_TARGET(find_backward, highway_target);
  return find ? find(x, param, y, from_y) : nullptr;
}

}  // namespace fusednorm::cpu
#endif
