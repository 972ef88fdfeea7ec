// LayerNorm backward on one instruction set: the stages of rows that follow each other run as a
// pipeline, and a row is still in the cache when its second stage comes. Included once per
// instruction set.
#if defined(FUSEDNORM_CPU_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_BACKWARD_INL_H_
#undef FUSEDNORM_CPU_BACKWARD_INL_H_
#else
#define FUSEDNORM_CPU_BACKWARD_INL_H_
#endif

#include "cpu/backward_stages-inl.h"
#include "cpu/pipeline.h"

HWY_BEFORE_NAMESPACE();
namespace fusednorm::cpu {
namespace HWY_NAMESPACE {

template <typename TX, typename TY, bool from_y>
struct Backward : BackwardStages<TX, TY, from_y> {
  using Stages = BackwardStages<TX, TY, from_y>;
  using typename Stages::C;
  using typename Stages::ColumnSum;
  using typename Stages::D;
  using typename Stages::Factors;
  using typename Stages::First;
  using typename Stages::P;
  using typename Stages::Pieces;
  using typename Stages::Second;
  using typename Stages::Statistics;
  using typename Stages::Sums;
  using typename Stages::TS;
  using typename Stages::V;
  using typename Stages::W;

  static HWY_INLINE Statistics statistics(const BackwardArguments& a, int64_t row) {
    return {from_y ? C(0) : Stages::settled(static_cast<const C*>(a.mean)[row]),
            Stages::settled(static_cast<const C*>(a.rstd)[row])};
  }

  static HWY_INLINE Pieces pieces(const BackwardArguments& a, int64_t row, int64_t column) {
    const Parameter<P> gamma(a.gamma, ones<C>.data(), a.cols),
        beta(a.beta, zeros<C>.data(), a.cols);
    return {static_cast<const TY*>(a.dy) + row * a.dy_stride + column,
            static_cast<const TS*>(a.source) + row * a.source_stride + column, gamma.at(column),
            beta.at(column)};
  }

  static constexpr bool can_bypass = P::template streams<TX>;
  static constexpr Cache past = can_bypass ? Cache::bypass : Cache::keep;
  static bool bypasses(const BackwardArguments& a) {
    return can_bypass && a.dx && a.streaming &&
           Lines<TX>::fit(static_cast<const TX*>(a.dx), a.dx_stride, a.cols);
  }

  static bool is_one_chunk(const BackwardArguments& a) {
    return HWY_TARGET != HWY_SCALAR && a.cols <= longest_chunk;
  }

  /// Where the column sums grow: in the second stage if the packs that it writes, in every row, are
  /// those of the columns. Not for f32 and f64, whose first stage has time for them, nor from y,
  /// where it was not tried.
  static constexpr bool may_grow_second = Stages::may_stay;
  static ColumnStage column_stage(const BackwardArguments& a, ColumnSums sums) {
    if (!sums.dgamma) return ColumnStage::none;
    const auto whole = [&](size_t elements) {
      return a.cols % static_cast<int64_t>(elements) == 0;
    };
    const auto* dx = static_cast<const TX*>(a.dx);
    constexpr size_t line = Lines<TX>::line;
    const bool even = bypasses(a) ? whole(line) && Lines<TX>::before(dx) == 0 &&
                                        a.dx_stride % static_cast<int64_t>(line) == 0
                                  : whole(P::step());
    return dx && even && may_grow_second ? ColumnStage::second : ColumnStage::first;
  }

  /// The column sums of `count` columns.
  struct SumsOfColumns {
    ColumnSum dgamma;
    ColumnSum dbeta;
    bool wanted;

    HWY_INLINE SumsOfColumns(ColumnSums sums, int64_t count)
        : dgamma(P::columns(static_cast<C*>(sums.dgamma), count)),
          dbeta(P::columns(static_cast<C*>(sums.dbeta), count)),
          wanted(sums.dgamma) {}
    HWY_INLINE First first(const Pieces& p, int64_t n, Statistics row, int64_t column) const {
      return {p, static_cast<size_t>(n), row, wanted ? dgamma.at(column) : dgamma,
              wanted ? dbeta.at(column) : dbeta};
    }
  };

  /// Rows of one chunk, with dx: the first stage of the next row while this one is written. All in
  /// registers: a store, be it to the stack, waits in line with the streaming ones.
  template <ColumnStage columns, Cache cache>
  static HWY_NOINLINE void short_rows(const BackwardArguments& a, int64_t begin, int64_t end,
                                      ColumnSums sums) {
    const D d;
    const ColumnSum dgamma = P::columns(static_cast<C*>(sums.dgamma), a.cols),
                    dbeta = P::columns(static_cast<C*>(sums.dbeta), a.cols);
    const W share = W(1) / static_cast<W>(a.cols);
    const auto n = static_cast<size_t>(a.cols);
    const int64_t dy_stride = a.dy_stride, source_stride = a.source_stride, dx_stride = a.dx_stride;
    Pieces next = pieces(a, begin, 0), now = next;
    TX* dx = static_cast<TX*>(a.dx) + begin * dx_stride;
    Factors factors = {};
    // The first turn writes nothing, and the last sums nothing.
    for (int64_t row = begin - 1; row < end; ++row) {
      const bool more = row + 1 < end, writes = row >= begin;
      const Statistics own = statistics(a, more ? row + 1 : row);
      if (cache == Cache::bypass && columns != ColumnStage::second)
        Lines<TX>::prefetch_edges(dx + (writes ? 2 : 1) * dx_stride, P::step());
      // 16-bit rows ask from where they write: an address that needs no register of its own.
      const Pieces& from = Stages::in_turns ? next : now;
      V g = hn::Zero(d), weighted = g;
      Stages::template take<columns, cache, true>(
          {next, more ? n : 0, own, dgamma, dbeta},
          {now, dx, writes ? n : 0, factors, ahead_of(from.dy), ahead_of(from.source), dgamma,
           dbeta},
          g, weighted);
      factors = Stages::factors(own, share, static_cast<W>(hn::GetLane(hn::SumOfLanes(d, g))),
                                static_cast<W>(hn::GetLane(hn::SumOfLanes(d, weighted))),
                                Stages::is_centred(own));
      now = next;
      next.dy += dy_stride;
      next.source += source_stride;
      if (writes) dx += dx_stride;
    }
  }

  // Chunks of longer rows are worth a call through a pointer: one long_rows(), sums() and segment()
  // serve every kind of problem.
  using Taker = void (*)(First, Second, bool, Sums&);
  template <ColumnStage columns, Cache cache, bool one_chunk = false>
  static void take_one(First first, Second second, bool starts, Sums& sums) {
    V g = hn::Zero(D()), weighted = g;
    // The last segment of a row may be as short as it likes.
    if (cache == Cache::bypass && !Lines<TX>::fit(second.dx, static_cast<int64_t>(second.n))) {
      Stages::write_into_cache(second);
      second.n = 0;
    }
    Stages::template take<columns, cache, one_chunk>(first, second, g, weighted);
    if (first.n == 0) return;
    Stages::join(g, starts, sums.g);
    Stages::join(weighted, starts, sums.weighted);
  }
  static Taker taker_of(const BackwardArguments& a, ColumnSums sums) {
    constexpr ColumnStage none = ColumnStage::none, first = ColumnStage::first;
    // Without dx, but with the bits that column sums have with it.
    if (!a.dx && is_one_chunk(a)) return &take_one<first, Cache::keep, true>;
    if (bypasses(a)) return sums.dgamma ? &take_one<first, past> : &take_one<none, past>;
    return sums.dgamma ? &take_one<first, Cache::keep> : &take_one<none, Cache::keep>;
  }

  /// Rows of any length, a chunk of each stage at a time; the second stage is as far behind as a
  /// row is long.
  static void long_rows(const BackwardArguments& a, int64_t begin, int64_t end, ColumnSums sums) {
    const bool want_dx = a.dx, bypass = bypasses(a);
    const Taker taker = taker_of(a, sums);
    const SumsOfColumns columns(sums, a.cols);
    const W share = W(1) / static_cast<W>(a.cols);
    Position reduce(a.segments, whole_chunk, begin), output = reduce;
    Sums partial = {};
    W g_sum = 0, g_xhat_sum = 0;
    Factors next = {}, factors = {};
    for (int64_t wait = chunks_of(a.segments, whole_chunk); (want_dx ? output : reduce).row < end;
         --wait) {
      const bool sums_now = reduce.row < end, writes = want_dx && wait <= 0;
      if (output.column == 0) factors = next;
      const int64_t row = sums_now ? reduce.row : output.row;
      const Statistics own = statistics(a, row);
      const Pieces from = pieces(a, row, reduce.column);
      Second second{from, nullptr, 0, factors, ahead_of(from.dy), ahead_of(from.source), {}, {}};
      if (writes) {
        TX* dx = static_cast<TX*>(a.dx) + output.row * a.dx_stride;
        const Span span(output, bypass ? Lines<TX>::before(dx) : 0);
        if (bypass && span.begin == 0) Lines<TX>::prefetch_edges(dx + a.dx_stride, P::step());
        second.p = pieces(a, output.row, span.begin);
        second.dx = dx + span.begin;
        second.n = static_cast<size_t>(span.end - span.begin);
        output.advance();
      }
      taker(columns.first(from, sums_now ? reduce.length : 0, own, reduce.column), second,
            reduce.first, partial);
      if (!sums_now) continue;
      if (reduce.last) {
        const W g = Stages::total(partial.g), weighted = Stages::total(partial.weighted);
        g_sum = reduce.first_segment() ? g : g_sum + g;
        g_xhat_sum = reduce.first_segment() ? weighted : g_xhat_sum + weighted;
        // Without dx there is no use for them, and in a row of one chunk they may be sums of x.
        if (want_dx && reduce.last_segment()) next = Stages::factors(own, share, g_sum, g_xhat_sum);
      }
      reduce.advance();
    }
  }

  template <Cache cache>
  static void some_rows(const BackwardArguments& a, int64_t begin, int64_t end, ColumnSums sums) {
    const ColumnStage columns = column_stage(a, sums);
    if constexpr (may_grow_second)
      if (columns == ColumnStage::second)
        return short_rows<ColumnStage::second, cache>(a, begin, end, sums);
    columns == ColumnStage::none ? short_rows<ColumnStage::none, cache>(a, begin, end, sums)
                                 : short_rows<ColumnStage::first, cache>(a, begin, end, sums);
  }

  static void rows(const BackwardArguments& a, int64_t begin, int64_t end, ColumnSums sums) {
    const bool bypass = bypasses(a);
    if (!a.dx || !is_one_chunk(a))
      long_rows(a, begin, end, sums);
    else if (bypass)
      some_rows<past>(a, begin, end, sums);
    else
      some_rows<Cache::keep>(a, begin, end, sums);
    if (bypass) hwy::FlushStream();
  }

  /// Gamma and beta of a chunk, expanded here where that is wanted.
  struct Parameters {
    HWY_ALIGN C gamma[policy::room(max_chunk)];
    HWY_ALIGN C beta[policy::room(max_chunk)];
    int64_t count = 0;

    HWY_INLINE void take(const BackwardArguments& a, int64_t column, int64_t n) {
      if (!a.expand) return;
      const auto skip = [&](const void* given) {
        return given ? static_cast<const char*>(given) + column * a.param_size : nullptr;
      };
      a.expand(skip(a.gamma), 1, n, gamma);
      if (from_y) a.expand(skip(a.beta), 0, n, beta);
      count = n;
    }
    HWY_INLINE Pieces at(const BackwardArguments& a, int64_t row, int64_t column) const {
      Pieces p = pieces(a, row, a.expand ? 0 : column);
      if (!a.expand) return p;
      p.dy += column;
      p.source += column;
      p.gamma = P::columns(static_cast<const C*>(gamma), count);
      p.beta = P::columns(static_cast<const C*>(beta), count);
      return p;
    }
  };

  /// The sums of a segment of rows, as long_rows() would have them.
  static void sums(const BackwardArguments& a, int64_t row_begin, int64_t row_end, int64_t segment,
                   GradientSums* out, ColumnSums of_columns) {
    const Taker taker = taker_of(a, of_columns);
    const int64_t first = a.segments.begin(segment), last = a.segments.end(segment);
    const SumsOfColumns columns(of_columns, last - first);
    Parameters parameters;
    Sums partial[policy::max_shared_rows] = {};
    for (int64_t column = first; column < last;) {
      const int64_t n = next_chunk(last - column);
      parameters.take(a, column, n);
      for (int64_t row = row_begin; row < row_end; ++row) {
        const Pieces p = parameters.at(a, row, column);
        taker(columns.first(p, n, statistics(a, row), column - first),
              {p, nullptr, 0, {}, p.dy, p.source, {}, {}}, column == first,
              partial[row - row_begin]);
      }
      column += n;
    }
    for (int64_t row = row_begin; row < row_end; ++row) {
      const Sums& own = partial[row - row_begin];
      out[(row - row_begin) * a.segments.count + segment] = {
          static_cast<long double>(Stages::total(own.g)),
          static_cast<long double>(Stages::total(own.weighted))};
    }
  }

  static GradientSums merge(const GradientSums* parts, int64_t count) {
    W g = 0, g_xhat = 0;
    for (int64_t s = 0; s < count; ++s) {
      g = s == 0 ? static_cast<W>(parts[s].g) : g + static_cast<W>(parts[s].g);
      g_xhat = s == 0 ? static_cast<W>(parts[s].g_xhat) : g_xhat + static_cast<W>(parts[s].g_xhat);
    }
    return {static_cast<long double>(g), static_cast<long double>(g_xhat)};
  }

  static void segment(const BackwardArguments& a, int64_t row_begin, int64_t row_end, int64_t s,
                      const GradientSums* of_rows, int64_t ahead_rows) {
    const Taker taker = taker_of(a, {});
    Sums nothing;
    const W share = W(1) / static_cast<W>(a.cols);
    Factors of_row[policy::max_shared_rows];
    for (int64_t row = row_begin; row < row_end; ++row) {
      const GradientSums& total = of_rows[(row - row_begin) * a.segments.count];
      of_row[row - row_begin] = Stages::factors(statistics(a, row), share, static_cast<W>(total.g),
                                                static_cast<W>(total.g_xhat));
    }
    Parameters parameters;
    const int64_t last = a.segments.end(s);
    for (int64_t column = a.segments.begin(s); column < last;) {
      const int64_t n = next_chunk(last - column);
      parameters.take(a, column, n);
      for (int64_t row = row_begin; row < row_end; ++row) {
        const Pieces p = parameters.at(a, row, column);
        taker({p, 0, {}, {}, {}},
              {p,
               static_cast<TX*>(a.dx) + row * a.dx_stride + column,
               static_cast<size_t>(n),
               of_row[row - row_begin],
               ahead_rows ? p.dy + ahead_rows * a.dy_stride : ahead_of(p.dy),
               ahead_rows ? p.source + ahead_rows * a.source_stride : ahead_of(p.source),
               {},
               {}},
              false, nothing);
      }
      column += n;
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
