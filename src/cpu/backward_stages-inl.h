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
  using Columns = typename P::template Columns<const C>;
  using ColumnSum = typename P::template Columns<C>;
  static constexpr size_t max_lanes = hn::MaxLanes(D());

  /// What a stage reads of a row, at one column.
  struct Pieces {
    const TY* dy;
    const TS* source;
    Columns gamma;
    Columns beta;

    HWY_INLINE Pieces at(size_t column) const {
      const auto c = static_cast<int64_t>(column);
      return {dy + column, source + column, gamma.at(c), beta.at(c)};
    }
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
    const auto one = [&](size_t at, V& ga, V& gb, V& wa, V& wb) FUSEDNORM_INLINE {
      V dy_a, dy_b = means, source_a, source_b = means, gamma_a, gamma_b = means, second_a = means,
              second_b = means;
      P::read(p.dy + at, dy_a, dy_b);
      P::read(p.source + at, source_a, source_b);
      P::read_columns(p.gamma, at, gamma_a, gamma_b);
      if constexpr (from_y) P::read_columns(p.beta, at, second_a, second_b);
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
      tail.read_columns(p.gamma, gamma_a, gamma_b);
      if constexpr (from_y) tail.read_columns(p.beta, second_a, second_b);
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

  static HWY_INLINE void add_chunk(const Pieces& p, size_t n, C mean, bool first, Sums& sums) {
    V g = hn::Zero(D()), weighted = g;
    sum_chunk(p, n, mean, g, weighted);
    join(g, first, sums.g);
    join(weighted, first, sums.weighted);
  }

  /// The sums of a row that is taken at once.
  static HWY_INLINE void sums_of_row(const Pieces& p, size_t n, C mean, C* g_sum, C* weighted_sum) {
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

  /// A vector of dx, and its part of the column sums. From x, dy * rstd serves both results; xhat
  /// itself is not needed.
  template <bool want_dx, bool want_sums>
  static HWY_INLINE V gradient(V dy, V source, V gamma, V beta, V mean, V rstd, V constant, V slope,
                               V& dgamma, V& dbeta) {
    const V x = from_y ? hn::Div(hn::Sub(source, beta), gamma) : hn::Sub(source, mean);
    const V u = from_y ? dy : hn::Mul(dy, rstd);
    if constexpr (want_sums) {
      dgamma = hn::MulAdd(u, x, dgamma);
      dbeta = hn::Add(dbeta, dy);
    }
    if constexpr (!want_dx) return x;
    const V g =
        from_y ? hn::MulAdd(hn::Mul(dy, gamma), rstd, constant) : hn::MulAdd(u, gamma, constant);
    return hn::MulAdd(x, slope, g);
  }

  /// dx of a pack from dy and the source in a and b; adds its part to the column sums at i, if not
  /// `all` then in lanes [first, last) only.
  template <bool want_dx, bool want_sums, bool all>
  static HWY_INLINE void values(V dy_a, V dy_b, V gamma_a, V gamma_b, V beta_a, V beta_b, V mean,
                                V rstd, V constant, V slope, ColumnSum dgamma, ColumnSum dbeta,
                                size_t i, size_t first, size_t last, V& a, V& b) {
    V dgamma_a = mean, dgamma_b = mean, dbeta_a = mean, dbeta_b = mean;
    if constexpr (want_sums) {
      P::read_columns(dgamma, i, dgamma_a, dgamma_b);
      P::read_columns(dbeta, i, dbeta_a, dbeta_b);
    }
    const V old_dgamma_a = dgamma_a, old_dgamma_b = dgamma_b;
    const V old_dbeta_a = dbeta_a, old_dbeta_b = dbeta_b;
    a = gradient<want_dx, want_sums>(dy_a, a, gamma_a, beta_a, mean, rstd, constant, slope,
                                     dgamma_a, dbeta_a);
    if constexpr (pairs)
      b = gradient<want_dx, want_sums>(dy_b, b, gamma_b, beta_b, mean, rstd, constant, slope,
                                       dgamma_b, dbeta_b);
    if constexpr (want_sums) {
      if constexpr (!all) {
        P::only(dgamma_a, dgamma_b, old_dgamma_a, old_dgamma_b, first, last);
        P::only(dbeta_a, dbeta_b, old_dbeta_a, old_dbeta_b, first, last);
      }
      P::write_columns(dgamma_a, dgamma_b, dgamma, i);
      P::write_columns(dbeta_a, dbeta_b, dbeta, i);
    }
  }

  template <bool want_dx, bool want_sums>
  static HWY_INLINE void pack(const Pieces& p, V mean, V rstd, V constant, V slope,
                              ColumnSum dgamma, ColumnSum dbeta, size_t i, V& a, V& b) {
    V dy_a, dy_b = mean, gamma_a, gamma_b = mean, beta_a = mean, beta_b = mean;
    P::read(p.dy + i, dy_a, dy_b);
    P::read(p.source + i, a, b);
    P::read_columns(p.gamma, i, gamma_a, gamma_b);
    if constexpr (from_y) P::read_columns(p.beta, i, beta_a, beta_b);
    values<want_dx, want_sums, true>(dy_a, dy_b, gamma_a, gamma_b, beta_a, beta_b, mean, rstd,
                                     constant, slope, dgamma, dbeta, i, 0, 0, a, b);
  }

  // Calls from inner loops take their arguments by value: an object whose address is known lives in
  // memory, and is read again before the stores to it have left the queue.

  /// dx of columns [begin, end) of a chunk of n: the part of a line.
  static HWY_NOINLINE void write_edge(Pieces p, TX* dx, size_t n, Factors f, size_t begin,
                                      size_t end) {
    const D d;
    const V mean = hn::Set(d, f.mean), rstd = hn::Set(d, f.rstd), constant = hn::Set(d, f.constant),
            slope = hn::Set(d, f.slope);
    const size_t step = P::step();
    for (size_t i = begin; i < end; i += step) {
      const size_t at = i + step <= n ? i : n - step;
      HWY_ALIGN TX built[P::parts * hn::MaxLanes(D())];
      V a, b = mean;
      pack<true, false>(p.at(at), mean, rstd, constant, slope, {}, {}, 0, a, b);
      P::template write<Cache::keep>(a, b, built);
      copy_part<sizeof(built)>(built + (i - at), (end - i < step ? end - i : step) * sizeof(TX),
                               dx + i);
    }
  }

  /// The second stage of a chunk. It also asks for what the first stage needs soon, a line of each
  /// array for each line that it writes: so reads keep pace with writes. Returns whether ties wait
  /// for `exact`.
  template <bool want_dx, bool want_sums, bool exact, Cache cache>
  static HWY_INLINE bool write_chunk(const Pieces& p, TX* dx, ColumnSum dgamma, ColumnSum dbeta,
                                     size_t n, const Factors& f, const TY* ahead_dy,
                                     const TS* ahead_source) {
    const D d;
    const size_t step = P::step();
    const V mean = hn::Set(d, f.mean), rstd = hn::Set(d, f.rstd), constant = hn::Set(d, f.constant),
            slope = hn::Set(d, f.slope);
    size_t begin = 0, end = n;
    // Read before the loop writes, for dx may be dy or the source.
    const PTail tail(n);
    V last_dy_a = mean, last_dy_b = mean, last_a = mean, last_b = mean;
    if constexpr (cache == Cache::bypass) {
      const Lines<TX> lines(dx, n);
      begin = lines.begin;
      end = lines.end;
      if (HWY_UNLIKELY(begin > 0)) write_edge(p, dx, n, f, 0, begin);
      if (HWY_UNLIKELY(end < n)) write_edge(p, dx, n, f, end, n);
    } else {
      end -= tail.count;
      if (tail.count) {
        tail.read(p.dy, last_dy_a, last_dy_b);
        tail.read(p.source, last_a, last_b);
      }
    }
    const auto column = static_cast<int64_t>(begin);
    const Pieces at = p.at(begin);
    const ColumnSum dgammas = want_sums ? dgamma.at(column) : dgamma,
                    dbetas = want_sums ? dbeta.at(column) : dbeta;
    const TY* next_dy = ahead_dy + begin;
    const TS* next_source = ahead_source + begin;
    TX* to = want_dx ? dx + begin : dx;
    auto ties = P::no_ties();
    const auto write = [&](V a, V b, size_t i) FUSEDNORM_INLINE {
      if constexpr (!want_dx) return;
      if constexpr (exact)
        P::template write<cache>(a, b, to + i);
      else
        P::template write<cache>(a, b, to + i, ties);
    };
    const auto one = [&](size_t i, V& a, V& b) FUSEDNORM_INLINE {
      pack<want_dx, want_sums>(at, mean, rstd, constant, slope, dgammas, dbetas, i, a, b);
    };
    const size_t count = end - begin;
    size_t i = 0;
    for (; i + 2 * step <= count; i += 2 * step) {
      prefetch(next_dy + i, 2 * step);
      prefetch(next_source + i, 2 * step);
      V a0, b0 = mean, a1, b1 = mean;
      one(i, a0, b0);
      one(i + step, a1, b1);
      // A line's parts one after the other, and in order: else it leaves in two parts.
      write(a0, b0, i);
      write(a1, b1, i + step);
    }
    for (; i < count; i += step) {
      V a, b = mean;
      one(i, a, b);
      write(a, b, i);
    }
    if (cache == Cache::keep && tail.count) {
      V gamma_a, gamma_b = mean, beta_a = mean, beta_b = mean;
      tail.read_columns(p.gamma, gamma_a, gamma_b);
      if constexpr (from_y) tail.read_columns(p.beta, beta_a, beta_b);
      values<want_dx, want_sums, false>(
          last_dy_a, last_dy_b, gamma_a, gamma_b, beta_a, beta_b, mean, rstd, constant, slope,
          want_sums ? tail.sums(dgamma) : dgamma, want_sums ? tail.sums(dbeta) : dbeta, 0,
          tail.first(), tail.last(), last_a, last_b);
      if constexpr (want_dx) tail.write(last_a, last_b, dx);
    }
    return !exact && P::any(ties);
  }

  template <bool want_dx, bool want_sums>
  static HWY_NOINLINE void write_exactly(Pieces p, TX* dx, ColumnSum dgamma, ColumnSum dbeta,
                                         size_t n, Factors f, const TY* ahead_dy,
                                         const TS* ahead_source) {
    write_chunk<want_dx, want_sums, true, Cache::keep>(p, dx, dgamma, dbeta, n, f, ahead_dy,
                                                       ahead_source);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
