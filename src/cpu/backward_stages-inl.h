// The two stages of a row's LayerNorm backward on one instruction set: its two sums and its part of
// the column sums, then dx. Included once per instruction set.
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

/// What the first stage adds to, beside the second.
enum class Adds { nothing, row, columns };

template <typename TX, typename TY, bool from_y>
struct BackwardStages : BackwardFormulas<TX, TY, from_y> {
  using Formulas = BackwardFormulas<TX, TY, from_y>;
  using Formulas::pairs;
  using typename Formulas::C;
  using typename Formulas::ColumnSum;
  using typename Formulas::D;
  using typename Formulas::Factors;
  using typename Formulas::P;
  using typename Formulas::Pieces;
  using typename Formulas::PTail;
  using typename Formulas::Statistics;
  using typename Formulas::Totals;
  using typename Formulas::TS;
  using typename Formulas::V;

  /// A chunk or a row as the first stage takes it.
  struct First {
    Pieces p;
    size_t n;  ///< 0: nothing
    Statistics row;
    ColumnSum dgamma;
    ColumnSum dbeta;
    const TY* ahead_dy = nullptr;  ///< what is summed next, if nobody else asks for it
    const TS* ahead_source = nullptr;
    size_t segment = 0;     ///< columns of a segment, where there are several chunks
    size_t last_chunk = 0;  ///< where the last one begins
  };
  /// A chunk or a row as the second stage takes it.
  struct Second {
    Pieces p;
    TX* dx;
    size_t n;  ///< 0: nothing
    Factors row;
    const TY* ahead_dy;  ///< what the first stage needs soon; its own dy: asks for nothing
    const TS* ahead_source;
  };

  /// dx of the pack at column i.
  template <bool centred>
  static HWY_INLINE void pack(const Pieces& p, V mean, V rstd, V constant, V slope, size_t i, V& a,
                              V& b) {
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
    Formulas::template add<columns>(dy_a, source_a, gamma_a, second_a, rstd_a, ga, wa, dgamma_a,
                                    dbeta_a);
    if constexpr (pairs)
      Formulas::template add<columns>(dy_b, source_b, gamma_b, second_b, rstd_b, gb, wb, dgamma_b,
                                      dbeta_b);
    if constexpr (columns) {
      P::only(dgamma_a, dgamma_b, old_a, old_b, tail.first(), tail.last());
      P::write_columns(dgamma_a, dgamma_b, tail.sums(f.dgamma), 0);
      P::write_columns(dbeta_a, dbeta_b, tail.sums(f.dbeta), 0);
    }
  }

  template <bool columns>
  static HWY_INLINE void add_pack(const First& f, size_t i, V mean, V rstd, V& g, V& w) {
    static_assert(!pairs, "bf16 is summed two rows at a time");
    V dy, source, gamma, second = mean, dgamma = mean, dbeta = mean, none = mean;
    P::read(f.p.dy + i, dy, none);
    P::read(f.p.source + i, source, none);
    P::read_columns(f.p.gamma, i, gamma, none);
    if constexpr (from_y) P::read_columns(f.p.beta, i, second, none);
    if constexpr (columns) {
      P::read_columns(f.dgamma, i, dgamma, none);
      P::read_columns(f.dbeta, i, dbeta, none);
    }
    Formulas::template add<columns>(dy, source, gamma, second, rstd, g, w, dgamma, dbeta);
    if constexpr (columns) {
      P::write_columns(dgamma, none, f.dgamma, i);
      P::write_columns(dbeta, none, f.dbeta, i);
    }
  }

  /// The last chunk alone.
  template <bool columns>
  static HWY_INLINE First last_chunk(First f) {
    const auto column = static_cast<int64_t>(f.last_chunk);
    f.p.dy += column;
    f.p.source += column;
    f.p.gamma = f.p.gamma.at(column);
    if constexpr (from_y) f.p.beta = f.p.beta.at(column);
    if constexpr (columns) {
      f.dgamma = f.dgamma.at(column);
      f.dbeta = f.dbeta.at(column);
    }
    f.n -= f.last_chunk;
    return f;
  }

  /// The first stage of one chunk or row and the second of another, in turns of two packs: so
  /// reads, column sums and streaming stores are spread evenly, and none waits for a burst of
  /// others. Neither depends on what goes with it: sums and gradients are the same. The sums are
  /// those of the last segment, lane by lane; those before it are added to `before`. Where there
  /// were ties, and not `exact`, it writes that part again.
  template <Adds adds, bool several_chunks, bool exact, Cache cache, bool centred>
  static HWY_INLINE void both_stages(const First& first, const Second& second, V& g_sum,
                                     V& weighted_sum, Totals& before) {
    static_assert(2 * P::parts * hn::MaxLanes(D()) <= size_t{segment_granule},
                  "chunks and segments end with a turn of the loop");
    const D d;
    constexpr bool sums = adds != Adds::nothing, columns = adds == Adds::columns;
    const size_t step = P::step(), turn = 2 * step, line = HWY_MAX(turn, Lines<TX>::line);
    const V own_mean = hn::Set(d, first.row.mean), own_rstd = hn::Set(d, first.row.rstd);
    const V mean = hn::Set(d, second.row.mean), rstd = hn::Set(d, second.row.rstd),
            constant = hn::Set(d, second.row.constant), slope = hn::Set(d, second.row.slope);
    const PTail own_tail(sums ? first.n - first.last_chunk : 0), tail(second.n);
    V g0 = hn::Zero(d), g1 = g0, w0 = g0, w1 = g0;
    // Before whole packs: its column sums lie across theirs, and a vector that is read across two
    // stores waits until both have left.
    if (sums && own_tail.count)
      add_tail<columns>(last_chunk<columns>(first), own_tail, own_mean, own_rstd, g0, g1, w0, w1);
    // Sums are chains of a chunk, the last of which begin with the tail.
    const V tail_g = g0, tail_w = w0;
    size_t segment_end = first.n, chunk_end = first.n;
    g_sum = weighted_sum = hn::Set(d, nothing<C>);
    const auto join = [&]() FUSEDNORM_INLINE {
      const V g = hn::Add(g0, g1), w = hn::Add(w0, w1);
      g_sum = several_chunks ? hn::Add(g_sum, g) : g;
      weighted_sum = several_chunks ? hn::Add(weighted_sum, w) : w;
    };
    const auto next_chain = [&](size_t i) FUSEDNORM_INLINE {
      chunk_end = i + static_cast<size_t>(Chunk<C>::next(static_cast<int64_t>(segment_end - i)));
      const bool last = chunk_end == first.n;
      g0 = last ? tail_g : hn::Zero(d);
      w0 = last ? tail_w : hn::Zero(d);
      g1 = w1 = hn::Zero(d);
    };
    const auto end_chain = [&](size_t i) FUSEDNORM_INLINE {
      join();
      if (i == segment_end) {
        before.add(Formulas::total(g_sum), Formulas::total(weighted_sum));
        g_sum = weighted_sum = hn::Set(d, nothing<C>);
        segment_end = HWY_MIN(segment_end + first.segment, first.n);
      }
      next_chain(i);
    };
    if constexpr (several_chunks) {
      segment_end = HWY_MIN(first.segment, first.n);
      next_chain(0);
    }
    constexpr bool has_edges = cache == Cache::bypass;
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
    const auto gradients = [&](size_t i, V& a, V& b) FUSEDNORM_INLINE {
      pack<centred>(at, mean, rstd, constant, slope, i, a, b);
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
    // Two packs of either stage.
    const auto sum_one = [&](size_t i, V& g, V& w) FUSEDNORM_INLINE {
      if constexpr (sums) add_pack<columns>(first, i, own_mean, own_rstd, g, w);
    };
    const auto sum_two = [&](size_t i) FUSEDNORM_INLINE {
      sum_one(i, g0, w0);
      sum_one(i + step, g1, w1);
    };
    const auto ask = [&](size_t i, size_t n) FUSEDNORM_INLINE {
      prefetch(next_dy + i, n);
      prefetch(next_source + i, n);
    };
    const auto write_two = [&](size_t i) FUSEDNORM_INLINE {
      V a0, b0 = mean, a1, b1 = mean;
      gradients(i, a0, b0);
      gradients(i + step, a1, b1);
      // A line's parts one after the other, and in order: else it leaves in two parts.
      write(a0, b0, i);
      write(a1, b1, i + step);
    };
    const size_t count = end - begin, summed = sums ? first.n - own_tail.count : 0;
    size_t i = 0, j = 0;
    // Sums go first, by two turns from where writing begins. Where rows are multiples of 4 KiB,
    // what is summed and what is written do not differ in the bits by which the core tells a read
    // from a store that waits: it must not read what looks like something that was just written.
    while (sums) {
      const size_t stop = several_chunks ? HWY_MIN(chunk_end, summed) : summed;
      for (; i < begin + 2 * turn && i + turn <= stop; i += turn) sum_two(i);
      for (; i + turn <= stop && j + turn <= count; i += turn, j += turn) {
        sum_two(i);
        // As ask() would, but by addresses that need no registers of their own: there are no more,
        // and what is put on the stack for want of them waits in line with streaming stores.
        prefetch(ahead_of(first.p.dy + i), turn);
        prefetch(ahead_of(first.p.source + i), turn);
        write_two(j);
      }
      if (cache == Cache::keep && first.ahead_dy)
        for (; i + turn <= stop; i += turn) {
          prefetch(first.ahead_dy + i, turn);
          prefetch(first.ahead_source + i, turn);
          sum_two(i);
        }
      for (; i + turn <= stop; i += turn) sum_two(i);
      if (!several_chunks || chunk_end == first.n) break;
      end_chain(i);
    }
    if (i < summed) sum_one(i, g0, w0);
    if constexpr (sums) join();
    constexpr bool has_ties = pairs && !exact;
    while (j < count) {
      const size_t start = j,
                   stop = has_ties ? HWY_MIN(count, start + policy::cols_per_tie_check) : count;
      for (const size_t whole = stop - (stop - j) % line; j != whole; j += line) {
        ask(j, line);
        for (size_t k = 0; k < line; k += turn) write_two(j + k);
      }
      for (; j + turn <= stop; j += turn) write_two(j);
      for (; j < stop; j += step) {
        V a, b = mean;
        gradients(j, a, b);
        write(a, b, j);
      }
      if (has_ties && HWY_UNLIKELY(P::any(ties))) {
        write_apart<cache, centred>(part(second, begin + start, stop - start));
        ties = P::no_ties();
      }
    }
    if constexpr (has_edges) {
      lines.each_edge(second.n, step, [&](size_t edge) FUSEDNORM_INLINE {
        V a, b = mean;
        pack<centred>(second.p.at(edge), mean, rstd, constant, slope, 0, a, b);
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
  }

  /// The second stage alone.
  template <bool exact, Cache cache, bool centred>
  static HWY_INLINE void write(const Second& second) {
    V g, weighted;
    Totals before;
    both_stages<Adds::nothing, false, exact, cache, centred>({second.p, 0, {}, {}, {}}, second, g,
                                                             weighted, before);
  }

  /// The same where it is rare. By value: an object whose address is known lives in memory, and is
  /// read again before the stores to it have left the queue.
  template <Cache cache, bool centred>
  static HWY_NOINLINE void write_apart(Second second) {
    write<true, cache, centred>(second);
  }

  /// n columns of it for a rare call, field by field: what is handed over whole lies in memory from
  /// the start, and every row would store it.
  static HWY_INLINE Second part(const Second& s, size_t column, size_t n) {
    const auto c = static_cast<int64_t>(column);
    const TY* dy = s.p.dy + column;
    const TS* source = s.p.source + column;
    return {{dy, source, s.p.gamma.at(c), s.p.beta.at(c)},
            s.dx + column,
            n,
            {s.row.mean, s.row.rstd, s.row.constant, s.row.slope, s.row.centred},
            dy,
            source};
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
