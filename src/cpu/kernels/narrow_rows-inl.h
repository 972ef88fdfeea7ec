// SPDX-License-Identifier: Apache-2.0
// Forward of rows so short that what is done once a row takes longer than the columns: four rows at
// a time, whose statistics are found in vectors of rows. Included once per instruction set.
#if defined(FUSEDNORM_CPU_KERNELS_NARROW_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_KERNELS_NARROW_ROWS_INL_H_
#undef FUSEDNORM_CPU_KERNELS_NARROW_ROWS_INL_H_
#else
#define FUSEDNORM_CPU_KERNELS_NARROW_ROWS_INL_H_
#endif

#include "cpu/kernels/write_pass-inl.h"

HWY_BEFORE_NAMESPACE();
FUSEDNORM_TARGET_BEGIN

template <class F>
inline constexpr bool can_finish_together =
    HWY_TARGET != HWY_SCALAR&& HWY_HAVE_FLOAT64&& std::is_same_v<typename F::C, float>;

/// Rows that wait for each other between their passes.
template <class F>
struct Batch {
  static constexpr int64_t most = policy::rows_at_once;
  HWY_ALIGN float sum[most];
  HWY_ALIGN float squares[most];
  Factors<F> factors[most];
};

/// The factors of a batch, by the operations that moments_of() and finish_row() make of one row.
/// False, and nothing done, where a row needs a centre.
template <class F>
HWY_INLINE bool finish_together(const ForwardArguments& a, double share, Batch<F>& batch) {
  constexpr size_t count = Batch<F>::most;
  const hn::CappedTag<double, count> d;
  const hn::Rebind<float, decltype(d)> narrow;
  HWY_ALIGN float means[count], rstds[count], centres[count], shifts[count];
  const Form form = form_of(a.roundings, !F::sixteen_bit);
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto zero = hn::Zero(d), shares = hn::Set(d, share);
    auto mean = zero, squares = hn::PromoteTo(d, hn::Load(narrow, batch.squares + i));
    if (HWY_LIKELY(norms::has_mean(a.operation))) {
      const auto sum = hn::PromoteTo(d, hn::Load(narrow, batch.sum + i));
      const auto offset = hn::Mul(sum, shares);
      mean = hn::Add(zero, offset);
      squares = hn::Sub(squares, hn::Mul(sum, offset));
    }
    const auto limit = hn::Mul(hn::Set(d, furthest<F> * share), squares);
    const auto near =
        hn::And(hn::Le(hn::Mul(mean, mean), limit), hn::Eq(hn::Sub(squares, squares), zero));
    if (HWY_UNLIKELY(!hn::AllTrue(d, near))) return false;
    const auto variance = hn::IfThenElse(hn::Lt(squares, zero), zero, hn::Mul(squares, shares));
    const auto rstd = hn::Div(hn::Set(d, 1.0), hn::Sqrt(hn::Add(variance, hn::Set(d, a.eps))));
    auto centre = hn::DemoteTo(narrow, mean);
    hn::Store(centre, narrow, means + i);
    // Near enough not to be centred: furthest is make_factors()' limit, too.
    if constexpr (F::sixteen_bit) centre = hn::Zero(narrow);
    const auto shift = hn::Mul(hn::Sub(hn::PromoteTo(d, centre), mean), rstd);
    hn::Store(centre, narrow, centres + i);
    hn::Store(hn::DemoteTo(narrow, shift), narrow, shifts + i);
    hn::Store(hn::DemoteTo(narrow, rstd), narrow, rstds + i);
  }
  for (size_t i = 0; i < count; ++i)
    batch.factors[i] = {centres[i], shifts[i], rstds[i], form, means[i]};
  return true;
}

/// Factors and statistics of rows `row` and on.
template <class F, bool adds>
HWY_INLINE void finish_batch(const ForwardArguments& a, int64_t row, const WholeRows<F, adds>& rows,
                             double share, int64_t count, Batch<F>& batch) {
  if (HWY_LIKELY(finish_together<F>(a, share, batch))) {
    for (int64_t r = 0; a.mean && r < count; ++r)
      static_cast<float*>(a.mean)[(row + r) * a.statistics_stride] = batch.factors[r].mean;
    for (int64_t r = 0; a.rstd && r < count; ++r)
      static_cast<float*>(a.rstd)[(row + r) * a.statistics_stride] = batch.factors[r].rstd;
    return;
  }
  for (int64_t r = 0; r < count; ++r) {
    batch.factors[r] = finish_row<F>(
        a, row + r,
        moments_of<F>(a.operation, rows.at(row + r), a.cols, batch.sum[r], batch.squares[r], share),
        share, true);
  }
}

template <class F, Cache cache, bool adds>
HWY_NOINLINE void narrow_rows(const ForwardArguments& a, int64_t begin, int64_t end) {
  const Parameter<typename F::Lanes> gamma(a.gamma, ones<float>.data(), a.cols),
      beta(a.beta, zeros<float>.data(), a.cols);
  const int64_t y_stride = a.y_stride, most = Batch<F>::most;
  const auto n = static_cast<size_t>(a.cols);
  const double share = 1.0 / static_cast<double>(a.cols);
  const WholeRows<F, adds> rows(a);
  auto y = F::Output::of(a.y, begin, y_stride);
  Batch<F> batches[2] = {};
  const auto sum_batch = [&](int64_t first, Batch<F>& batch) HWY_ATTR {
    const int64_t count = HWY_MIN(most, end - first);
    rows.make(first, count);
    for (int64_t r = 0; r < count; ++r)
      sum_row<F>(rows.at(first + r), n, &batch.sum[r], &batch.squares[r]);
  };
  sum_batch(begin, batches[0]);
  int now = 0;
  for (int64_t row = begin; row < end; row += most, now ^= 1) {
    const int64_t count = HWY_MIN(most, end - row);
    Batch<F>& batch = batches[now];
    finish_batch(a, row, rows, share, count, batch);
    if (HWY_LIKELY(row + most < end)) sum_batch(row + most, batches[now ^ 1]);
    for (int64_t r = 0; r < count; ++r, y = y.at(y_stride)) {
      if (cache == Cache::bypass) y.prefetch_head(policy::head_rows_ahead, y_stride);
      write<F, cache>(rows.at(row + r), gamma.all, beta.all, y, n, batch.factors[r],
                      rows.ahead(row + r + 2 * most), a.roundings);
    }
  }
}

FUSEDNORM_TARGET_END
#endif
