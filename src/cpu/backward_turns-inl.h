// Rows of f32 and f64 in LayerNorm backward on one instruction set: the first stage of a row and
// the second of the row before it, in turns of two packs. Included once per instruction set.
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
  using Rows::pieces;
  using Rows::statistics;
  using typename Rows::Block;
  using typename Rows::C;
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

  /// Rows of any length, with dx: the first stage of the next row while this one is written. All in
  /// registers: a store, be it to the stack, waits in line with the streaming ones.
  template <bool columns, bool several_chunks, Cache cache>
  static HWY_NOINLINE void whole_rows(const BackwardArguments& a, int64_t begin, int64_t end,
                                      ColumnSums sums) {
    const SumsOfColumns of_columns(sums, a.cols, 0);
    const W share = W(1) / static_cast<W>(a.cols);
    const auto n = static_cast<size_t>(a.cols), segment = static_cast<size_t>(a.segments.length);
    const size_t last_chunk =
        several_chunks ? static_cast<size_t>(last_chunk_of(a.segments, Chunk<C>::whole)) : 0;
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
      First first{next, more ? n : 0, own, of_columns.dgamma, of_columns.dbeta};
      first.segment = segment;
      if (more) first.last_chunk = last_chunk;
      V g, weighted;
      Totals of_row;
      Rows::template both_stages<adds<columns>, several_chunks, true, cache, true>(
          first, {now, dx, writes ? n : 0, factors, ahead_of(next.dy), ahead_of(next.source)}, g,
          weighted, of_row);
      if constexpr (several_chunks)
        of_row.add(Rows::total(g), Rows::total(weighted));
      else
        of_row = {Rows::total(g), Rows::total(weighted)};
      factors = Rows::factors(own, share, of_row);
      now = next;
      next.dy += dy_stride;
      next.source += source_stride;
      if (writes) dx += dx_stride;
    }
  }

  /// Without dx: dgamma and dbeta alone.
  static HWY_NOINLINE void sum_columns(const BackwardArguments& a, int64_t begin, int64_t end,
                                       ColumnSums sums) {
    const SumsOfColumns of_columns(sums, a.cols, 0);
    for (int64_t row = begin; row < end; ++row) {
      const Pieces p = pieces(a, row, 0);
      const First first{p,
                        static_cast<size_t>(a.cols),
                        statistics(a, row),
                        of_columns.dgamma,
                        of_columns.dbeta,
                        ahead_of(p.dy),
                        ahead_of(p.source)};
      V g, weighted;
      Totals before;
      Rows::template both_stages<Adds::columns, false, true, Cache::keep, true>(
          first, {p, nullptr, 0, {}, p.dy, p.source}, g, weighted, before);
    }
  }

  template <bool columns, Cache cache>
  static void rows(const BackwardArguments& a, int64_t begin, int64_t end, ColumnSums sums) {
    if (!a.dx) return sum_columns(a, begin, end, sums);
    // One chunk alone is a quarter faster at 64 columns.
    if (a.cols <= Chunk<C>::longest)
      whole_rows<columns, false, cache>(a, begin, end, sums);
    else
      whole_rows<columns, true, cache>(a, begin, end, sums);
  }

  // Chunks of rows that threads share.
  template <bool columns>
  static HWY_NOINLINE void sum_chunk(First first, bool starts, Sums& sums) {
    V g, weighted;
    Totals before;
    Rows::template both_stages<adds<columns>, false, true, Cache::keep, true>(
        first, {first.p, nullptr, 0, {}, first.p.dy, first.p.source}, g, weighted, before);
    Rows::join(g, starts, sums.g);
    Rows::join(weighted, starts, sums.weighted);
  }
  static void sum(const Block& block, bool starts, Sums* sums) {
    const auto one = block.columns ? &sum_chunk<true> : &sum_chunk<false>;
    for (int64_t r = 0; r < block.rows; ++r) one(block.first(r, 1), starts, sums[r]);
  }
  template <Cache cache>
  static HWY_NOINLINE void write_one(Second second) {
    Rows::template write<true, cache, true>(second);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
