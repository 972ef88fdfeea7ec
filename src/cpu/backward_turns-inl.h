// Rows of f32 and f64 in LayerNorm backward on one instruction set: the first stage of a row and
// the second of the row before it, in turns. Included once per instruction set.
#if defined(FUSEDNORM_CPU_BACKWARD_TURNS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_BACKWARD_TURNS_INL_H_
#undef FUSEDNORM_CPU_BACKWARD_TURNS_INL_H_
#else
#define FUSEDNORM_CPU_BACKWARD_TURNS_INL_H_
#endif

#include "cpu/backward_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fusednorm::cpu {
namespace HWY_NAMESPACE {

template <typename TX, typename TY, bool from_y>
struct BackwardTurns : BackwardRows<TX, TY, from_y> {
  using Rows = BackwardRows<TX, TY, from_y>;
  using Rows::bypasses;
  using Rows::past;
  using Rows::pieces;
  using Rows::statistics;
  using typename Rows::Block;
  using typename Rows::D;
  using typename Rows::Factors;
  using typename Rows::First;
  using typename Rows::P;
  using typename Rows::Pieces;
  using typename Rows::Second;
  using typename Rows::Statistics;
  using typename Rows::Sums;
  using typename Rows::SumsOfColumns;
  using typename Rows::Totals;
  using typename Rows::V;
  using typename Rows::W;

  template <bool columns>
  static constexpr Adds adds = columns ? Adds::columns : Adds::row;

  /// Rows of one chunk, with dx: the first stage of the next row while this one is written. All in
  /// registers: a store, be it to the stack, waits in line with the streaming ones.
  template <bool columns, Cache cache>
  static HWY_NOINLINE void short_rows(const BackwardArguments& a, int64_t begin, int64_t end,
                                      ColumnSums sums) {
    const D d;
    const SumsOfColumns of_columns(sums, a.cols, 0);
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
      if (cache == Cache::bypass)
        Lines<TX>::prefetch_edges(dx + (writes ? 2 : 1) * dx_stride, P::step());
      V g = hn::Zero(d), weighted = g;
      Rows::template both_stages<adds<columns>, true, cache, true>(
          {next, more ? n : 0, own, of_columns.dgamma, of_columns.dbeta},
          {now, dx, writes ? n : 0, factors, ahead_of(next.dy), ahead_of(next.source)}, g,
          weighted);
      factors = Rows::factors(own, share, {Rows::total(g), Rows::total(weighted)});
      now = next;
      next.dy += dy_stride;
      next.source += source_stride;
      if (writes) dx += dx_stride;
    }
  }

  // Chunks of longer rows are worth a call through a pointer: one function serves every kind of
  // problem.
  using Taker = void (*)(First, Second, bool, Sums&);
  template <bool columns, Cache cache>
  static void take(First first, Second second, bool starts, Sums& sums) {
    V g = hn::Zero(D()), weighted = g;
    // The last segment of a row may be as short as it likes.
    if (cache == Cache::bypass && !Lines<TX>::fit(second.dx, static_cast<int64_t>(second.n))) {
      Rows::template write_apart<true>(second);
      second.n = 0;
    }
    Rows::template both_stages<adds<columns>, true, cache, true>(first, second, g, weighted);
    if (first.n == 0) return;
    Rows::join(g, starts, sums.g);
    Rows::join(weighted, starts, sums.weighted);
  }
  static Taker taker_of(bool bypass, bool columns) {
    if (bypass) return columns ? &take<true, past> : &take<false, past>;
    return columns ? &take<true, Cache::keep> : &take<false, Cache::keep>;
  }

  static void sum(const Block& block, bool starts, Sums* sums) {
    const Taker taker = taker_of(false, block.columns);
    for (int64_t r = 0; r < block.rows; ++r) {
      const First first = block.first(r, 1);
      taker(first, {first.p, nullptr, 0, {}, first.p.dy, first.p.source}, starts, sums[r]);
    }
  }
  static void write_chunk(const Second& second, bool bypass) {
    Sums nothing;
    taker_of(bypass, false)({second.p, 0, {}, {}, {}}, second, false, nothing);
  }

  /// Rows of any length, a chunk of each stage at a time; the second stage is as far behind as a
  /// row is long.
  static void long_rows(const BackwardArguments& a, int64_t begin, int64_t end, ColumnSums sums) {
    const bool want_dx = a.dx, bypass = bypasses(a);
    const Taker taker = taker_of(bypass, sums.dgamma);
    const W share = W(1) / static_cast<W>(a.cols);
    Position reduce(a.segments, whole_chunk, begin), output = reduce;
    Sums partial = {};
    Totals totals;
    Factors next = {}, factors = {};
    for (int64_t wait = chunks_of(a.segments, whole_chunk); (want_dx ? output : reduce).row < end;
         --wait) {
      const bool sums_now = reduce.row < end, writes = want_dx && wait <= 0;
      if (output.column == 0) factors = next;
      const int64_t row = sums_now ? reduce.row : output.row;
      const Statistics own = statistics(a, row);
      const Pieces from = pieces(a, row, reduce.column);
      Second second{from, nullptr, 0, factors, ahead_of(from.dy), ahead_of(from.source)};
      if (writes) {
        second = Rows::output(a, output.row, output, bypass, 1, factors, second.ahead_dy,
                              second.ahead_source);
        output.advance();
      }
      Block block =
          Rows::block(a, from, sums_now ? reduce.length : 0, &own, 1, sums, a.cols, reduce.column);
      if (!want_dx) {
        block.next_dy = ahead_of(from.dy);
        block.next_source = ahead_of(from.source);
      }
      taker(block.first(0, 1), second, reduce.first, partial);
      if (!sums_now) continue;
      if (reduce.last)
        totals.add(Rows::total(partial.g), Rows::total(partial.weighted), reduce.first_segment());
      if (reduce.last && reduce.last_segment()) next = Rows::factors(own, share, totals);
      reduce.advance();
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
