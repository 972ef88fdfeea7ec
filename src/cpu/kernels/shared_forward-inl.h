// SPDX-License-Identifier: Apache-2.0
// Forward of rows that threads share: moments of a segment, their merge, and the write pass of a
// segment of several rows. Included once per instruction set.
#if defined(FUSEDNORM_CPU_KERNELS_SHARED_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_KERNELS_SHARED_FORWARD_INL_H_
#undef FUSEDNORM_CPU_KERNELS_SHARED_FORWARD_INL_H_
#else
#define FUSEDNORM_CPU_KERNELS_SHARED_FORWARD_INL_H_
#endif

#include "cpu/kernels/write_pass-inl.h"

HWY_BEFORE_NAMESPACE();
FUSEDNORM_TARGET_BEGIN

/// As long_rows() would have them.
template <class F>
Moments segment_moments(const ForwardArguments& a, int64_t row, int64_t segment) {
  using W = typename F::W;
  const int64_t begin = a.segments.begin(segment), n = a.segments.end(segment) - begin;
  const auto x = F::Input::of(a.x, row, a.x_stride).at(begin);
  SegmentSums<F> sums = {};
  sums.template add_segment<false>(x, n, 0);
  const auto m = moments_of<F>(a.operation, x, n, sums.total(sums.sum), sums.total(sums.squares),
                               W(1) / static_cast<W>(n));
  return {static_cast<long double>(m.mean), static_cast<long double>(m.squares)};
}

template <class F>
Moments merge_moments(const ForwardArguments& a, const Moments* parts) {
  using W = typename F::W;
  typename F::Moments all = {};
  for (int64_t s = 0; s < a.segments.count; ++s) {
    norms::merge<W>(all, static_cast<W>(a.segments.begin(s)),
                    {static_cast<W>(parts[s].mean), static_cast<W>(parts[s].squares)},
                    static_cast<W>(a.segments.end(s)));
  }
  return {static_cast<long double>(all.mean), static_cast<long double>(all.squares)};
}

/// A chunk of all rows at a time, so that gamma and beta are read once for all.
template <class F, class Q>
HWY_INLINE void write_chunk(const ForwardArguments& a, int64_t row_begin, int64_t row_end,
                            int64_t column, int64_t n, Q gamma, Q beta, const Factors<F>* factors,
                            int64_t ahead_rows) {
  using Output = typename F::Output;
  for (int64_t row = row_begin; row < row_end; ++row) {
    const auto x = F::Input::of(a.x, row, a.x_stride).at(column);
    const auto y = Output::of(a.y, row, a.y_stride).at(column);
    const auto ahead = ahead_rows > 0 ? x.later(0, ahead_rows, a.x_stride) : x.ahead();
    const Factors<F>& of_row = factors[row - row_begin];
    const auto count = static_cast<size_t>(n);
    if (Output::can_bypass && a.streaming)
      write<F, Output::past>(x, gamma, beta, y, count, of_row, ahead, a.roundings);
    else
      write<F, Cache::keep>(x, gamma, beta, y, count, of_row, ahead, a.roundings);
  }
}

template <class F>
void write_shared_y(const ForwardArguments& a, int64_t row_begin, int64_t row_end, int64_t segment,
                    const Moments* of_rows, int64_t ahead_rows) {
  using C = typename F::C;
  using L = typename F::Lanes;
  using W = typename F::W;
  using X = typename F::Input::Element;
  const Parameter<L> gamma(a.gamma, ones<C>.data(), a.cols), beta(a.beta, zeros<C>.data(), a.cols);
  Factors<F> factors[policy::max_shared_rows];
  for (int64_t row = row_begin; row < row_end; ++row) {
    const Moments& m = of_rows[(row - row_begin) * a.segments.count];
    factors[row - row_begin] =
        finish_row<F>(a, row, {static_cast<W>(m.mean), static_cast<W>(m.squares)},
                      W(1) / static_cast<W>(a.cols), segment == 0);
  }
  HWY_ALIGN C expanded[2][policy::room(Chunk<C>::longest)];
  const int64_t last = a.segments.end(segment);
  for (int64_t column = a.segments.begin(segment), n; column < last; column += n) {
    n = Chunk<C>::next(last - column);
    const auto write_with = [&](auto gamma_at, auto beta_at) HWY_ATTR {
      write_chunk<F>(a, row_begin, row_end, column, n, gamma_at, beta_at, factors, ahead_rows);
    };
    if (a.as_given) {
      if constexpr (F::sixteen_bit)
        write_with(Given<L, X>{static_cast<const X*>(a.gamma) + column},
                   Given<L, X>{static_cast<const X*>(a.beta) + column});
    } else if (a.expand) {
      expand_chunk(a, a.gamma, a.gamma_offset, 1, column, n, expanded[0]);
      expand_chunk(a, a.beta, 0, 0, column, n, expanded[1]);
      const C *own_gamma = expanded[0], *own_beta = expanded[1];
      write_with(Expanded<L>{L::columns(own_gamma, n)}, Expanded<L>{L::columns(own_beta, n)});
    } else {
      write_with(gamma.at(column), beta.at(column));
    }
  }
}

FUSEDNORM_TARGET_END
#endif
