// SPDX-License-Identifier: Apache-2.0
// Tails: the end of a row that is no whole number of steps. Included once per instruction set.
#if defined(FUSEDNORM_CPU_SIMD_TAILS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_SIMD_TAILS_INL_H_
#undef FUSEDNORM_CPU_SIMD_TAILS_INL_H_
#else
#define FUSEDNORM_CPU_SIMD_TAILS_INL_H_
#endif

#include <cstring>

#include "cpu/simd/bf16_pairs-inl.h"

HWY_BEFORE_NAMESPACE();
FUSEDNORM_TARGET_BEGIN

/// The tail as one step: the last of the row, of which only the last `count` elements are new; or,
/// in a buffer, all of a row that is shorter than a step.
template <class L>
struct Tail {
  using V = typename L::V;
  size_t count;  ///< new elements; 0 when there is no tail
  bool wide;     ///< the row has a whole step
  size_t begin;  ///< column of the step

  explicit HWY_INLINE Tail(size_t n)
      : count(n % L::step()), wide(n >= L::step()), begin(wide ? n - L::step() : 0) {}

  template <typename T>
  HWY_INLINE auto load(const T* row) const {
    if (HWY_LIKELY(wide)) return L::load(row + begin);
    HWY_ALIGN T buffer[L::max_step] = {};
    std::memcpy(buffer, row, count * sizeof(T));
    return L::load(buffer);
  }

  /// Stores also the elements before the new ones, where the row has them.
  template <typename T, class PartOf>
  HWY_INLINE void store(T* row, const PartOf& part_of) const {
    HWY_ALIGN T buffer[L::max_step];
    L::template store<Cache::keep>(wide ? row + begin : buffer, part_of);
    if (HWY_UNLIKELY(!wide)) std::memcpy(row, buffer, count * sizeof(T));
  }

  /// `value` in the lanes of part k that hold new elements, `old` in the others.
  template <size_t k>
  HWY_INLINE V only_new(V value, V old, Part<k> part) const {
    const typename L::Tag d;
    const auto before = hn::FirstN(d, L::lanes_of(wide ? L::step() - count : 0, part));
    const auto until = hn::FirstN(d, L::lanes_of(wide ? L::step() : count, part));
    return hn::IfThenElse(before, old, hn::IfThenElse(until, value, old));
  }
  template <size_t k>
  HWY_INLINE V only_new(V value, Part<k> part) const {
    return only_new(value, hn::Zero(typename L::Tag()), part);
  }
};

FUSEDNORM_TARGET_END
#endif
