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

/// Every stage takes a segment chunk by chunk, its sums waiting in memory in between. A chunk is a
/// whole number of rounds of the accumulators, so that bits do not depend on chunks.
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
    HWY_ALIGN C sample[4 * max_lanes];
    HWY_ALIGN C rest[2 * max_lanes];
    HWY_ALIGN C squares[4 * max_lanes];
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

  /// Asks memory for what is needed soon, a line at a time.
  static HWY_INLINE void prefetch(const TX* from, size_t elements) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(from);
    for (size_t i = 0; i < elements * sizeof(TX); i += 64) hwy::Prefetch(bytes + i);
  }

  /// Adds the chunk at `x` to the sample, and asks for as much at `ahead`. Four accumulators hide
  /// the latency of an addition.
  static HWY_INLINE void sample_chunk(const TX* x, size_t n, const TX* ahead, V& s0, V& s1, V& s2,
                                      V& s3) {
    const size_t step = P::step();
    const PTail tail(n);
    size_t i = 0;
    for (; i + 4 * step <= n; i += 4 * step) {
      prefetch(ahead + i, 4 * step);
      s0 = hn::Add(s0, P::sample(x + i));
      s1 = hn::Add(s1, P::sample(x + i + step));
      s2 = hn::Add(s2, P::sample(x + i + 2 * step));
      s3 = hn::Add(s3, P::sample(x + i + 3 * step));
    }
    for (; i + step <= n; i += step) s0 = hn::Add(s0, P::sample(x + i));
    if (tail.count) {
      V a = s0, b = s0;
      tail.read(x, a, b);
      tail.only_new(a, b);
      s1 = hn::Add(s1, pairs ? b : a);
    }
  }

  static HWY_INLINE V sum(V s0, V s1, V s2, V s3) {
    return hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
  }
  static HWY_INLINE C total(V sums) { return hn::GetLane(hn::SumOfLanes(D(), sums)); }

  /// `share` is one over the number of sampled elements.
  static HWY_INLINE C centre_of(V sums, W share) {
    return static_cast<C>(static_cast<W>(total(sums)) * share);
  }

  /// The centre of a segment that is one chunk.
  static HWY_INLINE C centre_of_chunk(const TX* x, size_t n, const TX* ahead, W share) {
    V s0 = hn::Zero(D()), s1 = s0, s2 = s0, s3 = s0;
    sample_chunk(x, n, ahead, s0, s1, s2, s3);
    return centre_of(sum(s0, s1, s2, s3), share);
  }

  static HWY_INLINE void add_sample(const TX* x, size_t n, const TX* ahead, bool first,
                                    Sums& sums) {
    const D d;
    const size_t lanes = hn::Lanes(d);
    V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    if (!first) {
      s0 = hn::Load(d, sums.sample);
      s1 = hn::Load(d, sums.sample + lanes);
      s2 = hn::Load(d, sums.sample + 2 * lanes);
      s3 = hn::Load(d, sums.sample + 3 * lanes);
    }
    sample_chunk(x, n, ahead, s0, s1, s2, s3);
    hn::Store(s0, d, sums.sample);
    hn::Store(s1, d, sums.sample + lanes);
    hn::Store(s2, d, sums.sample + 2 * lanes);
    hn::Store(s3, d, sums.sample + 3 * lanes);
  }

  static HWY_INLINE void finish_sample(Sums& sums, W share) {
    const D d;
    const size_t lanes = hn::Lanes(d);
    sums.centre =
        centre_of(sum(hn::Load(d, sums.sample), hn::Load(d, sums.sample + lanes),
                      hn::Load(d, sums.sample + 2 * lanes), hn::Load(d, sums.sample + 3 * lanes)),
                  share);
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

  /// Mean and sum of squared deviations of a segment. What the centre left behind is taken out
  /// again. `share` is one over the number of elements.
  static HWY_INLINE void moments_of(C centre, V rest_sums, V square_sums, W share, W* mean,
                                    W* squares) {
    const W rest = total(rest_sums);
    const W offset = rest * share;
    *mean = static_cast<W>(centre) + offset;
    *squares = static_cast<W>(total(square_sums)) - rest * offset;
  }

  /// The sums of a segment that is one chunk.
  template <bool keep>
  static HWY_INLINE void sums_of_chunk(const TX* x, size_t n, C centre, C* kept, W* rest,
                                       W* squares) {
    const D d;
    V r0 = hn::Zero(d), r1 = r0, q0 = r0, q1 = r0, q2 = r0, q3 = r0;
    deviate_chunk<keep>(x, n, hn::Set(d, centre), kept, r0, r1, q0, q1, q2, q3);
    *rest = total(hn::Add(r0, r1));
    *squares = total(sum(q0, q1, q2, q3));
  }

  static HWY_INLINE void add_deviations(const TX* x, size_t n, bool first, Sums& sums) {
    const D d;
    const size_t lanes = hn::Lanes(d);
    V r0 = hn::Zero(d), r1 = r0, q0 = r0, q1 = r0, q2 = r0, q3 = r0;
    if (!first) {
      r0 = hn::Load(d, sums.rest);
      r1 = hn::Load(d, sums.rest + lanes);
      q0 = hn::Load(d, sums.squares);
      q1 = hn::Load(d, sums.squares + lanes);
      q2 = hn::Load(d, sums.squares + 2 * lanes);
      q3 = hn::Load(d, sums.squares + 3 * lanes);
    }
    deviate_chunk<false>(x, n, hn::Set(d, sums.centre), nullptr, r0, r1, q0, q1, q2, q3);
    hn::Store(r0, d, sums.rest);
    hn::Store(r1, d, sums.rest + lanes);
    hn::Store(q0, d, sums.squares);
    hn::Store(q1, d, sums.squares + lanes);
    hn::Store(q2, d, sums.squares + 2 * lanes);
    hn::Store(q3, d, sums.squares + 3 * lanes);
  }

  static HWY_INLINE void finish_deviations(const Sums& sums, W share, W* mean, W* squares) {
    const D d;
    const size_t lanes = hn::Lanes(d);
    moments_of(sums.centre, hn::Add(hn::Load(d, sums.rest), hn::Load(d, sums.rest + lanes)),
               sum(hn::Load(d, sums.squares), hn::Load(d, sums.squares + lanes),
                   hn::Load(d, sums.squares + 2 * lanes), hn::Load(d, sums.squares + 3 * lanes)),
               share, mean, squares);
  }

  /// Chan's merge of segment `s` into the moments of the segments before it.
  static HWY_INLINE void merge(const Segments& segments, int64_t s, W part_mean, W part_squares,
                               W* mean, W* squares) {
    const W before = static_cast<W>(segments.begin(s));
    const W total = static_cast<W>(segments.end(s));
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

  /// The last stage, from the deviations that the second kept or else from x.
  template <bool kept, Cache cache, typename T>
  static HWY_INLINE void normalize(const T* from, const C* gamma, const C* beta, TY* y, size_t n,
                                   const Factors& row) {
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
