// The two stages of a row's LayerNorm backward on one instruction set: its two sums and its part of
// the column sums, then dx. Included once per instruction set.
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

  /// The sums of dy * gamma, and of that times xhat: from y that is dy * (y - beta), in which gamma
  /// cancels.
  struct Sums {
    HWY_ALIGN C g[max_lanes];
    HWY_ALIGN C weighted[max_lanes];
  };

  /// The row as the first stage sees it.
  struct Statistics {
    C mean;
    C rstd;
  };

  /// Whether x can do without centring in the second stage, the mean's part being in the row's
  /// constant: where the mean is at most twice 1 / rstd.
  static constexpr bool may_stay = sizeof(TX) == 2 && !from_y;

  /// The row as the second stage sees it. From x: dx = rstd * dy * gamma + constant +
  /// slope * (x - mean), or slope * x; from y: … + slope * xhat.
  struct Factors {
    C mean;
    C rstd;
    C constant;
    C slope;
    bool centred;
  };

  /// Adds a vector's part to the row's sums and, `columns`, to those of its columns. `second` is
  /// the mean, or beta.
  template <bool columns>
  static HWY_INLINE void add(V dy, V source, V gamma, V second, V rstd, V& g_sum, V& weighted_sum,
                             V& dgamma, V& dbeta) {
    V x = hn::Sub(source, second);
    if constexpr (!from_y) x = hn::Mul(x, rstd);
    const V weighted = hn::Mul(dy, x);
    g_sum = hn::MulAdd(dy, gamma, g_sum);
    weighted_sum =
        from_y ? hn::Add(weighted_sum, weighted) : hn::MulAdd(weighted, gamma, weighted_sum);
    if constexpr (columns) {
      dgamma = hn::Add(dgamma, weighted);  // from y, whoever stores it divides by gamma
      dbeta = hn::Add(dbeta, dy);
    }
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

  /// From the sums over the whole row.
  static HWY_INLINE Factors factors(Statistics row, W share, W g_sum, W g_xhat_sum) {
    const W scale = -static_cast<W>(row.rstd) * share;
    const W slope = scale * g_xhat_sum * (from_y ? W(1) : static_cast<W>(row.rstd));
    // A NaN is as good as either.
    const bool centred = !may_stay || std::abs(row.mean * row.rstd) > C(2);
    const W shift = centred ? W(0) : slope * static_cast<W>(row.mean);
    return {row.mean, row.rstd, static_cast<C>(scale * g_sum - shift), static_cast<C>(slope),
            centred};
  }

  template <bool centred>
  static HWY_INLINE V gradient(V dy, V source, V gamma, V beta, V mean, V rstd, V constant,
                               V slope) {
    const V x = from_y    ? hn::Div(hn::Sub(source, beta), gamma)
                : centred ? hn::Sub(source, mean)
                          : source;
    return hn::MulAdd(x, slope, hn::MulAdd(hn::Mul(dy, rstd), gamma, constant));
  }

  /// dx of the pack at column i.
  template <bool centred>
  static HWY_INLINE void pack(const Pieces& p, V mean, V rstd, V constant, V slope, size_t i, V& a,
                              V& b) {
    V dy_a, dy_b = mean, gamma_a, gamma_b = mean, beta_a = mean, beta_b = mean;
    P::read(p.dy + i, dy_a, dy_b);
    P::read(p.source + i, a, b);
    P::read_columns(p.gamma, i, gamma_a, gamma_b);
    if constexpr (from_y) P::read_columns(p.beta, i, beta_a, beta_b);
    a = gradient<centred>(dy_a, a, gamma_a, beta_a, mean, rstd, constant, slope);
    if constexpr (pairs)
      b = gradient<centred>(dy_b, b, gamma_b, beta_b, mean, rstd, constant, slope);
  }

  /// A chunk as the first stage takes it. Column sums need nothing that is not known before the
  /// row's sums are, so they grow here: at their own alignment, whatever that of dx.
  struct First {
    Pieces p;
    size_t n;  ///< 0: no chunk
    Statistics row;
    ColumnSum dgamma;
    ColumnSum dbeta;
  };
  /// A chunk as the second stage takes it.
  struct Second {
    Pieces p;
    TX* dx;
    size_t n;  ///< 0: no chunk
    Factors row;
    const TY* ahead_dy;  ///< what the first stage needs soon
    const TS* ahead_source;
  };

  template <bool columns>
  static HWY_INLINE void add_pack(const First& f, size_t i, V mean, V rstd, V& ga, V& gb, V& wa,
                                  V& wb) {
    V dy_a, dy_b = mean, source_a, source_b = mean, gamma_a, gamma_b = mean, second_a = mean,
            second_b = mean, dgamma_a = mean, dgamma_b = mean, dbeta_a = mean, dbeta_b = mean;
    P::read(f.p.dy + i, dy_a, dy_b);
    P::read(f.p.source + i, source_a, source_b);
    P::read_columns(f.p.gamma, i, gamma_a, gamma_b);
    if constexpr (from_y) P::read_columns(f.p.beta, i, second_a, second_b);
    gamma_a = once(gamma_a);
    gamma_b = once(gamma_b);
    if constexpr (columns) {
      P::read_columns(f.dgamma, i, dgamma_a, dgamma_b);
      P::read_columns(f.dbeta, i, dbeta_a, dbeta_b);
    }
    add<columns>(dy_a, source_a, gamma_a, second_a, rstd, ga, wa, dgamma_a, dbeta_a);
    if constexpr (pairs)
      add<columns>(dy_b, source_b, gamma_b, second_b, rstd, gb, wb, dgamma_b, dbeta_b);
    if constexpr (columns) {
      P::write_columns(dgamma_a, dgamma_b, f.dgamma, i);
      P::write_columns(dbeta_a, dbeta_b, f.dbeta, i);
    }
  }

  /// The end of a chunk that is no whole number of packs.
  template <bool columns>
  static HWY_INLINE void add_tail(const First& f, const PTail& tail, V mean, V rstd, V& ga, V& gb,
                                  V& wa, V& wb) {
    V dy_a, dy_b = mean, source_a, source_b = mean, gamma_a, gamma_b = mean, second_a = mean,
            second_b = mean, dgamma_a = mean, dgamma_b = mean, dbeta_a = mean, dbeta_b = mean;
    tail.read(f.p.dy, dy_a, dy_b);
    tail.read(f.p.source, source_a, source_b);
    tail.read_columns(f.p.gamma, gamma_a, gamma_b);
    if constexpr (from_y) tail.read_columns(f.p.beta, second_a, second_b);
    // Everything summed is zero in lanes that are counted elsewhere, also where they hold no
    // number.
    tail.only_new(dy_a, dy_b);
    tail.only_new(gamma_a, gamma_b);
    tail.only_new(source_a, source_b);
    tail.only_new(second_a, second_b);
    V rstd_a = rstd, rstd_b = rstd;
    tail.only_new(rstd_a, rstd_b);
    if constexpr (columns) {
      P::read_columns(tail.sums(f.dgamma), 0, dgamma_a, dgamma_b);
      P::read_columns(tail.sums(f.dbeta), 0, dbeta_a, dbeta_b);
    }
    const V old_a = dgamma_a, old_b = dgamma_b;
    add<columns>(dy_a, source_a, gamma_a, second_a, rstd_a, ga, wa, dgamma_a, dbeta_a);
    if constexpr (pairs)
      add<columns>(dy_b, source_b, gamma_b, second_b, rstd_b, gb, wb, dgamma_b, dbeta_b);
    if constexpr (columns) {
      P::only(dgamma_a, dgamma_b, old_a, old_b, tail.first(), tail.last());
      P::write_columns(dgamma_a, dgamma_b, tail.sums(f.dgamma), 0);
      P::write_columns(dbeta_a, dbeta_b, tail.sums(f.dbeta), 0);
    }
  }

  /// Whether stages take turns, two packs each: so reads, column sums and streaming stores are
  /// spread evenly, and none waits for a burst of others. bf16 has no registers for both, and f16
  /// gains nothing.
  static constexpr bool in_turns = sizeof(TX) > 2;

  /// The first stage of one chunk and the second of another. Neither depends on what goes with it:
  /// sums and gradients are the same. Returns whether ties wait for `exact`.
  template <bool columns, bool exact, Cache cache, bool centred = !may_stay>
  static HWY_INLINE bool both_stages(const First& first, const Second& second, V& g_sum,
                                     V& weighted_sum) {
    const D d;
    const size_t step = P::step(), turn = 2 * step;
    const V own_mean = hn::Set(d, first.row.mean), own_rstd = hn::Set(d, first.row.rstd);
    const V mean = hn::Set(d, second.row.mean), rstd = hn::Set(d, second.row.rstd),
            constant = hn::Set(d, second.row.constant), slope = hn::Set(d, second.row.slope);
    V g0 = hn::Zero(d), g1 = g0, w0 = g0, w1 = g0;
    const PTail own_tail(first.n), tail(second.n);
    // Before whole packs: its column sums lie across theirs, and a vector that is read across two
    // stores waits until both have left.
    if (own_tail.count) add_tail<columns>(first, own_tail, own_mean, own_rstd, g0, g1, w0, w1);
    const Lines<TX> lines(second.dx, second.n, step);
    size_t begin = 0, end = second.n;
    // Read before the loop writes, for dx may be dy or the source.
    V last_dy_a = mean, last_dy_b = mean, last_a = mean, last_b = mean;
    if constexpr (cache == Cache::bypass) {
      begin = lines.begin;
      end = lines.end;
    } else {
      end -= tail.count;
      if (tail.count) {
        tail.read(second.p.dy, last_dy_a, last_dy_b);
        tail.read(second.p.source, last_a, last_b);
      }
    }
    const Pieces at = second.p.at(begin);
    const TY* next_dy = second.ahead_dy + begin;
    const TS* next_source = second.ahead_source + begin;
    TX* to = second.dx + begin;
    auto ties = P::no_ties();
    const auto write = [&](V a, V b, size_t i) FUSEDNORM_INLINE {
      if constexpr (exact)
        P::template write<cache>(a, b, to + i);
      else
        P::template write<cache>(a, b, to + i, ties);
    };
    // Two packs of either stage.
    const auto sum_two = [&](size_t i) FUSEDNORM_INLINE {
      add_pack<columns>(first, i, own_mean, own_rstd, g0, g1, w0, w1);
      if constexpr (pairs)
        add_pack<columns>(first, i + step, own_mean, own_rstd, g0, g1, w0, w1);
      else
        add_pack<columns>(first, i + step, own_mean, own_rstd, g1, g1, w1, w1);
    };
    const auto write_two = [&](size_t i) FUSEDNORM_INLINE {
      prefetch(next_dy + i, turn);
      prefetch(next_source + i, turn);
      V a0, b0 = mean, a1, b1 = mean;
      pack<centred>(at, mean, rstd, constant, slope, i, a0, b0);
      pack<centred>(at, mean, rstd, constant, slope, i + step, a1, b1);
      // A line's parts one after the other, and in order: else it leaves in two parts.
      write(a0, b0, i);
      write(a1, b1, i + step);
    };
    const size_t count = end - begin, summed = first.n - own_tail.count;
    size_t i = 0, j = 0;
    if constexpr (in_turns) {
      // Sums go first, by two turns from where writing begins. Where rows are multiples of 4 KiB,
      // what is summed and what is written do not differ in the bits by which the core tells a read
      // from a store that waits: it must not read what looks like something that was just written.
      for (; i < begin + 2 * turn && i + turn <= summed; i += turn) sum_two(i);
      for (; i + turn <= summed && j + turn <= count; i += turn, j += turn) {
        sum_two(i);
        write_two(j);
      }
    }
    for (; i + turn <= summed; i += turn) sum_two(i);
    if (i < summed) add_pack<columns>(first, i, own_mean, own_rstd, g0, g1, w0, w1);
    for (; j + turn <= count; j += turn) write_two(j);
    for (; j < count; j += step) {
      V a, b = mean;
      pack<centred>(at, mean, rstd, constant, slope, j, a, b);
      write(a, b, j);
    }
    if constexpr (cache == Cache::bypass) {
      lines.each_edge(second.n, step, [&](size_t edge) FUSEDNORM_INLINE {
        V a, b = mean;
        pack<centred>(second.p.at(edge), mean, rstd, constant, slope, 0, a, b);
        P::template write<Cache::keep>(a, b, second.dx + edge);
      });
    } else if (tail.count) {
      V gamma_a, gamma_b = mean, beta_a = mean, beta_b = mean;
      tail.read_columns(second.p.gamma, gamma_a, gamma_b);
      if constexpr (from_y) tail.read_columns(second.p.beta, beta_a, beta_b);
      last_a = gradient<centred>(last_dy_a, last_a, gamma_a, beta_a, mean, rstd, constant, slope);
      if constexpr (pairs)
        last_b = gradient<centred>(last_dy_b, last_b, gamma_b, beta_b, mean, rstd, constant, slope);
      tail.write(last_a, last_b, second.dx);
    }
    g_sum = hn::Add(g0, g1);
    weighted_sum = hn::Add(w0, w1);
    return !exact && P::any(ties);
  }

  /// The second stage into the cache, where it is rare. By value: an object whose address is known
  /// lives in memory, and is read again before the stores to it have left the queue.
  static HWY_NOINLINE void write_again(Second second) {
    V g = hn::Zero(D()), weighted = g;
    second.ahead_dy = second.p.dy;
    second.ahead_source = second.p.source;
    const First none = {second.p, 0, {}, {}, {}};
    if (may_stay && second.row.centred)
      both_stages<false, true, Cache::keep, true>(none, second, g, weighted);
    else
      both_stages<false, true, Cache::keep>(none, second, g, weighted);
  }

  /// As both_stages, with all that this needs. In place nothing could be written again, and what
  /// stays in the cache is written with every tie at once.
  template <bool columns, Cache cache>
  static HWY_INLINE void take(const First& first, Second second, V& g_sum, V& weighted_sum) {
    const size_t n = second.n;
    const bool apart = may_stay && second.row.centred;
    if (HWY_UNLIKELY(apart)) second.n = 0;
    const bool ties =
        both_stages<columns, cache == Cache::keep, cache>(first, second, g_sum, weighted_sum);
    if (HWY_UNLIKELY(ties || (apart && n > 0))) {
      second.n = n;
      write_again(second);
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
