// The two stages of a row's LayerNorm backward on one instruction set: its two sums, then dx and
// the row's part of the column sums. Included once per instruction set.
#if defined(FUSEDNORM_CPU_BACKWARD_STAGES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_BACKWARD_STAGES_INL_H_
#undef FUSEDNORM_CPU_BACKWARD_STAGES_INL_H_
#else
#define FUSEDNORM_CPU_BACKWARD_STAGES_INL_H_
#endif

#include "cpu/packs-inl.h"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace fusednorm::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Stages take a segment chunk by chunk, as forward's do.
template <typename TX, typename TY, bool from_y>
struct BackwardStages {
  using C = Compute<TX>;
  using W = Wide<C>;
  using D = hn::ScalableTag<C>;
  using V = hn::Vec<D>;
  using TS = std::conditional_t<from_y, TY, TX>;  // of the array that xhat is known from
  static constexpr bool pairs = in_pairs<TX, TY>;
  using P = Pack<D, pairs>;
  using PTail = PackTail<D, pairs>;
  static constexpr size_t max_lanes = hn::MaxLanes(D());

  /// What a stage reads of a row, at one column.
  struct Pieces {
    const TY* dy;
    const TS* source;
    const C* gamma;
    const C* beta;
  };

  /// The sums of dy * gamma, and of that times x - mean, or dy * (y - beta), in which gamma
  /// cancels.
  struct Sums {
    HWY_ALIGN C g[max_lanes];
    HWY_ALIGN C weighted[max_lanes];
  };

  /// The row as the second stage sees it. From x: dx = rstd * dy * gamma + constant +
  /// slope * (x - mean); from y: … + slope * xhat.
  struct Factors {
    C mean;
    C rstd;
    C constant;
    C slope;
  };

  /// Adds a vector's part; `second` is the mean, or beta.
  static HWY_INLINE void add(V dy, V source, V gamma, V second, V& g_sum, V& weighted_sum) {
    const V g = hn::Mul(dy, gamma);
    g_sum = hn::Add(g_sum, g);
    weighted_sum = hn::MulAdd(from_y ? dy : g, hn::Sub(source, second), weighted_sum);
  }

  /// The sums of the chunk at `p`.
  static HWY_INLINE void sum_chunk(const Pieces& p, size_t n, C mean, V& g_sum, V& weighted_sum) {
    const D d;
    const size_t lanes = hn::Lanes(d), step = P::step();
    const PTail tail(n);
    const V means = hn::Set(d, mean);
    V g0 = hn::Zero(d), g1 = g0, g2 = g0, g3 = g0, w0 = g0, w1 = g0, w2 = g0, w3 = g0;
    const auto one = [&](size_t i, V& ga, V& gb, V& wa, V& wb) HWY_ATTR {
      V dy_a, dy_b = means, source_a, source_b = means, gamma_a, gamma_b = means, second_a = means,
              second_b = means;
      P::read(p.dy + i, dy_a, dy_b);
      P::read(p.source + i, source_a, source_b);
      P::read_compute(p.gamma + i, gamma_a, gamma_b);
      if constexpr (from_y) P::read_compute(p.beta + i, second_a, second_b);
      add(dy_a, source_a, gamma_a, second_a, ga, wa);
      if constexpr (pairs) add(dy_b, source_b, gamma_b, second_b, gb, wb);
    };
    size_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
      one(i, g0, g1, w0, w1);
      if constexpr (pairs) {
        one(i + step, g2, g3, w2, w3);
      } else {
        one(i + lanes, g1, g1, w1, w1);
        one(i + 2 * lanes, g2, g2, w2, w2);
        one(i + 3 * lanes, g3, g3, w3, w3);
      }
    }
    for (; i + step <= n; i += step) one(i, g0, g1, w0, w1);
    if (tail.count) {
      V dy_a, dy_b = means, source_a, source_b = means, gamma_a, gamma_b = means, second_a = means,
              second_b = means;
      tail.read(p.dy, dy_a, dy_b);
      tail.read(p.source, source_a, source_b);
      tail.read_compute(p.gamma, gamma_a, gamma_b);
      if constexpr (from_y) tail.read_compute(p.beta, second_a, second_b);
      // Everything summed is zero in lanes that were counted before, also where they hold no
      // number.
      tail.only_new(dy_a, dy_b);
      tail.only_new(gamma_a, gamma_b);
      tail.only_new(source_a, source_b);
      tail.only_new(second_a, second_b);
      add(dy_a, source_a, gamma_a, second_a, g0, w0);
      if constexpr (pairs) add(dy_b, source_b, gamma_b, second_b, g1, w1);
    }
    g_sum = hn::Add(hn::Add(g0, g1), hn::Add(g2, g3));
    weighted_sum = hn::Add(hn::Add(w0, w1), hn::Add(w2, w3));
  }

  static HWY_NOINLINE void add_chunk(const Pieces& p, size_t n, C mean, bool first, Sums& sums) {
    V g = hn::Zero(D()), weighted = g;
    sum_chunk(p, n, mean, g, weighted);
    join(g, first, sums.g);
    join(weighted, first, sums.weighted);
  }

  /// The sums of a row that is taken at once.
  static HWY_NOINLINE void sums_of_row(const Pieces& p, size_t n, C mean, C* g_sum,
                                       C* weighted_sum) {
    const D d;
    V g = hn::Zero(d), weighted = g;
    sum_chunk(p, n, mean, g, weighted);
    *g_sum = hn::GetLane(hn::SumOfLanes(d, g));
    *weighted_sum = hn::GetLane(hn::SumOfLanes(d, weighted));
  }

  /// Adds a chunk's sums to those of the chunks before it.
  static HWY_INLINE void join(V chunk, bool first, C* sums) {
    const D d;
    hn::Store(first ? chunk : hn::Add(hn::Load(d, sums), chunk), d, sums);
  }

  static HWY_INLINE W total(const C* sums) {
    const D d;
    return hn::GetLane(hn::SumOfLanes(d, hn::Load(d, sums)));
  }

  /// A given statistic. In pairs, without bits that rounding to bf16 could carry out of a NaN.
  static HWY_INLINE C settled(C value) {
    return pairs && value != value ? std::numeric_limits<C>::quiet_NaN() : value;
  }

  /// From the sums over the whole row; the second already times rstd where xhat comes from x.
  static HWY_INLINE Factors factors(C mean, C rstd, W share, W g_sum, W g_xhat_sum) {
    const W scale = -static_cast<W>(rstd) * share;
    const W slope = scale * g_xhat_sum;
    return {mean, rstd, static_cast<C>(scale * g_sum),
            static_cast<C>(from_y ? slope : slope * static_cast<W>(rstd))};
  }

  /// The second stage of a chunk. It also asks for what the first stage needs soon, a line of each
  /// array for each line that it writes: so reads keep pace with writes. Where dgamma and dbeta are
  /// wanted they have the order of packs.
  template <bool want_dx, bool want_sums, Cache cache>
  static HWY_NOINLINE void write_chunk(const Pieces& p, TX* dx, C* dgamma, C* dbeta, size_t n,
                                       const Factors& f, const TY* ahead_dy,
                                       const TS* ahead_source) {
    const D d;
    const size_t step = P::step();
    const PTail tail(n);
    const V mean = hn::Set(d, f.mean), rstd = hn::Set(d, f.rstd);
    const V constant = hn::Set(d, f.constant), slope = hn::Set(d, f.slope);
    // From x, dy * rstd serves both results; xhat itself is not needed.
    const auto centred = [&](V source, V gamma, V beta) HWY_ATTR {
      if constexpr (from_y)
        return hn::Div(hn::Sub(source, beta), gamma);
      else
        return hn::Sub(source, mean);
    };
    const auto scaled = [&](V dy) HWY_ATTR { return from_y ? dy : hn::Mul(dy, rstd); };
    const auto gradient = [&](V dy, V u, V x, V gamma) HWY_ATTR {
      const V g =
          from_y ? hn::MulAdd(hn::Mul(dy, gamma), rstd, constant) : hn::MulAdd(u, gamma, constant);
      return hn::MulAdd(x, slope, g);
    };
    // Read before the loop writes, for dx may be dy or the source.
    V last_dy_a = mean, last_dy_b = mean, last_a = mean, last_b = mean;
    if (tail.count) {
      tail.read(p.dy, last_dy_a, last_dy_b);
      tail.read(p.source, last_a, last_b);
    }
    const auto one = [&](size_t i) HWY_ATTR {
      V dy_a, dy_b = mean, a, b = mean, gamma_a, gamma_b = mean, beta_a = mean, beta_b = mean;
      P::read(p.dy + i, dy_a, dy_b);
      P::read(p.source + i, a, b);
      P::read_compute(p.gamma + i, gamma_a, gamma_b);
      if constexpr (from_y) P::read_compute(p.beta + i, beta_a, beta_b);
      a = centred(a, gamma_a, beta_a);
      const V u_a = scaled(dy_a);
      V u_b = u_a;
      if constexpr (pairs) {
        b = centred(b, gamma_b, beta_b);
        u_b = scaled(dy_b);
      }
      if constexpr (want_sums) {
        V sum_a, sum_b = mean;
        P::read_compute(dgamma + i, sum_a, sum_b);
        sum_a = hn::MulAdd(u_a, a, sum_a);
        if constexpr (pairs) sum_b = hn::MulAdd(u_b, b, sum_b);
        P::write_compute(sum_a, sum_b, dgamma + i);
        P::read_compute(dbeta + i, sum_a, sum_b);
        sum_a = hn::Add(sum_a, dy_a);
        if constexpr (pairs) sum_b = hn::Add(sum_b, dy_b);
        P::write_compute(sum_a, sum_b, dbeta + i);
      }
      if constexpr (want_dx) {
        a = gradient(dy_a, u_a, a, gamma_a);
        if constexpr (pairs) b = gradient(dy_b, u_b, b, gamma_b);
        P::template write<cache>(a, b, dx + i);
      }
    };
    size_t i = 0;
    for (; i + 2 * step <= n; i += 2 * step) {
      prefetch(ahead_dy + i, 2 * step);
      prefetch(ahead_source + i, 2 * step);
      one(i);
      one(i + step);
    }
    if (i + step <= n) one(i);
    if (tail.count) {
      V gamma_a, gamma_b = mean, beta_a = mean, beta_b = mean;
      tail.read_compute(p.gamma, gamma_a, gamma_b);
      if constexpr (from_y) tail.read_compute(p.beta, beta_a, beta_b);
      const V a = centred(last_a, gamma_a, beta_a), b = centred(last_b, gamma_b, beta_b);
      const V u_a = scaled(last_dy_a), u_b = scaled(last_dy_b);
      if constexpr (want_sums) {
        V new_a = u_a, new_b = u_b, x_a = a, x_b = b, dy_a = last_dy_a, dy_b = last_dy_b;
        tail.only_new(new_a, new_b);
        tail.only_new(x_a, x_b);
        tail.only_new(dy_a, dy_b);
        V sum_a, sum_b = mean;
        tail.read_compute(dgamma, sum_a, sum_b);
        tail.write_compute(hn::MulAdd(new_a, x_a, sum_a), hn::MulAdd(new_b, x_b, sum_b), dgamma);
        tail.read_compute(dbeta, sum_a, sum_b);
        tail.write_compute(hn::Add(sum_a, dy_a), hn::Add(sum_b, dy_b), dbeta);
      }
      if constexpr (want_dx) {
        tail.write(gradient(last_dy_a, u_a, a, gamma_a), gradient(last_dy_b, u_b, b, gamma_b), dx);
      }
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
