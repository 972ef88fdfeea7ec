// SPDX-License-Identifier: Apache-2.0
// The add pass: a + b, rounded and written once or twice. Forward makes the stored sum of x and
// residual with it, backward d = dx + ds for dx and dresidual; without b it converts rows between
// dtypes. Included once per instruction set.
#if defined(FUSEDNORM_CPU_KERNELS_ADD_PASS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_KERNELS_ADD_PASS_INL_H_
#undef FUSEDNORM_CPU_KERNELS_ADD_PASS_INL_H_
#else
#define FUSEDNORM_CPU_KERNELS_ADD_PASS_INL_H_
#endif

#include "cpu/dispatch/kernels.h"
#include "cpu/simd/row_input-inl.h"
#include "cpu/simd/row_output-inl.h"

HWY_BEFORE_NAMESPACE();
FUSEDNORM_TARGET_BEGIN

/// first = a + b, and second = a + b in b's dtype.
template <typename TA, typename TB, typename TFirst>
struct AddTypes {
  using D = Vectors<Compute<TB>>;  // no dtype is wider than that of b
  using Lanes = HWY_NAMESPACE::Lanes<D, TA, TFirst>;
  using A = RowInput<Lanes, TA>;
  using B = RowInput<Lanes, TB>;
  using First = RowOutput<Lanes, TFirst>;
  using Second = RowOutput<Lanes, TB>;
};

/// A row; b and second may be null.
template <class T>
struct AddRow {
  typename T::A a;
  typename T::B b;
  typename T::First first;
  typename T::Second second;

  HWY_INLINE AddRow at(int64_t column) const {
    return {a.at(column), b.first ? b.at(column) : b, first.at(column),
            second.first ? second.at(column) : second};
  }
};

/// Stores at `where`, a column or the tail, from loaded steps.
template <class T, bool adds, class StepA, class StepB, class Store>
HWY_INLINE void store_sum(StepA a, [[maybe_unused]] StepB b, const Store& store) {
  using L = typename T::Lanes;
  store([&](auto k) FUSEDNORM_INLINE {
    if constexpr (adds)
      return hn::Add(L::part(a, k), L::part(b, k));
    else
      return L::part(a, k);
  });
}

/// One row of n columns. Past the cache goes `first` and, if it is aligned as `first` is, `second`.
template <class T, bool adds, Cache cache, Cache second_cache>
HWY_INLINE void add_row(const AddRow<T>& row, size_t n, int64_t ahead_bytes) {
  using L = typename T::Lanes;
  const size_t step = L::step();
  const Tail<L> tail(n);
  const auto load_b = [&](const AddRow<T>& from, auto where) FUSEDNORM_INLINE {
    if constexpr (adds)
      return from.b.load(where);
    else
      return from.a.load(where);
  };
  const auto write = [&](auto first_to, auto second_to, const AddRow<T>& to, size_t i)
                         FUSEDNORM_INLINE {
                           const auto a = to.a.load(i);
                           const auto b = load_b(to, i);
                           store_sum<T, adds>(a, b, [&](const auto& part) FUSEDNORM_INLINE {
                             to.first.template store<decltype(first_to)::value>(i, part);
                             if (to.second.first)
                               to.second.template store<decltype(second_to)::value>(i, part);
                           });
                         };
  const std::integral_constant<Cache, Cache::keep> keep;
  // The tail overlaps the columns before it: read before the loop writes, for rows may be in place.
  const auto last_a = row.a.load(tail);
  const auto last_b = load_b(row, tail);
  size_t begin = 0, end = n - tail.count;
  if constexpr (cache == Cache::bypass) {
    const auto lines = row.first.lines(n);
    begin = lines.begin;
    end = lines.end;
    lines.each_unaligned(n, step, [&](size_t i) FUSEDNORM_INLINE {
      write(keep, keep, row.at(static_cast<int64_t>(i)), 0);
    });
  }
  const AddRow<T> from = row.at(static_cast<int64_t>(begin));
  const auto ahead = from.b.ahead(ahead_bytes);
  const size_t count = end - begin, line = HWY_MAX(step, T::First::Lines::line);
  const std::integral_constant<Cache, cache> first_to;
  const std::integral_constant<Cache, second_cache> second_to;
  size_t i = 0;
  for (; i + line <= count; i += line) {
    if constexpr (adds) ahead.prefetch(i, line);
    for (size_t k = 0; k < line; k += step) write(first_to, second_to, from, i + k);
  }
  for (; i < count; i += step) write(first_to, second_to, from, i);
  if (cache == Cache::keep && tail.count) {
    store_sum<T, adds>(last_a, last_b, [&](const auto& part) FUSEDNORM_INLINE {
      row.first.store(tail, part);
      if (row.second.first) row.second.store(tail, part);
    });
  }
}

template <class T, bool adds>
void add_rows_by_cache(const AddArguments& a, int64_t first_row, int64_t rows, int64_t column,
                       int64_t cols) {
  using First = typename T::First;
  using Second = typename T::Second;
  const auto n = static_cast<size_t>(cols);
  for (int64_t r = first_row; r < first_row + rows; ++r) {
    const AddRow<T> row =
        AddRow<T>{
            T::A::of(a.a, r, a.a_stride),
            adds ? T::B::of(a.b, r, a.b_stride) : typename T::B{nullptr},
            First::of(a.first, r, a.first_stride),
            a.second ? Second::of(a.second, r & a.second_ring, a.second_stride) : Second{nullptr},
        }
            .at(column);
    if constexpr (First::can_bypass) {
      if (a.streams_first && row.first.fits_lines(n)) {
        if constexpr (Second::can_bypass) {
          const auto begin = static_cast<int64_t>(row.first.lines(n).begin);
          if (a.streams_second && row.second.first && row.second.at(begin).head() == 0) {
            add_row<T, adds, Cache::bypass, Cache::bypass>(row, n, a.ahead_bytes);
            continue;
          }
        }
        add_row<T, adds, Cache::bypass, Cache::keep>(row, n, a.ahead_bytes);
        continue;
      }
    }
    add_row<T, adds, Cache::keep, Cache::keep>(row, n, a.ahead_bytes);
  }
}

template <typename TA, typename TB, typename TFirst>
void add_rows(const AddArguments& a, int64_t row, int64_t rows, int64_t column, int64_t cols) {
  using T = AddTypes<TA, TB, TFirst>;
  if (a.b)
    add_rows_by_cache<T, true>(a, row, rows, column, cols);
  else
    add_rows_by_cache<T, false>(a, row, rows, column, cols);
}

FUSEDNORM_TARGET_END
#endif
