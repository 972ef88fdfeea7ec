// The three stages of a row's LayerNorm on one instruction set: what centres it, its squared
// deviations from there, its normalised values. Included once per instruction set.
#if defined(FUSEDNORM_CPU_FORWARD_STAGES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_FORWARD_STAGES_INL_H_
#undef FUSEDNORM_CPU_FORWARD_STAGES_INL_H_
#else
#define FUSEDNORM_CPU_FORWARD_STAGES_INL_H_
#endif

#include <cmath>

#include "cpu/packs-inl.h"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace fusednorm::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Every stage takes a segment chunk by chunk. A chunk has accumulators of its own, which then join
/// the segment's sums: chains of additions are short, and little waits in memory between chunks.
template <typename TX, typename TY>
struct ForwardStages {
  using C = Compute<TX>;
  using W = Wide<C>;
  using D = hn::ScalableTag<C>;
  using V = hn::Vec<D>;
  static constexpr bool pairs = in_pairs<TX, TY>;
  using P = Pack<D, pairs>;
  using PTail = PackTail<D, pairs>;
  static constexpr size_t max_lanes = hn::MaxLanes(D());

  /// Sums of one segment on its way through the first two stages.
  struct Sums {
    HWY_ALIGN C sample[max_lanes];
    HWY_ALIGN C rest[max_lanes];
    HWY_ALIGN C squares[max_lanes];
    C anchor;
    C centre;
  };

  /// A row as the last stage sees it: y = ((x - centre) * rstd + shift) * gamma + beta, where the
  /// mean is centre - shift / rstd: right to the last bit even where the mean is thousands of times
  /// the spread.
  struct Factors {
    C centre;
    C shift;
    C rstd;
  };

  /// A sum of n times the same f32 or f64 may not be exact, and rows of one value must have no
  /// variance: their sample is taken relative to their first element. Sums of 16-bit elements near
  /// each other are exact.
  static HWY_INLINE C anchor_of(const TX* x) {
    if constexpr (sizeof(TX) == 2)
      return 0;
    else
      return x[0] - x[0] == 0 ? static_cast<C>(x[0]) : C(0);
  }

  /// The sample of the chunk at `x`. Four accumulators hide the latency of an addition.
  static HWY_INLINE V sample_chunk(const TX* x, size_t n, C anchor) {
    const D d;
    const size_t step = 2 * hn::Lanes(d);
    const PTail tail(n);
    const V anchors = hn::Set(d, anchor);
    const auto from_anchor = [&](V value) HWY_ATTR {
      if constexpr (sizeof(TX) == 2)
        return value;
      else
        return hn::Sub(value, anchors);
    };
    V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    size_t i = 0;
    for (; i + 4 * step <= n; i += 4 * step) {
      s0 = hn::Add(s0, from_anchor(P::sample(x + i)));
      s1 = hn::Add(s1, from_anchor(P::sample(x + i + step)));
      s2 = hn::Add(s2, from_anchor(P::sample(x + i + 2 * step)));
      s3 = hn::Add(s3, from_anchor(P::sample(x + i + 3 * step)));
    }
    for (; i + step <= n; i += step) s0 = hn::Add(s0, from_anchor(P::sample(x + i)));
    if (!pairs && i + step / 2 <= n) s2 = hn::Add(s2, from_anchor(P::sample(x + i)));
    if (tail.count) {
      V a = s0, b = s0;
      tail.read(x, a, b);
      a = from_anchor(a);
      tail.only_new(a, b);
      s1 = hn::Add(s1, pairs ? b : a);
    }
    return sum(s0, s1, s2, s3);
  }

  static HWY_INLINE V sum(V s0, V s1, V s2, V s3) {
    return hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
  }
  static HWY_INLINE C total(V sums) { return hn::GetLane(hn::SumOfLanes(D(), sums)); }

  /// `share` is one over the number of sampled elements.
  static HWY_INLINE C centre_of(V sums, W share, C anchor) {
    return static_cast<C>(static_cast<W>(anchor) + static_cast<W>(total(sums)) * share);
  }

  /// The centre of a row that is taken at once.
  static HWY_NOINLINE C centre_of_row(const TX* x, size_t n, W share) {
    const C anchor = anchor_of(x);
    return centre_of(sample_chunk(x, n, anchor), share, anchor);
  }

  /// Adds a chunk's sums to those of the chunks before it.
  static HWY_INLINE void join(V chunk, bool first, C* sums) {
    const D d;
    hn::Store(first ? chunk : hn::Add(hn::Load(d, sums), chunk), d, sums);
  }

  static HWY_NOINLINE void add_sample(const TX* x, size_t n, bool first, Sums& sums) {
    if (first) sums.anchor = anchor_of(x);
    join(sample_chunk(x, n, sums.anchor), first, sums.sample);
  }

  static HWY_INLINE void finish_sample(Sums& sums, W share) {
    sums.centre = centre_of(hn::Load(D(), sums.sample), share, sums.anchor);
  }

  /// Adds the chunk's deviations from the centre and their squares; keeps the deviations where
  /// `keep` says so.
  template <bool keep>
  static HWY_INLINE void deviate_chunk(const TX* x, size_t n, V centre, C* kept, V& r0, V& r1,
                                       V& q0, V& q1, V& q2, V& q3) {
    const size_t lanes = hn::Lanes(D()), step = P::step();
    const PTail tail(n);
    const auto read = [&](size_t i, V& a, V& b) HWY_ATTR {
      P::read(x + i, a, b);
      a = hn::Sub(a, centre);
      if constexpr (pairs) b = hn::Sub(b, centre);
      if constexpr (keep) P::write_compute(a, b, kept + i);
    };
    size_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
      V a0, a1, a2, a3;
      read(i, a0, a1);
      if constexpr (pairs) {
        read(i + step, a2, a3);
      } else {
        V unused;
        read(i + lanes, a1, unused);
        read(i + 2 * lanes, a2, a3);
        read(i + 3 * lanes, a3, unused);
      }
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
      read(i, a, b);
      add(a, b);
    }
    if (tail.count) {
      V a, b = centre;
      tail.read(x, a, b);
      a = hn::Sub(a, centre);
      b = hn::Sub(b, centre);
      if constexpr (keep) tail.write_compute(a, b, kept);
      tail.only_new(a, b);
      add(a, b);
    }
  }

  /// An infinite centre is the mean; the deviations from it say nothing.
  static HWY_INLINE W mean_of(C centre, W offset) {
    return centre - centre == 0 ? static_cast<W>(centre) + offset : static_cast<W>(centre);
  }

  /// Mean and sum of squared deviations of a segment. What the centre left behind is taken out
  /// again. `share` is one over the number of elements.
  static HWY_INLINE void moments_of(C centre, V rest_sums, V square_sums, W share, W* mean,
                                    W* squares) {
    const W rest = total(rest_sums);
    const W offset = rest * share;
    *mean = mean_of(centre, offset);
    *squares = static_cast<W>(total(square_sums)) - rest * offset;
  }

  /// The second stage's sums of a row that is taken at once.
  template <bool keep>
  static HWY_NOINLINE void sums_of_row(const TX* x, size_t n, C centre, C* kept, C* rest,
                                       C* squares) {
    const D d;
    V r0 = hn::Zero(d), r1 = r0, q0 = r0, q1 = r0, q2 = r0, q3 = r0;
    deviate_chunk<keep>(x, n, hn::Set(d, centre), kept, r0, r1, q0, q1, q2, q3);
    *rest = total(hn::Add(r0, r1));
    *squares = total(sum(q0, q1, q2, q3));
  }

  static HWY_NOINLINE void add_deviations(const TX* x, size_t n, bool first, Sums& sums) {
    const D d;
    V r0 = hn::Zero(d), r1 = r0, q0 = r0, q1 = r0, q2 = r0, q3 = r0;
    deviate_chunk<false>(x, n, hn::Set(d, sums.centre), nullptr, r0, r1, q0, q1, q2, q3);
    join(hn::Add(r0, r1), first, sums.rest);
    join(sum(q0, q1, q2, q3), first, sums.squares);
  }

  static HWY_INLINE void finish_deviations(const Sums& sums, W share, W* mean, W* squares) {
    const D d;
    moments_of(sums.centre, hn::Load(d, sums.rest), hn::Load(d, sums.squares), share, mean,
               squares);
  }

  /// Chan's merge of segment `s` into the moments of the segments before it.
  static HWY_INLINE void merge(const Segments& segments, int64_t s, W part_mean, W part_squares,
                               W* mean, W* squares) {
    const W before = static_cast<W>(segments.begin(s));
    const W total = static_cast<W>(segments.end(s));
    if (HWY_UNLIKELY(*mean - *mean != 0)) {
      *mean += part_mean;  // an infinite mean stays, or becomes NaN; the squares are NaN already
      return;
    }
    const W delta = part_mean - *mean;
    const W share = (total - before) / total;
    *mean += delta * share;
    *squares += part_squares + delta * delta * before * share;
  }

  static HWY_INLINE W rstd_of(W squares, W share, double eps) {
    // Rounding may leave less than nothing; a NaN stays.
    const W variance = squares < 0 ? W(0) : squares * share;
    return W(1) / std::sqrt(variance + static_cast<W>(eps));
  }

  /// The last stage, from the deviations that the second kept or else from x. It also asks for what
  /// the first stage needs soon, a line for each line that it writes: so reads keep pace with
  /// writes.
  template <bool kept, Cache cache, typename T>
  static HWY_NOINLINE void normalize(const T* from, const C* gamma, const C* beta, TY* y, size_t n,
                                     const Factors& row, const TX* ahead) {
    const D d;
    const size_t step = P::step();
    const PTail tail(n);
    const V centre = hn::Set(d, row.centre), shift = hn::Set(d, row.shift),
            rstd = hn::Set(d, row.rstd);
    const auto values = [&](V& a, V& b, V gamma_a, V gamma_b, V beta_a, V beta_b) HWY_ATTR {
      if constexpr (!kept) a = hn::Sub(a, centre);
      a = hn::MulAdd(hn::MulAdd(a, rstd, shift), gamma_a, beta_a);
      if constexpr (pairs) {
        if constexpr (!kept) b = hn::Sub(b, centre);
        b = hn::MulAdd(hn::MulAdd(b, rstd, shift), gamma_b, beta_b);
      }
    };
    const auto read = [](const T* at, V& a, V& b) HWY_ATTR {
      if constexpr (kept)
        P::read_compute(at, a, b);
      else
        P::read(at, a, b);
    };
    // Read before the loop writes, for y may be x.
    V last_a = centre, last_b = centre;
    if (tail.count) {
      if constexpr (kept)
        tail.read_compute(from, last_a, last_b);
      else
        tail.read(from, last_a, last_b);
    }
    const auto one = [&](size_t i) HWY_ATTR {
      V a, b = centre, gamma_a, gamma_b = centre, beta_a, beta_b = centre;
      read(from + i, a, b);
      P::read_compute(gamma + i, gamma_a, gamma_b);
      P::read_compute(beta + i, beta_a, beta_b);
      values(a, b, gamma_a, gamma_b, beta_a, beta_b);
      P::template write<cache>(a, b, y + i);
    };
    size_t i = 0;
    for (; i + 2 * step <= n; i += 2 * step) {
      prefetch(ahead + i, 2 * step);
      one(i);
      one(i + step);
    }
    if (i + step <= n) one(i);
    if (tail.count) {
      V gamma_a, gamma_b = centre, beta_a, beta_b = centre;
      tail.read_compute(gamma, gamma_a, gamma_b);
      tail.read_compute(beta, beta_a, beta_b);
      values(last_a, last_b, gamma_a, gamma_b, beta_a, beta_b);
      tail.write(last_a, last_b, y);
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
