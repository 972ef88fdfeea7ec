// SPDX-License-Identifier: Apache-2.0
// What the backward kernels share: their types, a row as each pass sees it, and the formulas for
// one vector. Included once per instruction set.
//
//   from x   xhat = (x - mean) * rstd     from y   xhat = (y - beta) / gamma     g = dy * gamma
//   dx = rstd * g + constant + slope * (x - mean), or + slope * xhat from y
#if defined(FUSEDNORM_CPU_KERNELS_BACKWARD_TYPES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_KERNELS_BACKWARD_TYPES_INL_H_
#undef FUSEDNORM_CPU_KERNELS_BACKWARD_TYPES_INL_H_
#else
#define FUSEDNORM_CPU_KERNELS_BACKWARD_TYPES_INL_H_
#endif

#include "cpu/dispatch/kernels.h"
#include "cpu/simd/parameters-inl.h"
#include "cpu/simd/row_input-inl.h"
#include "cpu/simd/row_output-inl.h"
#include "norms/norm.h"

HWY_BEFORE_NAMESPACE();
FUSEDNORM_TARGET_BEGIN

template <typename TX, typename TY, bool y_is_source>
struct BackwardTypes {
  static constexpr bool from_y = y_is_source;
  static constexpr bool sixteen_bit = sizeof(TX) == 2;
  using C = Compute<TX>;
  using W = Wide<C>;
  using D = Vectors<C>;
  using V = hn::Vec<D>;
  using Lanes = HWY_NAMESPACE::Lanes<D, TX, TY>;
  using Gradient = RowInput<Lanes, TY>;                                // dy
  using Source = RowInput<Lanes, std::conditional_t<from_y, TY, TX>>;  // x or y
  using Output = RowOutput<Lanes, TX>;                                 // dx
  using Parameter = Expanded<Lanes>;
  using Columns = typename Lanes::template Columns<C>;
  using Totals = norms::GradientSums<W>;
};

/// What a pass reads of a row, from one column on.
template <class B>
struct Operands {
  typename B::Gradient dy;
  typename B::Source source;
  typename B::Parameter gamma;
  typename B::Parameter beta;

  HWY_INLINE Operands at(int64_t column) const {
    return {dy.at(column), source.at(column), gamma.at(column), beta.at(column)};
  }
};

/// A row's statistics, as forward stored them.
template <class B>
struct Statistics {
  typename B::C mean;
  typename B::C rstd;
};

/// The column sums of dgamma and dbeta from one column on, if they are wanted.
template <class B>
struct ColumnSlice {
  typename B::Columns dgamma = {};
  typename B::Columns dbeta = {};

  /// Of `count` columns, at `column`.
  static HWY_INLINE ColumnSlice of(ColumnSums sums, int64_t count, int64_t column) {
    using C = typename B::C;
    if (!sums.dgamma) return {};
    return ColumnSlice{B::Lanes::columns(static_cast<C*>(sums.dgamma), count),
                       B::Lanes::columns(static_cast<C*>(sums.dbeta), count)}
        .at(column);
  }
  HWY_INLINE ColumnSlice at(int64_t column) const { return {dgamma.at(column), dbeta.at(column)}; }
};

/// A row as the dx pass sees it.
template <class B>
struct GradientFactors {
  using C = typename B::C;
  C mean;
  C rstd;
  C constant;
  C slope;
};

/// A chunk or a row as the sums pass takes it.
template <class B>
struct SumRow {
  Operands<B> in;
  size_t n;
  Statistics<B> row;
  ColumnSlice<B> columns;
};

/// A chunk or a row as the dx pass takes it, which prefetches `ahead` for the sums pass.
template <class B>
struct WriteRow {
  Operands<B> in;
  typename B::Output dx;
  size_t n;
  GradientFactors<B> row;
  typename B::Gradient ahead_dy;
  typename B::Source ahead_source;
};

template <class B>
HWY_INLINE Operands<B> operands(const BackwardArguments& a, int64_t row, int64_t column) {
  using C = typename B::C;
  const Parameter<typename B::Lanes> gamma(a.gamma, ones<C>.data(), a.cols),
      beta(a.beta, zeros<C>.data(), a.cols);
  return {B::Gradient::of(a.dy, row, a.dy_stride).at(column),
          B::Source::of(a.source, row, a.source_stride).at(column), gamma.at(column),
          beta.at(column)};
}

template <class B>
HWY_INLINE Statistics<B> statistics(const BackwardArguments& a, int64_t row) {
  using C = typename B::C;
  // In pairs NaNs are canonicalised: rounding to bf16 could turn their payload into a number.
  const auto settled = [](C value) {
    return in_pairs<typename B::Lanes> && value != value ? std::numeric_limits<C>::quiet_NaN()
                                                         : value;
  };
  const int64_t at = row * a.statistics_stride;
  return {B::from_y || !a.mean ? C(0) : settled(static_cast<const C*>(a.mean)[at]),
          settled(static_cast<const C*>(a.rstd)[at])};
}

/// From the sums over a whole row, where `share` is 1 / cols.
template <class B>
HWY_INLINE GradientFactors<B> make_factors(Operation operation, Statistics<B> row,
                                           typename B::W share, typename B::Totals sums) {
  using C = typename B::C;
  using W = typename B::W;
  const W rstd = static_cast<W>(row.rstd);
  const auto f = norms::gradient_factors<W>(operation, sums, rstd, share);
  return {row.mean, row.rstd, static_cast<C>(f.constant),
          static_cast<C>(f.slope * (B::from_y ? W(1) : rstd))};
}

template <class B>
HWY_INLINE typename B::W total(typename B::V lanes) {
  return static_cast<typename B::W>(sum_of_lanes(typename B::D(), lanes));
}

/// Adds a vector's terms to the row's sums and, `columns`, to those of its columns. From y the
/// weight is gamma * xhat, in which gamma cancels; dgamma is divided by gamma where it is stored.
/// `second` is the mean, or beta.
template <class B, bool columns>
HWY_INLINE void add_terms(typename B::V dy, typename B::V source, typename B::V gamma,
                          typename B::V second, typename B::V rstd, typename B::V& g_sum,
                          typename B::V& weighted_sum, [[maybe_unused]] typename B::V& dgamma,
                          [[maybe_unused]] typename B::V& dbeta) {
  using V = typename B::V;
  const V centred = hn::Sub(source, second);
  const V weight = B::from_y ? centred : hn::Mul(centred, rstd);
  if constexpr (B::from_y) {
    g_sum = hn::MulAdd(dy, gamma, g_sum);
    weighted_sum = hn::MulAdd(dy, weight, weighted_sum);
  } else {
    const V g = hn::Mul(dy, gamma);
    g_sum = hn::Add(g_sum, g);
    weighted_sum = hn::MulAdd(g, weight, weighted_sum);
  }
  if constexpr (columns) {
    dgamma = hn::MulAdd(dy, weight, dgamma);
    dbeta = hn::Add(dbeta, dy);
  }
}

FUSEDNORM_TARGET_END
#endif
