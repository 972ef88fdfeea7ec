// The forward kernels compiled for every instruction set, and the table that finds them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/forward_kernels.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "cpu/forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fusednorm::cpu {
namespace HWY_NAMESPACE {

template <typename TX, typename TP, typename TY>
const ForwardKernels* table() {
  using Kernel = Forward<TX, TY>;
  using C = Compute<TX>;
  constexpr bool as_given = std::is_same_v<TP, C> && !Kernel::pairs;
  static constexpr ForwardKernels kernels = {&Kernel::rows, &Kernel::moments, &Kernel::normalize,
                                             as_given ? nullptr : &expand<C, TP, Kernel::pairs>};
  return &kernels;
}

const ForwardKernels* find_forward(DType x, DType param, DType y) {
  return with_types(x, param, y, [](auto tx, auto tp, auto ty) {
    return table<typename decltype(tx)::type, typename decltype(tp)::type,
                 typename decltype(ty)::type>();
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "cpu/select_target.h"

namespace fusednorm::cpu {

HWY_EXPORT(find_forward);

const ForwardKernels* forward_kernels(std::int64_t highway_target, DType x, DType param, DType y) {
  const auto find = FUSEDNORM_SELECT_TARGET(find_forward, highway_target);
  return find ? find(x, param, y) : nullptr;
}

std::int64_t compiled_targets() {
  return HWY_TARGETS;
}

}  // namespace fusednorm::cpu
#endif
