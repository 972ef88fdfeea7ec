// The two stages of a row's LayerNorm backward on one instruction set: its two sums, then dx, and
// in either its part of the column sums. Included once per instruction set.
#if defined(FUSEDNORM_CPU_BACKWARD_STAGES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_BACKWARD_STAGES_INL_H_
#undef FUSEDNORM_CPU_BACKWARD_STAGES_INL_H_
#else
#define FUSEDNORM_CPU_BACKWARD_STAGES_INL_H_
#endif

#include "cpu/backward_formulas-inl.h"
#include "cpu/lines-inl.h"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace fusednorm::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The stage in which dgamma and dbeta grow. They need nothing that is not known before the row's
/// sums are: in the first stage they may have an alignment of their own, whatever that of dx; in
/// the second they take the fewest instructions, for it has x and dy * rstd anyway.
enum class ColumnStage { none, first, second };

/// Stages take a segment chunk by chunk, as forward's do.
template <typename TX, typename TY, bool from_y>
struct BackwardStages : BackwardFormulas<TX, TY, from_y> {
  using Formulas = BackwardFormulas<TX, TY, from_y>;
  using Formulas::is_centred;
  using Formulas::may_stay;
  using Formulas::pairs;
  using typename Formulas::C;
  using typename Formulas::ColumnSum;
  using typename Formulas::D;
  using typename Formulas::Factors;
  using typename Formulas::P;
  using typename Formulas::Pieces;
  using typename Formulas::PTail;
  using typename Formulas::Statistics;
  using typename Formulas::Sums;
  using typename Formulas::TS;
  using typename Formulas::V;

  /// A chunk as the first stage takes it.
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
    ColumnSum dgamma;
    ColumnSum dbeta;
  };

  /// dx of the pack at column i; adds to its column sums. The gradient first, which needs x as it
  /// is and leaves it alone; centring may then overwrite it.
  template <bool columns, bool centred>
  static HWY_INLINE void pack(const Pieces& p, ColumnSum dgamma, ColumnSum dbeta, V mean, V rstd,
                              V constant, V slope, size_t i, V& a, V& b) {
    V dy_a, dy_b = mean, source_a, source_b = mean, gamma_a, gamma_b = mean, beta_a = mean,
            beta_b = mean;
    P::read(p.dy + i, dy_a, dy_b);
    P::read(p.source + i, source_a, source_b);
    P::read_columns(p.gamma, i, gamma_a, gamma_b);
    if constexpr (from_y) P::read_columns(p.beta, i, beta_a, beta_b);
    a = Formulas::template gradient<centred>(dy_a, source_a, gamma_a, beta_a, mean, rstd, constant,
                                             slope);
    if constexpr (pairs)
      b = Formulas::template gradient<centred>(dy_b, source_b, gamma_b, beta_b, mean, rstd,
                                               constant, slope);
    if constexpr (columns) {
      V dgamma_a, dgamma_b = mean, dbeta_a, dbeta_b = mean;
      P::read_columns(dgamma, i, dgamma_a, dgamma_b);
      P::read_columns(dbeta, i, dbeta_a, dbeta_b);
      Formulas::template add_columns<centred>(dy_a, source_a, from_y ? beta_a : mean, rstd,
                                              dgamma_a, dbeta_a);
      if constexpr (pairs)
        Formulas::template add_columns<centred>(dy_b, source_b, from_y ? beta_b : mean, rstd,
                                                dgamma_b, dbeta_b);
      P::write_columns(dgamma_a, dgamma_b, dgamma, i);
      P::write_columns(dbeta_a, dbeta_b, dbeta, i);
    }
  }

  template <bool columns, bool centred>
  static HWY_INLINE void add_pack(const First& f, size_t i, V mean, V rstd, V& ga, V& gb, V& wa,
                                  V& wb) {
    V dy_a, dy_b = mean, source_a, source_b = mean, gamma_a, gamma_b = mean, second_a = mean,
            second_b = mean, dgamma_a = mean, dgamma_b = mean, dbeta_a = mean, dbeta_b = mean;
    P::read(f.p.dy + i, dy_a, dy_b);
    P::read(f.p.source + i, source_a, source_b);
    P::read_columns(f.p.gamma, i, gamma_a, gamma_b);
    if constexpr (from_y) P::read_columns(f.p.beta, i, second_a, second_b);
    if constexpr (columns) {
      P::read_columns(f.dgamma, i, dgamma_a, dgamma_b);
      P::read_columns(f.dbeta, i, dbeta_a, dbeta_b);
    }
    Formulas::template add<columns, centred>(dy_a, source_a, gamma_a, second_a, rstd, ga, wa,
                                             dgamma_a, dbeta_a);
    if constexpr (pairs)
      Formulas::template add<columns, centred>(dy_b, source_b, gamma_b, second_b, rstd, gb, wb,
                                               dgamma_b, dbeta_b);
    if constexpr (columns) {
      P::write_columns(dgamma_a, dgamma_b, f.dgamma, i);
      P::write_columns(dbeta_a, dbeta_b, f.dbeta, i);
    }
  }

  /// The end of a chunk that is no whole number of packs.
  template <bool columns, bool centred>
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
    Formulas::template add<columns, centred>(dy_a, source_a, gamma_a, second_a, rstd_a, ga, wa,
                                             dgamma_a, dbeta_a);
    if constexpr (pairs)
      Formulas::template add<columns, centred>(dy_b, source_b, gamma_b, second_b, rstd_b, gb, wb,
                                               dgamma_b, dbeta_b);
    if constexpr (columns) {
      P::only(dgamma_a, dgamma_b, old_a, old_b, tail.first(), tail.last());
      P::write_columns(dgamma_a, dgamma_b, tail.sums(f.dgamma), 0);
      P::write_columns(dbeta_a, dbeta_b, tail.sums(f.dbeta), 0);
    }
  }

  /// Whether stages take turns, two packs each: so reads, column sums and streaming stores are
  /// spread evenly, and none waits for a burst of others. 16-bit rows, which instructions limit,
  /// gain nothing.
  static constexpr bool in_turns = sizeof(TX) > 2;

  /// The first stage of one chunk and the second of another. Neither depends on what goes with it:
  /// sums and gradients are the same. Returns whether ties wait for `exact`.
  template <ColumnStage columns, bool exact, Cache cache, bool centred = !may_stay,
            bool sums_centred = centred>
  static HWY_INLINE bool both_stages(const First& first, const Second& second, V& g_sum,
                                     V& weighted_sum) {
    const D d;
    const size_t step = P::step(), turn = 2 * step;
    constexpr bool in_first = columns == ColumnStage::first,
                   in_second = columns == ColumnStage::second;
    const V own_mean = hn::Set(d, first.row.mean), own_rstd = hn::Set(d, first.row.rstd);
    const V mean = hn::Set(d, second.row.mean), rstd = hn::Set(d, second.row.rstd),
            constant = hn::Set(d, second.row.constant), slope = hn::Set(d, second.row.slope);
    V g0 = hn::Zero(d), g1 = g0, g2 = g0, g3 = g0, w0 = g0, w1 = g0, w2 = g0, w3 = g0;
    // With its columns, a row is whole packs, and whole lines where it goes past the cache.
    constexpr bool has_ends = !in_second, has_edges = has_ends && cache == Cache::bypass;
    const PTail own_tail(has_ends ? first.n : 0), tail(has_ends ? second.n : 0);
    // Before whole packs: its column sums lie across theirs, and a vector that is read across two
    // stores waits until both have left.
    if (own_tail.count)
      add_tail<in_first, sums_centred>(first, own_tail, own_mean, own_rstd, g0, g1, w0, w1);
    const Lines<TX> lines(second.dx, has_edges ? second.n : 0, step);
    size_t begin = 0, end = second.n;
    // Read before the loop writes, for dx may be dy or the source.
    V last_dy_a = mean, last_dy_b = mean, last_a = mean, last_b = mean;
    if constexpr (has_edges) {
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
    const ColumnSum dgamma = second.dgamma, dbeta = second.dbeta;
    const auto gradients = [&](size_t i, V& a, V& b) FUSEDNORM_INLINE {
      pack<in_second, centred>(at, dgamma, dbeta, mean, rstd, constant, slope, i, a, b);
    };
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
    // Two packs of either stage. Without centring an addition's latency shows, unless there are
    // more sums.
    constexpr bool more_sums = !sums_centred;
    const auto sum_one = [&](size_t i, V& ga, V& gb, V& wa, V& wb) FUSEDNORM_INLINE {
      add_pack<in_first, sums_centred>(first, i, own_mean, own_rstd, ga, gb, wa, wb);
    };
    const auto sum_two = [&](size_t i) FUSEDNORM_INLINE {
      if constexpr (pairs && more_sums) {
        sum_one(i, g0, g1, w0, w1);
        sum_one(i + step, g2, g3, w2, w3);
      } else if constexpr (pairs) {
        sum_one(i, g0, g1, w0, w1);
        sum_one(i + step, g0, g1, w0, w1);
      } else {
        sum_one(i, g0, g0, w0, w0);
        sum_one(i + step, g1, g1, w1, w1);
      }
    };
    const auto write_two = [&](size_t i) FUSEDNORM_INLINE {
      prefetch(next_dy + i, turn);
      prefetch(next_source + i, turn);
      V a0, b0 = mean, a1, b1 = mean;
      gradients(i, a0, b0);
      gradients(i + step, a1, b1);
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
    if constexpr (more_sums && !pairs) {
      for (; i + 2 * turn <= summed; i += 2 * turn) {
        sum_two(i);
        sum_one(i + turn, g2, g2, w2, w2);
        sum_one(i + turn + step, g3, g3, w3, w3);
      }
    }
    for (; i + turn <= summed; i += turn) sum_two(i);
    if (i < summed) sum_one(i, g0, g1, w0, w1);
    for (const size_t whole = count - (count - j) % turn; j != whole; j += turn) write_two(j);
    for (; j < count; j += step) {
      V a, b = mean;
      gradients(j, a, b);
      write(a, b, j);
    }
    if constexpr (has_edges) {
      lines.each_edge(second.n, step, [&](size_t edge) FUSEDNORM_INLINE {
        V a, b = mean;
        pack<false, centred>(second.p.at(edge), {}, {}, mean, rstd, constant, slope, 0, a, b);
        P::template write<Cache::keep>(a, b, second.dx + edge);
      });
    } else if (tail.count) {
      V gamma_a, gamma_b = mean, beta_a = mean, beta_b = mean;
      tail.read_columns(second.p.gamma, gamma_a, gamma_b);
      if constexpr (from_y) tail.read_columns(second.p.beta, beta_a, beta_b);
      last_a = Formulas::template gradient<centred>(last_dy_a, last_a, gamma_a, beta_a, mean, rstd,
                                                    constant, slope);
      if constexpr (pairs)
        last_b = Formulas::template gradient<centred>(last_dy_b, last_b, gamma_b, beta_b, mean,
                                                      rstd, constant, slope);
      tail.write(last_a, last_b, second.dx);
    }
    if constexpr (more_sums) {
      g0 = hn::Add(g0, g2);
      g1 = hn::Add(g1, g3);
      w0 = hn::Add(w0, w2);
      w1 = hn::Add(w1, w3);
    }
    g_sum = hn::Add(g0, g1);
    weighted_sum = hn::Add(w0, w1);
    return !exact && P::any(ties);
  }

  // By value: an object whose address is known lives in memory, and is read again before the stores
  // to it have left the queue.

  /// A stage where it is rare, into the cache: of a row that is centred while others stay, or once
  /// more where there were ties.
  template <ColumnStage columns, bool centred>
  static HWY_NOINLINE void write_apart(Second second) {
    V g = hn::Zero(D()), weighted = g;
    second.ahead_dy = second.p.dy;
    second.ahead_source = second.p.source;
    const First none = {second.p, 0, {}, {}, {}};
    both_stages<columns, true, Cache::keep, centred>(none, second, g, weighted);
  }
  template <ColumnStage columns>
  static HWY_NOINLINE void sum_apart(First first, Sums& sums) {
    const D d;
    V g = hn::Zero(d), weighted = g;
    both_stages<columns, true, Cache::keep, true>(
        first, {first.p, nullptr, 0, {}, first.p.dy, first.p.source, {}, {}}, g, weighted);
    hn::Store(g, d, sums.g);
    hn::Store(weighted, d, sums.weighted);
  }
  static void write_into_cache(const Second& second) {
    if (may_stay && second.row.centred)
      write_apart<ColumnStage::none, true>(second);
    else
      write_apart<ColumnStage::none, !may_stay>(second);
  }

  // Field by field, for rare calls: what is handed over whole lies in memory from the start, and
  // every row would store it.
  static HWY_INLINE Pieces fresh(const Pieces& p) {
    return {p.dy, p.source, p.gamma.at(0), p.beta.at(0)};
  }
  static HWY_INLINE First fresh(const First& f, size_t n) {
    return {fresh(f.p), n, {f.row.mean, f.row.rstd}, f.dgamma.at(0), f.dbeta.at(0)};
  }
  static HWY_INLINE Second fresh(const Second& s, size_t n) {
    const Factors row = {s.row.mean, s.row.rstd, s.row.constant, s.row.slope, s.row.centred};
    return {fresh(s.p), s.dx, n, row, s.ahead_dy, s.ahead_source, s.dgamma.at(0), s.dbeta.at(0)};
  }

  /// As both_stages, with all that this needs. In place nothing could be written again, and what
  /// stays in the cache is written with every tie at once.
  template <ColumnStage columns, Cache cache, bool one_chunk>
  static HWY_INLINE void take(First first, Second second, V& g_sum, V& weighted_sum) {
    const D d;
    constexpr bool centred = !may_stay, sums_centred = centred || !one_chunk;
    const size_t n = first.n, written = second.n;
    const bool sums_apart = !sums_centred && n > 0 && is_centred(first.row),
               writes_apart = may_stay && written > 0 && second.row.centred;
    if (HWY_UNLIKELY(sums_apart)) first.n = 0;
    if (HWY_UNLIKELY(writes_apart)) second.n = 0;
    const bool ties = both_stages<columns, cache == Cache::keep, cache, centred, sums_centred>(
        first, second, g_sum, weighted_sum);
    if (HWY_UNLIKELY(ties)) write_apart<ColumnStage::none, !may_stay>(fresh(second, written));
    if constexpr (may_stay) {
      if (HWY_UNLIKELY(writes_apart)) {
        constexpr bool grows = columns == ColumnStage::second;
        write_apart<grows ? columns : ColumnStage::none, true>(fresh(second, written));
      }
    }
    if constexpr (!sums_centred) {
      if (HWY_UNLIKELY(sums_apart)) {
        Sums sums;
        constexpr bool grows = columns == ColumnStage::first;
        sum_apart<grows ? columns : ColumnStage::none>(fresh(first, n), sums);
        g_sum = hn::Load(d, sums.g);
        weighted_sum = hn::Load(d, sums.weighted);
      }
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
