// The first stage of LayerNorm forward on one instruction set: the sums of a row, and from them its
// moments and what the last stage needs to know. Included once per instruction set.
#if defined(FUSEDNORM_CPU_FORWARD_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_FORWARD_SUMS_INL_H_
#undef FUSEDNORM_CPU_FORWARD_SUMS_INL_H_
#else
#define FUSEDNORM_CPU_FORWARD_SUMS_INL_H_
#endif

#include <cmath>

#include "cpu/packs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fusednorm::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Every stage takes a short row whole and a segment chunk by chunk. A chunk has accumulators of
/// its own, which then join the segment's sums: chains of additions are short, and little waits in
/// memory between chunks.
template <typename TX, typename TY>
struct ForwardSums {
  using C = Compute<TX>;
  using W = Wide<C>;
  using D = Vectors<C>;
  using V = hn::Vec<D>;
  static constexpr bool pairs = in_pairs<TX, TY>;
  using P = Pack<D, pairs>;
  using PTail = PackTail<D, pairs>;
  using Columns = typename P::template Columns<const C>;
  static constexpr size_t max_lanes = hn::MaxLanes(D());

  /// Sums of one segment on its way through the second stage.
  struct Sums {
    HWY_ALIGN C rest[max_lanes];
    HWY_ALIGN C squares[max_lanes];
  };

  /// A row as the last stage sees it: y = ((x - centre) * rstd + shift) * gamma + beta, where the
  /// mean is centre - shift / rstd: right to the last bit even where the mean is thousands of times
  /// the spread. Where the mean is no more than twice the spread, centre is zero.
  struct Factors {
    C centre;
    C shift;
    C rstd;
    bool centred;
    C mean;
  };

  /// Not centring costs a rounding relative to the mean instead of to the spread, and saves 16-bit
  /// rows, whose limit is arithmetic, one operation in eight.
  static HWY_INLINE Factors factors(W mean, W variance, W rstd) {
    const bool centred = sizeof(TX) != 2 || !(mean * mean <= 4 * variance);
    const C centre = centred ? static_cast<C>(mean) : C(0);
    return {centre, static_cast<C>((static_cast<W>(centre) - mean) * rstd), static_cast<C>(rstd),
            centred, static_cast<C>(mean)};
  }

  static HWY_INLINE V sum(V s0, V s1, V s2, V s3) {
    return hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
  }
  static HWY_INLINE C total(V sums) { return hn::GetLane(hn::SumOfLanes(D(), sums)); }

  /// What centres a segment of n elements whose mean is about `mean`: for 16-bit elements, whose
  /// sums hardly round, just that. A sum of n times the same f32 may not be exact, and rows of one
  /// value must have no variance: others take the mean of a sample, relative to their first
  /// element. Zero where that is no number, for then the deviations tell what the mean is.
  static HWY_INLINE C centre_of(const TX* x, int64_t n, W mean) {
    if constexpr (sizeof(TX) != 2) {
      const D d;
      const auto sampled = static_cast<size_t>(sample_length(n));
      const PTail tail(sampled);
      const C anchor = x[0] - x[0] == 0 ? static_cast<C>(x[0]) : C(0);
      const V anchors = hn::Set(d, anchor);
      V s0 = hn::Zero(d), s1 = s0;
      size_t i = 0;
      const size_t lanes = hn::Lanes(d);
      for (; i + 2 * lanes <= sampled; i += 2 * lanes) {
        s0 = hn::Add(s0, hn::Sub(load(d, x + i), anchors));
        s1 = hn::Add(s1, hn::Sub(load(d, x + i + lanes), anchors));
      }
      for (; i + lanes <= sampled; i += lanes) s0 = hn::Add(s0, hn::Sub(load(d, x + i), anchors));
      if (tail.count) {
        V a, b = s0;
        tail.read(x, a, b);
        a = hn::Sub(a, anchors);
        tail.only_new(a, b);
        s1 = hn::Add(s1, a);
      }
      mean =
          static_cast<W>(anchor) + static_cast<W>(total(hn::Add(s0, s1))) / static_cast<W>(sampled);
    }
    return mean - mean == 0 ? static_cast<C>(mean) : C(0);
  }

  /// Adds a chunk's sums to those of the chunks before it.
  static HWY_INLINE void join(V chunk, bool first, C* sums) {
    const D d;
    hn::Store(first ? chunk : hn::Add(hn::Load(d, sums), chunk), d, sums);
  }

  /// Adds the chunk's deviations from the centre, or from zero, and their squares.
  template <bool centred>
  static HWY_INLINE void deviate_chunk(const TX* x, size_t n, V centre, V& r0, V& r1, V& q0, V& q1,
                                       V& q2, V& q3) {
    const D d;
    const size_t lanes = hn::Lanes(d), step = P::step();
    const PTail tail(n);
    const auto from_centre = [&](V value) FUSEDNORM_INLINE {
      if constexpr (centred)
        return hn::Sub(value, centre);
      else
        return value;
    };
    size_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
      V a0, a1, a2, a3;
      P::read_four(x + i, a0, a1, a2, a3);
      a0 = from_centre(a0);
      a1 = from_centre(a1);
      a2 = from_centre(a2);
      a3 = from_centre(a3);
      r0 = hn::Add(r0, hn::Add(a0, a1));
      r1 = hn::Add(r1, hn::Add(a2, a3));
      q0 = hn::MulAdd(a0, a0, q0);
      q1 = hn::MulAdd(a1, a1, q1);
      q2 = hn::MulAdd(a2, a2, q2);
      q3 = hn::MulAdd(a3, a3, q3);
    }
    const auto add = [&](V a, V b) HWY_ATTR {
      r0 = hn::Add(r0, a);
      q0 = hn::MulAdd(a, a, q0);
      if constexpr (pairs) {
        r1 = hn::Add(r1, b);
        q1 = hn::MulAdd(b, b, q1);
      }
    };
    for (; i + step <= n; i += step) {
      V a, b = r0;
      P::read(x + i, a, b);
      a = from_centre(a);
      b = from_centre(b);
      add(a, b);
    }
    if (tail.count) {
      V a, b = centre;
      tail.read(x, a, b);
      a = from_centre(a);
      b = from_centre(b);
      tail.only_new(a, b);
      add(a, b);
    }
  }

  /// The second stage's sums of a row that is taken at once.
  static HWY_INLINE void sums_of_row(const TX* x, size_t n, C* rest, C* squares) {
    V r0 = hn::Zero(D()), r1 = r0, q0 = r0, q1 = r0, q2 = r0, q3 = r0;
    deviate_chunk<false>(x, n, r0, r0, r1, q0, q1, q2, q3);
    *rest = total(hn::Add(r0, r1));
    *squares = total(sum(q0, q1, q2, q3));
  }

  template <bool centred>
  static HWY_INLINE void add_deviations(const TX* x, size_t n, C centre, bool first, Sums& sums) {
    const D d;
    V r0 = hn::Zero(d), r1 = r0, q0 = r0, q1 = r0, q2 = r0, q3 = r0;
    deviate_chunk<centred>(x, n, hn::Set(d, centre), r0, r1, q0, q1, q2, q3);
    join(hn::Add(r0, r1), first, sums.rest);
    join(sum(q0, q1, q2, q3), first, sums.squares);
  }

  /// All chunks of a segment.
  template <bool centred>
  static HWY_INLINE void add_segment(const TX* x, int64_t n, C centre, Sums& sums) {
    for (int64_t offset = 0; offset < n;) {
      const int64_t piece = Chunk<C>::next(n - offset);
      add_deviations<centred>(x + offset, static_cast<size_t>(piece), centre, offset == 0, sums);
      offset += piece;
    }
  }

  static HWY_INLINE C total_of(const C* sums) { return total(hn::Load(D(), sums)); }

  struct SegmentMoments {
    W mean;
    W squares;
  };

  /// Mean and sum of squared deviations of a segment. What the centre left behind is taken out
  /// again. `share` is one over the number of elements.
  static HWY_INLINE SegmentMoments moments_of(C centre, C rest, C squares, W share) {
    const W offset = static_cast<W>(rest) * share;
    return {static_cast<W>(centre) + offset,
            static_cast<W>(squares) - static_cast<W>(rest) * offset};
  }

  /// A segment is summed as it is, and once more around its mean where that is `far` from zero for
  /// its spread: then squares around zero are larger than those around the mean, five times at
  /// twice the spread and twice at the spread, and so are their roundings. Also where squares
  /// overflowed.
  static constexpr W furthest = sizeof(TX) == 2 ? W(4) : W(1);
  static HWY_INLINE bool is_far(const SegmentMoments& m, W share) {
    return !(m.mean * m.mean <= furthest * share * m.squares && m.squares - m.squares == 0);
  }
  static HWY_NOINLINE SegmentMoments centred_moments(const TX* x, int64_t n, W mean, W share) {
    const C centre = centre_of(x, n, mean);
    Sums sums = {};
    add_segment<true>(x, n, centre, sums);
    return moments_of(centre, total_of(sums.rest), total_of(sums.squares), share);
  }

  /// The moments of the segment of n elements at `x`, from its sums around zero.
  static HWY_INLINE SegmentMoments settled(const TX* x, int64_t n, C rest, C squares, W share) {
    const SegmentMoments m = moments_of(C(0), rest, squares, share);
    return HWY_LIKELY(!is_far(m, share)) ? m : centred_moments(x, n, m.mean, share);
  }
  static HWY_INLINE SegmentMoments settled(const TX* x, int64_t n, const Sums& sums, W share) {
    return settled(x, n, total_of(sums.rest), total_of(sums.squares), share);
  }

  /// Chan's merge of segment `s` into the moments of the segments before it.
  static HWY_INLINE void merge(const Segments& segments, int64_t s, SegmentMoments part,
                               SegmentMoments& all) {
    const W before = static_cast<W>(segments.begin(s));
    const W total = static_cast<W>(segments.end(s));
    if (HWY_UNLIKELY(all.mean - all.mean != 0)) {
      all.mean += part.mean;  // an infinite mean stays, or becomes NaN; the squares are NaN already
      return;
    }
    const W delta = part.mean - all.mean;
    const W share = (total - before) / total;
    all.mean += delta * share;
    all.squares += part.squares + delta * delta * before * share;
  }

  static HWY_INLINE W variance_of(W squares, W share) {
    // Rounding may leave less than nothing; a NaN stays.
    return squares < 0 ? W(0) : squares * share;
  }
  static HWY_INLINE W rstd_of(W variance, double eps) {
    return W(1) / std::sqrt(variance + static_cast<W>(eps));
  }

  static constexpr bool can_finish_together =
      HWY_TARGET != HWY_SCALAR && HWY_HAVE_FLOAT64 && std::is_same_v<C, float>;

  /// The factors of rows_at_once rows of one segment from their sums around zero, by the operations
  /// that settled() and those after it make of one row, in vectors of rows. False, and nothing
  /// done, where one is far.
  static HWY_INLINE bool finish_together(const C* rest, const C* squares, W share, double eps,
                                         Factors* out) {
    constexpr size_t count = policy::rows_at_once;
    const hn::CappedTag<double, count> d;
    const hn::Rebind<float, decltype(d)> narrow;
    HWY_ALIGN float means[count], rstds[count], centres[count], shifts[count];
    for (size_t i = 0; i < count; i += hn::Lanes(d)) {
      const auto zero = hn::Zero(d);
      const auto shares = hn::Set(d, share);
      const auto sum = hn::PromoteTo(d, hn::Load(narrow, rest + i));
      const auto offset = hn::Mul(sum, shares);
      const auto mean = hn::Add(zero, offset);
      const auto around =
          hn::Sub(hn::PromoteTo(d, hn::Load(narrow, squares + i)), hn::Mul(sum, offset));
      const auto mean_squared = hn::Mul(mean, mean);
      const auto near = hn::And(hn::Le(mean_squared, hn::Mul(hn::Set(d, furthest * share), around)),
                                hn::Eq(hn::Sub(around, around), zero));
      if (HWY_UNLIKELY(!hn::AllTrue(d, near))) return false;
      const auto variance = hn::IfThenElse(hn::Lt(around, zero), zero, hn::Mul(around, shares));
      const auto rstd = hn::Div(hn::Set(d, 1.0), hn::Sqrt(hn::Add(variance, hn::Set(d, eps))));
      auto centre = hn::DemoteTo(narrow, mean);
      hn::Store(centre, narrow, means + i);
      // Near enough not to be centred where furthest is 4.
      if constexpr (sizeof(TX) == 2) centre = hn::Zero(narrow);
      const auto shift = hn::Mul(hn::Sub(hn::PromoteTo(d, centre), mean), rstd);
      hn::Store(centre, narrow, centres + i);
      hn::Store(hn::DemoteTo(narrow, shift), narrow, shifts + i);
      hn::Store(hn::DemoteTo(narrow, rstd), narrow, rstds + i);
    }
    for (size_t i = 0; i < count; ++i)
      out[i] = {centres[i], shifts[i], rstds[i], sizeof(TX) != 2, means[i]};
    return true;
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
