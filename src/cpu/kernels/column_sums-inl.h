// SPDX-License-Identifier: Apache-2.0
// Column sums that do not lose accuracy with the number of rows: short plain sums gathered into
// compensated pairs. Included once per instruction set.
#if defined(FUSEDNORM_CPU_KERNELS_COLUMN_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_KERNELS_COLUMN_SUMS_INL_H_
#undef FUSEDNORM_CPU_KERNELS_COLUMN_SUMS_INL_H_
#else
#define FUSEDNORM_CPU_KERNELS_COLUMN_SUMS_INL_H_
#endif

#include "cpu/simd/row_output-inl.h"

HWY_BEFORE_NAMESPACE();
FUSEDNORM_TARGET_BEGIN

// Arrays of sums are padded to whole vectors.

/// Knuth's two-sum: high + low grows by `value` with no error but low's own rounding.
template <class V>
HWY_INLINE void two_sum(V& high, V& low, V value) {
  const V sum = hn::Add(high, value);
  const V part = hn::Sub(sum, high);
  low = hn::Add(low, hn::Add(hn::Sub(high, hn::Sub(sum, part)), hn::Sub(value, part)));
  high = sum;
}

/// An infinite sum stays infinite: its low part is NaN.
template <class V>
HWY_INLINE V settled(V high, V low) {
  return hn::IfThenElse(hn::IsFinite(high), hn::Add(high, low), high);
}

template <typename C>
void compensate(void* high, void* low, const void* sum, int64_t count) {
  const Vectors<C> d;
  C* h = static_cast<C*>(high);
  C* l = static_cast<C*>(low);
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::Lanes(d))) {
    auto high_part = hn::LoadU(d, h + i), low_part = hn::LoadU(d, l + i);
    two_sum(high_part, low_part, hn::LoadU(d, static_cast<const C*>(sum) + i));
    hn::StoreU(high_part, d, h + i);
    hn::StoreU(low_part, d, l + i);
  }
}

template <typename C>
void settle(void* sum, const void* high, const void* low, int64_t count) {
  const Vectors<C> d;
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::Lanes(d))) {
    const auto result = settled(hn::LoadU(d, static_cast<const C*>(high) + i),
                                hn::LoadU(d, static_cast<const C*>(low) + i));
    hn::StoreU(result, d, static_cast<C*>(sum) + i);
  }
}

/// One vector of the sum of `blocks` arrays, which begins at `first` in the first of them.
template <class D>
HWY_INLINE hn::Vec<D> sum_of_blocks(D d, const hn::TFromD<D>* first, int64_t blocks,
                                    int64_t pitch) {
  hn::Vec<D> high = hn::LoadU(d, first), low = hn::Zero(d);
  for (int64_t block = 1; block < blocks; ++block)
    two_sum(high, low, hn::LoadU(d, first + block * pitch));
  return blocks == 1 ? high : settled(high, low);
}

/// The vector at column `at` of a divisor of `count` columns. In order it may be the caller's own,
/// which ends with the columns.
template <class D>
HWY_INLINE hn::Vec<D> divisor_at(D d, const hn::TFromD<D>* divisor, int64_t at, int64_t count,
                                 bool padded) {
  if (padded || at + static_cast<int64_t>(hn::Lanes(d)) <= count) return hn::LoadU(d, divisor + at);
  HWY_ALIGN hn::TFromD<D> last[hn::MaxLanes(D())] = {};
  std::memcpy(last, divisor + at, static_cast<size_t>(count - at) * sizeof(*last));
  return hn::Load(d, last);
}

/// Columns [begin, end) of `count`, from the layout of a kernel's lanes to the order of memory.
template <class L, typename TP>
void store_column_sums(void* out, const void* sums, int64_t blocks, int64_t pitch, int64_t count,
                       int64_t begin, int64_t end, bool streaming, const void* divisor) {
  using C = typename L::C;
  const typename L::Tag d;
  const auto* all = static_cast<const C*>(sums);
  const auto from = L::columns(all, count).at(begin);
  const auto to = RowOutput<L, TP>::of(out, 0, 0).at(begin);
  const size_t step = L::step(), n = static_cast<size_t>(end - begin);
  const auto part_at = [&](size_t i, auto k) HWY_ATTR {
    const C* first = L::address(from, i, k);
    const auto sum = sum_of_blocks(d, first, blocks, pitch);
    if (!divisor) return sum;
    return hn::Div(sum,
                   divisor_at(d, static_cast<const C*>(divisor), first - all, count, in_pairs<L>));
  };
  size_t i = 0;
  if constexpr ((!in_pairs<L> || sizeof(TP) == 2) && RowOutput<L, TP>::can_bypass) {
    if (streaming && to.head() == 0) {
      constexpr size_t line = CacheLines<TP>::line;
      for (const size_t whole = n - n % line; i < whole; i += step)
        to.template store<Cache::bypass>(i, [&](auto k) HWY_ATTR { return part_at(i, k); });
    }
  }
  for (; i + step <= n; i += step)
    to.template store<Cache::keep>(i, [&](auto k) HWY_ATTR { return part_at(i, k); });
  if (i == n) return;
  HWY_ALIGN TP last[L::max_step];
  L::template store<Cache::keep>(last, [&](auto k) HWY_ATTR { return part_at(i, k); });
  std::memcpy(to.first + i, last, (n - i) * sizeof(TP));
}

FUSEDNORM_TARGET_END
#endif
