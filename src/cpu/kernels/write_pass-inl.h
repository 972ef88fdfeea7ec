// SPDX-License-Identifier: Apache-2.0
// The write pass of forward: y from x, gamma, beta and a row's factors. Included once per
// instruction set.
#if defined(FUSEDNORM_CPU_KERNELS_WRITE_PASS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_KERNELS_WRITE_PASS_INL_H_
#undef FUSEDNORM_CPU_KERNELS_WRITE_PASS_INL_H_
#else
#define FUSEDNORM_CPU_KERNELS_WRITE_PASS_INL_H_
#endif

#include "cpu/kernels/statistics_pass-inl.h"
#include "cpu/simd/parameters-inl.h"

HWY_BEFORE_NAMESPACE();
FUSEDNORM_TARGET_BEGIN

// Q is Expanded or Given.

/// Writes n columns. Prefetches one cache line of `ahead` per line of y, so that reads keep pace
/// with writes.
template <class F, Form form, Cache cache, class Q>
HWY_INLINE void write_columns(typename F::Input x, Q gamma, Q beta, typename F::Output y, size_t n,
                              const Factors<F>& row, typename F::Input ahead,
                              [[maybe_unused]] Roundings roundings) {
  using L = typename F::Lanes;
  using V = typename F::V;
  const typename F::D d;
  const size_t step = L::step();
  const V centre = hn::Set(d, row.centre), shift = hn::Set(d, row.shift),
          rstd = hn::Set(d, row.rstd);
  const auto value = [&](V v, V gamma_part, V beta_part) FUSEDNORM_INLINE {
    if constexpr (form != Form::plain) v = hn::Sub(v, centre);
    v = hn::MulAdd(v, rstd, shift);
    if constexpr (form != Form::rounded) return hn::MulAdd(v, gamma_part, beta_part);
    const V product = hn::Mul(L::narrowed(v, roundings.xhat), gamma_part);
    return hn::Add(L::narrowed(product, roundings.product), beta_part);
  };
  const auto write_step = [&](auto stores, auto from, Q gammas, Q betas, auto to,
                              size_t i) FUSEDNORM_INLINE {
    const auto x_step = from.load(i);
    const auto gamma_step = gammas.load(i), beta_step = betas.load(i);
    to.template store<decltype(stores)::value>(i, [&](auto k) FUSEDNORM_INLINE {
      return value(L::part(x_step, k), gammas.part(gamma_step, k), betas.part(beta_step, k));
    });
  };
  size_t begin = 0, end = n;
  const Tail<L> tail(n);
  if constexpr (cache == Cache::bypass) {
    const auto lines = y.lines(n);
    begin = lines.begin;
    end = lines.end;
    lines.each_unaligned(n, step, [&](size_t i) FUSEDNORM_INLINE {
      const auto column = static_cast<int64_t>(i);
      write_step(std::integral_constant<Cache, Cache::keep>(), x.at(column), gamma.at(column),
                 beta.at(column), y.at(column), 0);
    });
  } else {
    end -= tail.count;
  }
  // The tail overlaps the columns before it: read before the loop writes, for y may be x.
  const auto last = x.load(tail);
  const auto column = static_cast<int64_t>(begin);
  const auto from = x.at(column), next = ahead.at(column);
  const Q gammas = gamma.at(column), betas = beta.at(column);
  const auto to = y.at(column);
  const auto one = [&](size_t i) FUSEDNORM_INLINE {
    write_step(std::integral_constant<Cache, cache>(), from, gammas, betas, to, i);
  };
  const size_t count = end - begin, four = 4 * step / L::parts;
  size_t i = 0;
  // Steps in order: a cache line that is half written when the next is begun leaves in two parts.
  for (; i + four <= count; i += four) {
    next.prefetch(i, four);
    for (size_t k = 0; k < four; k += step) one(i + k);
  }
  for (; i < count; i += step) one(i);
  if (cache == Cache::keep && tail.count) {
    const auto gamma_step = gamma.load(tail), beta_step = beta.load(tail);
    y.store(tail, [&](auto k) FUSEDNORM_INLINE {
      return value(L::part(last, k), gamma.part(gamma_step, k), beta.part(beta_step, k));
    });
  }
}

/// Out of line: one loop for rows of every length.
template <class F, Cache cache>
HWY_NOINLINE void write_rounded_row(typename F::Input x, Expanded<typename F::Lanes> gamma,
                                    Expanded<typename F::Lanes> beta, typename F::Output y,
                                    size_t n, Factors<F> row, typename F::Input ahead,
                                    Roundings roundings) {
  write_columns<F, Form::rounded, cache>(x, gamma, beta, y, n, row, ahead, roundings);
}

/// By form; f32 and f64 rows are never plain, and 16-bit parameters as given are for rows that are
/// rounded once.
template <class F, Cache cache, class Q>
HWY_INLINE void write_row(typename F::Input x, Q gamma, Q beta, typename F::Output y, size_t n,
                          const Factors<F>& row, typename F::Input ahead,
                          const Roundings& roundings) {
  if constexpr (std::is_same_v<Q, Expanded<typename F::Lanes>>) {
    if (HWY_UNLIKELY(row.form == Form::rounded))
      return write_rounded_row<F, cache>(x, gamma, beta, y, n, row, ahead, roundings);
  }
  if (!F::sixteen_bit || row.form == Form::centred)
    write_columns<F, Form::centred, cache>(x, gamma, beta, y, n, row, ahead, {});
  else
    write_columns<F, Form::plain, cache>(x, gamma, beta, y, n, row, ahead, {});
}

/// Out of line: rows that have no whole cache lines.
template <class F, class Q>
HWY_NOINLINE void write_cached_row(typename F::Input x, Q gamma, Q beta, typename F::Output y,
                                   size_t n, Factors<F> row, Roundings roundings) {
  write_row<F, Cache::keep>(x, gamma, beta, y, n, row, x, roundings);
}

/// Past the cache only where the row has whole cache lines.
template <class F, Cache cache, class Q>
HWY_INLINE void write(typename F::Input x, Q gamma, Q beta, typename F::Output y, size_t n,
                      const Factors<F>& row, typename F::Input ahead, const Roundings& roundings) {
  if (cache == Cache::keep || HWY_LIKELY(y.fits_lines(n)))
    write_row<F, cache>(x, gamma, beta, y, n, row, ahead, roundings);
  else
    write_cached_row<F>(x, gamma, beta, y, n, row, roundings);
}

FUSEDNORM_TARGET_END
#endif
