// 16-bit rows in LayerNorm backward on one instruction set: the first stage takes two rows at once,
// so that gamma and the column sums come and go once for both. Included once per instruction set.
#if defined(FUSEDNORM_CPU_BACKWARD_TWO_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_BACKWARD_TWO_ROWS_INL_H_
#undef FUSEDNORM_CPU_BACKWARD_TWO_ROWS_INL_H_
#else
#define FUSEDNORM_CPU_BACKWARD_TWO_ROWS_INL_H_
#endif

#include "cpu/backward_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fusednorm::cpu {
namespace HWY_NAMESPACE {

template <typename TX, typename TY, bool from_y>
struct BackwardTwoRows : BackwardRows<TX, TY, from_y> {
  using Rows = BackwardRows<TX, TY, from_y>;
  using Rows::bypasses;
  using Rows::pieces;
  using Rows::statistics;
  using typename Rows::Block;
  using typename Rows::C;
  using typename Rows::ColumnSum;
  using typename Rows::D;
  using typename Rows::Factors;
  using typename Rows::First;
  using typename Rows::P;
  using typename Rows::Pieces;
  using typename Rows::PTail;
  using typename Rows::Second;
  using typename Rows::Statistics;
  using typename Rows::Sums;
  using typename Rows::SumsOfColumns;
  using typename Rows::Totals;
  using typename Rows::TS;
  using typename Rows::V;
  using typename Rows::W;

  /// The first stage of a row, or of two. A row's sums do not depend on what goes with it, nor do
  /// those of columns: they grow row by row either way. One register a sum, for two rows take all
  /// there are.
  template <bool two, bool columns>
  static HWY_INLINE void sum_rows(First first, First second, V& row_g0, V& row_w0, V& row_g1,
                                  V& row_w1) {
    const D d;
    const size_t step = P::step();
    const V mean0 = hn::Set(d, first.row.mean), rstd0 = hn::Set(d, first.row.rstd),
            mean1 = hn::Set(d, second.row.mean), rstd1 = hn::Set(d, second.row.rstd);
    V g0 = hn::Zero(d), w0 = g0, g1 = g0, w1 = g0;
    row_g0 = row_w0 = row_g1 = row_w1 = hn::Set(d, nothing<C>);
    // Before whole packs: its column sums lie across theirs, and a vector that is read across two
    // stores waits until both have left.
    const PTail tail(first.n);
    if (tail.count) {
      Rows::template add_tail<columns>(first, tail, mean0, rstd0, g0, g0, w0, w0);
      if constexpr (two)
        Rows::template add_tail<columns>(second, tail, mean1, rstd1, g1, g1, w1, w1);
    }
    const auto add = [&](size_t i) FUSEDNORM_INLINE {
      auto dy0 = P::raw(first.p.dy + i), dy1 = P::raw(second.p.dy + i);
      auto source0 = P::raw(first.p.source + i), source1 = P::raw(second.p.source + i);
      const auto half = [&](auto part) FUSEDNORM_INLINE {
        constexpr size_t k = decltype(part)::value;
        const V gamma = hn::LoadU(d, P::template part<k>(first.p.gamma, i));
        V beta = gamma, dgamma = gamma, dbeta = gamma;
        if constexpr (from_y) beta = hn::LoadU(d, P::template part<k>(first.p.beta, i));
        if constexpr (columns) {
          dgamma = hn::LoadU(d, P::template part<k>(first.dgamma, i));
          dbeta = hn::LoadU(d, P::template part<k>(first.dbeta, i));
        }
        Rows::template add<columns>(P::template part<k>(dy0), P::template part<k>(source0), gamma,
                                    from_y ? beta : mean0, rstd0, g0, w0, dgamma, dbeta);
        if constexpr (two)
          Rows::template add<columns>(P::template part<k>(dy1), P::template part<k>(source1), gamma,
                                      from_y ? beta : mean1, rstd1, g1, w1, dgamma, dbeta);
        if constexpr (columns) {
          hn::StoreU(dgamma, d, P::template part<k>(first.dgamma, i));
          hn::StoreU(dbeta, d, P::template part<k>(first.dbeta, i));
        }
      };
      half(std::integral_constant<size_t, 0>());
      if constexpr (Rows::pairs) {
        dy0 = after(dy0, w0);
        source0 = after(source0, w0);
        dy1 = after(dy1, w1);
        source1 = after(source1, w1);
        half(std::integral_constant<size_t, 1>());
      }
    };
    for (size_t i = 0, end = 0; end < first.n;) {
      end += static_cast<size_t>(Chunk<C>::next(static_cast<int64_t>(first.n - end)));
      if (first.ahead_dy) {
        const size_t line = HWY_MAX(step, Lines<TX>::line);
        for (; i + line <= end; i += line) {
          prefetch(first.ahead_dy + i, line);
          if constexpr (two) prefetch(second.ahead_dy + i, line);
          if (first.ahead_source) {
            prefetch(first.ahead_source + i, line);
            if constexpr (two) prefetch(second.ahead_source + i, line);
          }
          for (size_t k = 0; k < line; k += step) add(i + k);
        }
      }
      for (; i + step <= end; i += step) add(i);
      // Chains of additions end with a chunk.
      row_g0 = hn::Add(row_g0, g0);
      row_w0 = hn::Add(row_w0, w0);
      row_g1 = hn::Add(row_g1, g1);
      row_w1 = hn::Add(row_w1, w1);
      g0 = w0 = g1 = w1 = hn::Zero(d);
    }
  }

  template <bool two, bool columns>
  static HWY_NOINLINE void sum_chunk(First first, First second, bool starts, Sums* sums) {
    V g0, w0, g1, w1;
    sum_rows<two, columns>(first, second, g0, w0, g1, w1);
    Rows::join(g0, starts, sums[0].g);
    Rows::join(w0, starts, sums[0].weighted);
    if constexpr (two) {
      Rows::join(g1, starts, sums[1].g);
      Rows::join(w1, starts, sums[1].weighted);
    }
  }

  static void sum(const Block& block, bool starts, Sums* sums) {
    const auto both = block.columns ? &sum_chunk<true, true> : &sum_chunk<true, false>;
    const auto one = block.columns ? &sum_chunk<false, true> : &sum_chunk<false, false>;
    const int64_t next_row = std::min<int64_t>(2, block.rows);
    for (int64_t r = 0; r < block.rows; r += 2) {
      const First first = block.first(r, next_row);
      if (r + 1 < block.rows)
        both(first, block.first(r + 1, next_row), starts, sums + r);
      else
        one(first, first, starts, sums + r);
    }
  }

  /// The second stage; apart for a row that is centred while others stay. In place nothing could be
  /// written again, and what stays in the cache is written with every tie at once.
  template <Cache cache>
  static HWY_INLINE void write_row(const Second& second) {
    constexpr bool may_stay = Rows::may_stay;
    if (may_stay && HWY_UNLIKELY(second.row.centred))
      Rows::template write_apart<cache, true>(Rows::part(second, 0, second.n));
    else
      Rows::template write<cache == Cache::keep, cache, !may_stay>(second);
  }

  template <Cache cache>
  static HWY_NOINLINE void write_one(Second second) {
    write_row<cache>(second);
  }

  /// Rows of one segment, with dx: the first stage of the next two rows, then the second of these.
  template <bool columns, Cache cache>
  static HWY_NOINLINE void whole_rows(const BackwardArguments& a, int64_t begin, int64_t end,
                                      ColumnSums sums) {
    const D d;
    const W share = W(1) / static_cast<W>(a.cols);
    const auto n = static_cast<size_t>(a.cols);
    const int64_t dy_stride = a.dy_stride, source_stride = a.source_stride, dx_stride = a.dx_stride;
    // What the next turn sums, or more where that would be too late.
    const int64_t row_bytes = a.cols * int64_t{sizeof(TX)},
                  ahead = std::max<int64_t>(4, policy::least_prefetch_bytes / row_bytes);
    Pieces next = pieces(a, begin, 0), now = next;
    TX* dx = static_cast<TX*>(a.dx) + begin * dx_stride;
    Factors factors0 = {}, factors1 = {};
    const SumsOfColumns of_columns(sums, a.cols, 0);
    const ColumnSum dgamma = of_columns.dgamma, dbeta = of_columns.dbeta;
    // The first turn writes nothing, and the last sums nothing.
    for (int64_t row = begin - 2; row < end; row += 2) {
      const int64_t left = end - row - 2;
      const Statistics own0 = statistics(a, left > 0 ? row + 2 : end - 1),
                       own1 = statistics(a, left > 1 ? row + 3 : end - 1);
      const First first = {next, n, own0, dgamma, dbeta};
      V g0 = hn::Zero(d), w0 = g0, g1 = g0, w1 = g0;
      if (HWY_LIKELY(left > 1)) {
        const Pieces beside = {next.dy + dy_stride, next.source + source_stride, next.gamma,
                               next.beta};
        sum_rows<true, columns>(first, {beside, n, own1, dgamma, dbeta}, g0, w0, g1, w1);
      } else if (left == 1) {
        Sums last;
        const Pieces p = {next.dy, next.source, next.gamma.at(0), next.beta.at(0)};
        const First alone = {p, n, {own0.mean, own0.rstd}, dgamma.at(0), dbeta.at(0)};
        sum_chunk<false, columns>(alone, alone, true, &last);
        g0 = hn::Load(d, last.g);
        w0 = hn::Load(d, last.weighted);
      }
      for (int64_t r = row; row >= begin && r < row + 2 && r < end; ++r) {
        if (cache == Cache::bypass) Lines<TX>::prefetch_edges(dx + dx_stride, P::step());
        write_row<cache>({now, dx, n, factors0, later(now.dy, 0, ahead, dy_stride),
                          later(now.source, 0, ahead, source_stride)});
        factors0 = factors1;
        now.dy += dy_stride;
        now.source += source_stride;
        dx += dx_stride;
      }
      factors0 = Rows::factors(own0, share, {Rows::total(g0), Rows::total(w0)});
      factors1 = Rows::factors(own1, share, {Rows::total(g1), Rows::total(w1)});
      if (left > 2) {
        next.dy += 2 * dy_stride;
        next.source += 2 * source_stride;
      }
    }
  }

  /// The chunk of a long row that the second stage takes at a position.
  static HWY_INLINE Second output(const BackwardArguments& a, int64_t row, const Position& at,
                                  bool bypass, const Factors& factors, const TS* ahead_source) {
    TX* dx = static_cast<TX*>(a.dx) + row * a.dx_stride;
    const Span span(at, bypass ? Lines<TX>::before(dx) : 0);
    // Of the next turn's row.
    if (bypass && span.begin == 0)
      Lines<TX>::prefetch_edges(later(dx, 0, 2, a.dx_stride), P::step());
    const Pieces p = pieces(a, row, span.begin);
    return {p,    dx + span.begin, static_cast<size_t>(span.end - span.begin), factors,
            p.dy, ahead_source};
  }

  /// Rows of any length, a chunk of each stage at a time; the second stage is two rows behind.
  static void long_rows(const BackwardArguments& a, int64_t begin, int64_t end, ColumnSums sums) {
    const bool bypass = bypasses(a);
    const W share = W(1) / static_cast<W>(a.cols);
    Sums partial[2];
    Statistics own[2];
    Totals totals[2];
    Factors factors[2] = {};
    int64_t writes = 0;  // rows
    for (int64_t next = begin; next < end || writes > 0; next += 2) {
      const int64_t rows = std::clamp<int64_t>(end - next, 0, 2);
      for (int64_t r = 0; r < rows; ++r) {
        own[r] = statistics(a, next + r);
        totals[r] = {};
      }
      for (Position at(a.segments, Chunk<C>::whole, 0); at.row == 0; at.advance()) {
        // What the next turn sums.
        const Pieces p = pieces(a, next, at.column);
        const bool ends = at.column + at.length == a.cols;
        const int64_t columns = ends ? -at.column : at.length, down = ends ? 2 : 0;
        const TY* soon_dy = later(p.dy, columns, down, a.dy_stride);
        const TS* soon_source = later(p.source, columns, down, a.source_stride);
        // Either stage asks for one array: what one asks for at once is waited for at once.
        Block block = Rows::block(a, p, at.length, own, rows, sums, a.cols, at.column);
        block.next_dy = soon_dy;
        if (writes == 0) block.next_source = soon_source;
        sum(block, at.first, partial);
        for (int64_t r = 0; at.last && r < rows; ++r)
          totals[r].add(Rows::total(partial[r].g), Rows::total(partial[r].weighted));
        for (int64_t r = 0; r < writes; ++r) {
          const Second second = output(a, next - 2 + r, at, bypass, factors[r],
                                       later(soon_source, 0, r, a.source_stride));
          Rows::template write_chunk<BackwardTwoRows>(second, bypass);
        }
      }
      writes = a.dx ? rows : 0;
      for (int64_t r = 0; r < writes; ++r) factors[r] = Rows::factors(own[r], share, totals[r]);
    }
  }

  /// A row of one segment is never shared by threads: its sums may end otherwise than those of its
  /// chunks.
  template <bool columns, Cache cache>
  static void rows(const BackwardArguments& a, int64_t begin, int64_t end, ColumnSums sums) {
    if (a.dx && a.segments.count == 1)
      whole_rows<columns, cache>(a, begin, end, sums);
    else
      long_rows(a, begin, end, sums);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
