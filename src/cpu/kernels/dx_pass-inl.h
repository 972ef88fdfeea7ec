// SPDX-License-Identifier: Apache-2.0
// The dx pass of backward: dx from dy, x (or y), gamma and a row's factors. Included once per
// instruction set.
#if defined(FUSEDNORM_CPU_KERNELS_DX_PASS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_KERNELS_DX_PASS_INL_H_
#undef FUSEDNORM_CPU_KERNELS_DX_PASS_INL_H_
#else
#define FUSEDNORM_CPU_KERNELS_DX_PASS_INL_H_
#endif

#include "cpu/kernels/backward_types-inl.h"

HWY_BEFORE_NAMESPACE();
FUSEDNORM_TARGET_BEGIN

/// A vector of dx. `row` holds the factors; broadcasts of them stay in registers.
template <class B>
HWY_INLINE typename B::V gradient(typename B::V dy, typename B::V source, typename B::V gamma,
                                  [[maybe_unused]] typename B::V beta,
                                  const GradientFactors<B>& row) {
  const typename B::D d;
  const auto x =
      B::from_y ? hn::Div(hn::Sub(source, beta), gamma) : hn::Sub(source, hn::Set(d, row.mean));
  return hn::MulAdd(x, hn::Set(d, row.slope),
                    hn::MulAdd(hn::Mul(dy, hn::Set(d, row.rstd)), gamma, hn::Set(d, row.constant)));
}

/// What is added to dx: nothing, or a row of ds.
struct NoAddend {
  static HWY_INLINE NoAddend of(const BackwardArguments&, int64_t) { return {}; }
  HWY_INLINE NoAddend at(int64_t) const { return {}; }
  template <class Where>
  HWY_INLINE NoAddend load(const Where&) const {
    return {};
  }
  HWY_INLINE void prefetch_next(size_t, size_t) const {}
};
template <class B>
struct Addend {
  RowInput<typename B::Lanes, typename B::Output::Element> ds, next;
  HWY_INLINE Addend at(int64_t column) const { return {ds.at(column), next.at(column)}; }
  template <class Where>
  HWY_INLINE auto load(const Where& where) const {
    return ds.load(where);
  }
  HWY_INLINE void prefetch_next(size_t i, size_t count) const { next.prefetch(i, count); }
};

/// The row of ds; null where there is none.
template <class B>
HWY_INLINE Addend<B> addend_of(const BackwardArguments& a, int64_t row, int64_t column) {
  if (!B::sixteen_bit || !a.ds) return {};
  using Input = RowInput<typename B::Lanes, typename B::Output::Element>;
  const auto ds = Input::of(a.ds, row, a.ds_stride).at(column);
  return {ds, ds.later(0, policy::backward_rows_ahead, a.ds_stride)};
}

/// gradient() of part k, from loaded steps of dy, source and addend. `where` is a column, or the
/// tail.
template <class B, class Dy, class Source, class Added, class Where, class K>
HWY_INLINE typename B::V gradient_part(const Operands<B>& in, Dy dy, Source source, Added added,
                                       Where where, const GradientFactors<B>& row, K k) {
  using L = typename B::Lanes;
  const auto gamma = in.gamma.vector(where, k);
  auto beta = gamma;
  if constexpr (B::from_y) beta = in.beta.vector(where, k);
  const auto dx = gradient<B>(L::part(dy, k), L::part(source, k), gamma, beta, row);
  if constexpr (std::is_same_v<Added, NoAddend>)
    return dx;
  else
    return hn::Add(dx, L::part(added, k));
}

/// The step at column i.
template <class B, Cache cache, class Addend = NoAddend>
HWY_INLINE void write_step(const Operands<B>& in, typename B::Output dx, size_t i,
                           const GradientFactors<B>& row, Addend addend = {}) {
  const auto dy = in.dy.load(i);
  const auto source = in.source.load(i);
  const auto added = addend.load(i);
  dx.template store<cache>(i, [&](auto k) FUSEDNORM_INLINE {
    return gradient_part<B>(in, dy, source, added, i, row, k);
  });
}

/// Two steps, whose stores follow each other: a cache line that is half written when another store
/// comes leaves in two parts.
template <class B, Cache cache, class Addend = NoAddend>
HWY_INLINE void write_two(const Operands<B>& in, typename B::Output dx, size_t i,
                          const GradientFactors<B>& row, Addend addend = {}) {
  write_step<B, cache>(in, dx, i, row, addend);
  write_step<B, cache>(in, dx, i + B::Lanes::step(), row, addend);
}

/// Where the loop over a row of dx begins and ends: whole cache lines, or whole steps.
template <class B, Cache cache>
struct DxRange {
  size_t begin = 0;
  size_t end;

  explicit HWY_INLINE DxRange(const WriteRow<B>& w) : end(w.n - w.n % B::Lanes::step()) {
    if constexpr (cache == Cache::bypass) {
      const auto lines = w.dx.lines(w.n);
      begin = lines.begin;
      end = lines.end;
    }
  }
};

/// What is left of a row when [range.begin, range.begin + written) are: the rest of its range, then
/// the unaligned head and tail, or the tail. `last_dy`, `last_source` and `last_added` are the
/// tail's operands, read before dx overwrote them.
template <class B, Cache cache, class Dy, class Source, class Addend, class Added>
HWY_INLINE void write_rest(const WriteRow<B>& w, DxRange<B, cache> range, size_t written,
                           const Tail<typename B::Lanes>& tail, Dy last_dy, Source last_source,
                           Addend addend, Added last_added) {
  const size_t step = B::Lanes::step(), two = 2 * step, line = HWY_MAX(two, B::Output::Lines::line);
  const auto begin = static_cast<int64_t>(range.begin);
  const Operands<B> in = w.in.at(begin);
  const auto dx = w.dx.at(begin);
  const auto ahead_dy = w.ahead_dy.at(begin);
  const auto ahead_source = w.ahead_source.at(begin);
  const Addend add = addend.at(begin);
  const size_t count = range.end - range.begin;
  size_t j = written;
  for (const size_t whole = count - (count - j) % line; j != whole; j += line) {
    ahead_dy.prefetch(j, line);
    ahead_source.prefetch(j, line);
    add.prefetch_next(j, line);
    for (size_t k = 0; k < line; k += two) write_two<B, cache>(in, dx, j + k, w.row, add);
  }
  for (; j + two <= count; j += two) write_two<B, cache>(in, dx, j, w.row, add);
  for (; j < count; j += step) write_step<B, cache>(in, dx, j, w.row, add);
  if constexpr (cache == Cache::bypass) {
    w.dx.lines(w.n).each_unaligned(w.n, step, [&](size_t i) FUSEDNORM_INLINE {
      const auto column = static_cast<int64_t>(i);
      write_step<B, Cache::keep>(w.in.at(column), w.dx.at(column), 0, w.row, addend.at(column));
    });
  } else if (tail.count) {
    w.dx.store(tail, [&](auto k) FUSEDNORM_INLINE {
      return gradient_part<B>(w.in, last_dy, last_source, last_added, tail, w.row, k);
    });
  }
}

template <class B, Cache cache, class Addend>
HWY_INLINE void write_dx(const WriteRow<B>& w, Addend addend) {
  const Tail<typename B::Lanes> tail(w.n);
  const auto last_dy = w.in.dy.load(tail);
  const auto last_source = w.in.source.load(tail);
  const auto last_added = addend.load(tail);
  write_rest<B, cache>(w, DxRange<B, cache>(w), 0, tail, last_dy, last_source, addend, last_added);
}

/// A chunk of dx. Past the cache only where it has whole cache lines: a row's last segment may be
/// of any length. By value: an object whose address is known is reloaded after every store.
template <class B, Cache cache>
HWY_NOINLINE void write_dx_chunk(WriteRow<B> w) {
  write_dx<B, cache>(w, NoAddend());
}
/// dx + ds.
template <class B, Cache cache>
HWY_NOINLINE void write_sum_chunk(WriteRow<B> w, Addend<B> addend) {
  write_dx<B, cache>(w, addend);
}
/// Only 16-bit rows have an addend.
template <class B, Cache cache>
HWY_INLINE void write_dx_or_sum(const WriteRow<B>& w, const Addend<B>& addend) {
  if constexpr (B::sixteen_bit) {
    if (addend.ds.first) return write_sum_chunk<B, cache>(w, addend);
  }
  write_dx_chunk<B, cache>(w);
}
template <class B>
HWY_INLINE void write_dx_chunk(const WriteRow<B>& w, const Addend<B>& addend, bool bypass) {
  if (bypass && w.dx.fits_lines(w.n))
    write_dx_or_sum<B, B::Output::past>(w, addend);
  else
    write_dx_or_sum<B, Cache::keep>(w, addend);
}

/// Whether dx goes past the cache.
template <class B>
bool bypasses(const BackwardArguments& a) {
  using Output = typename B::Output;
  return Output::can_bypass && a.dx && a.streaming &&
         Output::Lines::fit(Output::of(a.dx, 0, 0).first, a.dx_stride, a.cols);
}

FUSEDNORM_TARGET_END
#endif
