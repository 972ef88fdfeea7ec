// SPDX-License-Identifier: Apache-2.0
// gamma and beta: as f32 or f64 in the layout of a kernel's lanes (expanded), or 16-bit as the
// caller has them. Included once per instruction set.
#if defined(FUSEDNORM_CPU_SIMD_PARAMETERS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_SIMD_PARAMETERS_INL_H_
#undef FUSEDNORM_CPU_SIMD_PARAMETERS_INL_H_
#else
#define FUSEDNORM_CPU_SIMD_PARAMETERS_INL_H_
#endif

#include "cpu/simd/tails-inl.h"

HWY_BEFORE_NAMESPACE();
FUSEDNORM_TARGET_BEGIN

/// A parameter in the compute type, from one column on. In order it may be the caller's own array,
/// which ends with the columns; in pairs it is padded.
template <class L>
struct Expanded {
  using V = typename L::V;
  typename L::template Columns<const typename L::C> columns;

  HWY_INLINE Expanded at(int64_t column) const { return {columns.at(column)}; }

  /// Part k of the step at column i, or of the tail.
  template <size_t k>
  HWY_INLINE V vector(size_t i, Part<k> part) const {
    return hn::LoadU(typename L::Tag(), L::address(columns, i, part));
  }
  template <size_t k>
  HWY_INLINE V vector(const Tail<L>& tail, Part<k> part) const {
    if constexpr (in_pairs<L>)
      return at(static_cast<int64_t>(tail.begin)).vector(0, part);
    else
      return tail.load(columns.first);
  }

  // As Given has them: nothing is loaded before a part is wanted. No struct goes between: it would
  // be put on the stack, where its stores queue behind streaming ones.
  HWY_INLINE size_t load(size_t i) const { return i; }
  HWY_INLINE Tail<L> load(const Tail<L>& tail) const { return tail; }
  template <class Where, size_t k>
  HWY_INLINE V part(Where where, Part<k> part) const {
    return vector(where, part);
  }
};

/// A 16-bit parameter as the caller has it: half the bytes of an expanded one, for two instructions
/// a step.
template <class L, typename T>
struct Given {
  const T* first;
  HWY_INLINE Given at(int64_t column) const { return {first + column}; }
  HWY_INLINE auto load(size_t i) const { return L::load(first + i); }
  HWY_INLINE auto load(const Tail<L>& tail) const { return tail.load(first); }
  template <class Step, size_t k>
  HWY_INLINE auto part(Step step, Part<k> part) const {
    return L::part(step, part);
  }
};

/// An expanded parameter, or a constant array that stands for an absent one and that every chunk
/// reads from its start.
template <class L>
struct Parameter {
  using C = typename L::C;
  Expanded<L> all;
  int64_t step;

  HWY_INLINE Parameter(const void* array, const C* constant, int64_t count)
      : all{L::columns(array ? static_cast<const C*>(array) : constant, count)},
        step(array ? 1 : 0) {}
  HWY_INLINE Expanded<L> at(int64_t column) const { return all.at(step * column); }
};

/// Expands `count` elements of a parameter of dtype T, plus `offset`; a null parameter is a
/// constant.
template <class L, typename T>
void expand(const void* given, double offset, double constant, int64_t count, void* to) {
  const typename L::Tag d;
  using C = typename L::C;
  const T* from = static_cast<const T*>(given);
  const auto out = L::columns(static_cast<C*>(to), count);
  const size_t step = L::step(), n = static_cast<size_t>(count);
  const auto store = [&](const T* source, auto columns, size_t i) HWY_ATTR {
    if (!given)
      return L::each_part([&](auto k) FUSEDNORM_INLINE {
        hn::StoreU(hn::Set(d, static_cast<C>(constant)), d, L::address(columns, i, k));
      });
    const auto loaded = L::load_parameter(source);
    const auto added = hn::Set(d, offset == 0 ? empty_sum<C> : static_cast<C>(offset));
    L::each_part([&](auto k) FUSEDNORM_INLINE {
      hn::StoreU(hn::Add(L::part(loaded, k), added), d, L::address(columns, i, k));
    });
  };
  for (size_t i = 0; i + step <= n; i += step) store(given ? from + i : nullptr, out, i);
  const Tail<L> tail(n);
  if (tail.count == 0) return;
  HWY_ALIGN T last[L::max_step] = {};
  if (given) std::memcpy(last, from + tail.begin, (tail.wide ? step : n) * sizeof(T));
  store(last, out.at(static_cast<int64_t>(tail.begin)), 0);
}

/// Expands a chunk of a parameter where threads share rows, and prefetches the next chunk.
template <class Arguments, typename C>
HWY_INLINE void expand_chunk(const Arguments& a, const void* given, double offset, double constant,
                             int64_t column, int64_t n, C* to) {
  if (!given) return a.expand(nullptr, 0, constant, n, to);
  const auto* from = static_cast<const uint8_t*>(given) + column * a.param_size;
  prefetch(from + n * a.param_size, static_cast<size_t>(n * a.param_size));
  a.expand(from, offset, constant, n, to);
}

FUSEDNORM_TARGET_END
#endif
