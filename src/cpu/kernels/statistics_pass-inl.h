// SPDX-License-Identifier: Apache-2.0
// The statistics pass of forward: sums of a row, its moments, and the factors that the write pass
// needs. Included once per instruction set.
#if defined(FUSEDNORM_CPU_KERNELS_STATISTICS_PASS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_KERNELS_STATISTICS_PASS_INL_H_
#undef FUSEDNORM_CPU_KERNELS_STATISTICS_PASS_INL_H_
#else
#define FUSEDNORM_CPU_KERNELS_STATISTICS_PASS_INL_H_
#endif

#include "cpu/dispatch/kernels.h"
#include "cpu/simd/row_input-inl.h"
#include "cpu/simd/row_output-inl.h"
#include "norms/norm.h"

HWY_BEFORE_NAMESPACE();
FUSEDNORM_TARGET_BEGIN

/// The types of a forward kernel.
template <typename TX, typename TY>
struct ForwardTypes {
  using C = Compute<TX>;
  using W = Wide<C>;
  using D = Vectors<C>;
  using V = hn::Vec<D>;
  using Lanes = HWY_NAMESPACE::Lanes<D, TX, TY>;
  using Input = RowInput<Lanes, TX>;
  using Output = RowOutput<Lanes, TY>;
  using Moments = norms::Moments<W>;
  static constexpr bool sixteen_bit = sizeof(TX) == 2;
};

/// Whole rows of x. `adds`: an add pass makes them just before they are summed, and they lie in a
/// ring.
template <class F, bool adds>
class WholeRows {
 public:
  using Input = typename F::Input;

  explicit HWY_INLINE WholeRows(const ForwardArguments& a)
      : a_(a),
        first_(Input::of(a.x, 0, 0)),
        ahead_(Input::beyond(a.ahead, 0, 0)),
        stride_(a.x_stride),
        ahead_stride_(a.ahead_stride) {}

  HWY_INLINE void make([[maybe_unused]] int64_t row, [[maybe_unused]] int64_t rows) const {
    if constexpr (adds) a_.add(*a_.added, row, rows, 0, a_.cols);
  }
  HWY_INLINE Input at(int64_t row) const {
    if constexpr (adds) row &= a_.x_ring;
    return Input::of(first_.first, row, stride_);
  }
  /// What is prefetched while `row` is summed.
  HWY_INLINE Input ahead(int64_t row) const {
    return Input::beyond(ahead_.first, row, ahead_stride_);
  }

 private:
  const ForwardArguments& a_;
  Input first_, ahead_;
  int64_t stride_, ahead_stride_;
};

/// Which loop writes a row.
enum class Form : uint8_t {
  plain,    ///< centre is zero, and y rounded once
  centred,  ///< y is rounded once
  rounded,  ///< y is rounded several times
};

HWY_INLINE Form form_of(const Roundings& roundings, bool centred) {
  return roundings.several ? Form::rounded : centred ? Form::centred : Form::plain;
}

/// A row as the write pass sees it: y = ((x - centre) * rstd + shift) * gamma + beta, where the
/// mean is centre - shift / rstd: right to the last bit even where the mean is thousands of times
/// the spread.
template <class F>
struct Factors {
  using C = typename F::C;
  C centre;
  C shift;
  C rstd;
  Form form;
  C mean;
};

/// 16-bit rows whose mean is at most twice the spread are not centred: a rounding relative to the
/// mean instead of to the spread, for one operation in eight.
template <class F>
HWY_INLINE Factors<F> make_factors(const Roundings& roundings, typename F::W mean,
                                   typename F::W variance, typename F::W rstd) {
  using C = typename F::C;
  using W = typename F::W;
  const bool centred = !F::sixteen_bit || !(mean * mean <= 4 * variance);
  const C centre = centred ? static_cast<C>(mean) : C(0);
  return {centre, static_cast<C>((static_cast<W>(centre) - mean) * rstd), static_cast<C>(rstd),
          form_of(roundings, centred), static_cast<C>(mean)};
}

/// The sums of n elements of x, or of x - centre, and of their squares, lane by lane. A chunk has
/// accumulators of its own, so that chains of additions are short.
template <class F, bool centred>
HWY_INLINE void sum_chunk(typename F::Input x, size_t n, [[maybe_unused]] typename F::V centre,
                          typename F::V& sum, typename F::V& squares) {
  using L = typename F::Lanes;
  using V = typename F::V;
  const typename F::D d;
  const size_t step = L::step(), four = 4 * hn::Lanes(d);
  const Tail<L> tail(n);
  V r0 = hn::Zero(d), r1 = r0, q0 = r0, q1 = r0, q2 = r0, q3 = r0;
  const auto part = [&](auto loaded, auto k) FUSEDNORM_INLINE {
    const V value = L::part(loaded, k);
    if constexpr (centred)
      return hn::Sub(value, centre);
    else
      return value;
  };
  const auto add_four = [&](V a0, V a1, V a2, V a3) FUSEDNORM_INLINE {
    r0 = hn::Add(r0, hn::Add(a0, a1));
    r1 = hn::Add(r1, hn::Add(a2, a3));
    q0 = hn::MulAdd(a0, a0, q0);
    q1 = hn::MulAdd(a1, a1, q1);
    q2 = hn::MulAdd(a2, a2, q2);
    q3 = hn::MulAdd(a3, a3, q3);
  };
  const auto add_one = [&](V value, auto k) FUSEDNORM_INLINE {
    V& r = k == 0 ? r0 : r1;
    V& q = k == 0 ? q0 : q1;
    r = hn::Add(r, value);
    q = hn::MulAdd(value, value, q);
  };
  const Part<0> first;
  size_t i = 0;
  for (; i + four <= n; i += four) {
    const auto a = x.load(i), b = x.load(i + step);
    if constexpr (in_pairs<L>)
      add_four(part(a, first), part(a, Part<1>()), part(b, first), part(b, Part<1>()));
    else
      add_four(part(a, first), part(b, first), part(x.load(i + 2 * step), first),
               part(x.load(i + 3 * step), first));
  }
  for (; i + step <= n; i += step) {
    const auto loaded = x.load(i);
    L::each_part([&](auto k) FUSEDNORM_INLINE { add_one(part(loaded, k), k); });
  }
  if (tail.count) {
    const auto loaded = x.load(tail);
    L::each_part([&](auto k) FUSEDNORM_INLINE { add_one(tail.only_new(part(loaded, k), k), k); });
  }
  sum = hn::Add(r0, r1);
  squares = hn::Add(hn::Add(q0, q1), hn::Add(q2, q3));
}

/// Sums of a row that is taken whole.
template <class F>
HWY_INLINE void sum_row(typename F::Input x, size_t n, typename F::C* sum, typename F::C* squares) {
  const typename F::D d;
  typename F::V sums, square_sums;
  sum_chunk<F, false>(x, n, hn::Zero(d), sums, square_sums);
  *sum = sum_of_lanes(d, sums);
  *squares = sum_of_lanes(d, square_sums);
}

/// Sums of a segment on its way through its chunks.
template <class F>
struct SegmentSums {
  static constexpr size_t max_lanes = hn::MaxLanes(typename F::D());
  HWY_ALIGN typename F::C sum[max_lanes];
  HWY_ALIGN typename F::C squares[max_lanes];

  template <bool centred>
  HWY_INLINE void add(typename F::Input x, size_t n, typename F::C centre, bool first_chunk) {
    const typename F::D d;
    typename F::V chunk_sum, chunk_squares;
    sum_chunk<F, centred>(x, n, hn::Set(d, centre), chunk_sum, chunk_squares);
    add_chunk(d, chunk_sum, first_chunk, sum);
    add_chunk(d, chunk_squares, first_chunk, squares);
  }
  /// All chunks of a segment.
  template <bool centred>
  HWY_INLINE void add_segment(typename F::Input x, int64_t n, typename F::C centre) {
    for (int64_t offset = 0; offset < n;) {
      const int64_t piece = Chunk<typename F::C>::next(n - offset);
      add<centred>(x.at(offset), static_cast<size_t>(piece), centre, offset == 0);
      offset += piece;
    }
  }
  static HWY_INLINE typename F::C total(const typename F::C* lanes) {
    const typename F::D d;
    return sum_of_lanes(d, hn::Load(d, lanes));
  }
};

/// What centres a segment of n elements whose mean is about `mean`: for 16-bit elements, whose sums
/// hardly round, just that. A sum of n times the same f32 may not be exact, and rows of one value
/// must have no variance: others take the mean of a sample, relative to their first element. 0 if
/// not finite; the sums then give Inf or NaN.
template <class F>
HWY_INLINE typename F::C centre_of(typename F::Input x, int64_t n, typename F::W mean) {
  using C = typename F::C;
  using W = typename F::W;
  if constexpr (!F::sixteen_bit) {
    using L = typename F::Lanes;
    using V = typename F::V;
    const typename F::D d;
    const auto sampled = static_cast<size_t>(sample_length(n));
    const Tail<L> tail(sampled);
    const C anchor = x.element(0) - x.element(0) == 0 ? static_cast<C>(x.element(0)) : C(0);
    const V anchors = hn::Set(d, anchor);
    V s0 = hn::Zero(d), s1 = s0;
    size_t i = 0;
    const size_t lanes = hn::Lanes(d);
    for (; i + 2 * lanes <= sampled; i += 2 * lanes) {
      s0 = hn::Add(s0, hn::Sub(x.load(i), anchors));
      s1 = hn::Add(s1, hn::Sub(x.load(i + lanes), anchors));
    }
    for (; i + lanes <= sampled; i += lanes) s0 = hn::Add(s0, hn::Sub(x.load(i), anchors));
    if (tail.count) s1 = hn::Add(s1, tail.only_new(hn::Sub(x.load(tail), anchors), Part<0>()));
    mean = static_cast<W>(anchor) +
           static_cast<W>(sum_of_lanes(d, hn::Add(s0, s1))) / static_cast<W>(sampled);
  }
  return mean - mean == 0 ? static_cast<C>(mean) : C(0);
}

/// How large the square of the mean may be, in variances, before a segment is summed again about a
/// centre: squares about zero are then twice as large as about the mean (five times for 16 bits,
/// whose own rounding is coarser), and so are their roundings.
template <class F>
inline constexpr auto furthest = F::sixteen_bit ? typename F::W(4) : typename F::W(1);

/// Also where squares overflowed.
template <class F>
HWY_INLINE bool needs_centre(const typename F::Moments& m, typename F::W share) {
  return !(m.mean * m.mean <= furthest<F> * share * m.squares && m.squares - m.squares == 0);
}

/// Out of line: rare.
template <class F>
HWY_NOINLINE typename F::Moments centred_moments(typename F::Input x, int64_t n, typename F::W mean,
                                                 typename F::W share) {
  using W = typename F::W;
  const typename F::C centre = centre_of<F>(x, n, mean);
  SegmentSums<F> sums = {};
  sums.template add_segment<true>(x, n, centre);
  return norms::layer_norm::moments<W>(static_cast<W>(centre), static_cast<W>(sums.total(sums.sum)),
                                       static_cast<W>(sums.total(sums.squares)), share);
}

/// Moments of a segment of n elements from its sums about zero. `share` is 1 / n.
template <class F>
HWY_INLINE typename F::Moments moments_of(Operation operation, typename F::Input x, int64_t n,
                                          typename F::C sum, typename F::C squares,
                                          typename F::W share) {
  using W = typename F::W;
  const auto m = norms::moments<W>(operation, static_cast<W>(sum), static_cast<W>(squares), share);
  if (HWY_LIKELY(!norms::has_mean(operation) || !needs_centre<F>(m, share))) return m;
  return centred_moments<F>(x, n, m.mean, share);
}

/// Factors of a row from its moments, whose `share` is 1 / cols; stores the statistics if asked.
template <class F>
HWY_INLINE Factors<F> finish_row(const ForwardArguments& a, int64_t row, typename F::Moments m,
                                 typename F::W share, bool store_statistics) {
  using C = typename F::C;
  using W = typename F::W;
  const W variance = norms::variance_of(m.squares, share);
  const W rstd = norms::rstd_of(variance, static_cast<W>(a.eps));
  if (store_statistics) {
    const int64_t at = row * a.statistics_stride;
    if (a.mean) static_cast<C*>(a.mean)[at] = static_cast<C>(m.mean);
    if (a.rstd) static_cast<C*>(a.rstd)[at] = static_cast<C>(rstd);
  }
  return make_factors<F>(a.roundings, m.mean, variance, rstd);
}

FUSEDNORM_TARGET_END
#endif
