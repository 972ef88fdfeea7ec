// LayerNorm backward on one instruction set: whole rows, whose stages run as a pipeline (a row is
// still in the cache when its second stage comes), and parts of rows that threads share. Included
// once per instruction set.
#if defined(FUSEDNORM_CPU_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_BACKWARD_INL_H_
#undef FUSEDNORM_CPU_BACKWARD_INL_H_
#else
#define FUSEDNORM_CPU_BACKWARD_INL_H_
#endif

#include "cpu/backward_turns-inl.h"
#include "cpu/backward_two_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fusednorm::cpu {
namespace HWY_NAMESPACE {

template <typename TX, typename TY, bool from_y>
using BackwardKind = std::conditional_t<sizeof(TX) == 2, BackwardTwoRows<TX, TY, from_y>,
                                        BackwardTurns<TX, TY, from_y>>;

template <typename TX, typename TY, bool from_y>
struct Backward : BackwardKind<TX, TY, from_y> {
  using Kind = BackwardKind<TX, TY, from_y>;
  using Kind::pieces;
  using Kind::statistics;
  using typename Kind::C;
  using typename Kind::Factors;
  using typename Kind::P;
  using typename Kind::Pieces;
  using typename Kind::Statistics;
  using typename Kind::Sums;
  using typename Kind::Totals;
  using typename Kind::W;

  template <Cache cache>
  static void rows_by_kind(const BackwardArguments& a, int64_t begin, int64_t end,
                           ColumnSums sums) {
    if (sums.dgamma)
      Kind::template rows<true, cache>(a, begin, end, sums);
    else
      Kind::template rows<false, cache>(a, begin, end, sums);
  }
  static void rows(const BackwardArguments& a, int64_t begin, int64_t end, ColumnSums sums) {
    if (!Kind::bypasses(a)) return rows_by_kind<Cache::keep>(a, begin, end, sums);
    rows_by_kind<Kind::past>(a, begin, end, sums);
    hwy::FlushStream();
  }

  /// Gamma and beta of a chunk, expanded here where that is wanted.
  struct Parameters {
    HWY_ALIGN C gamma[policy::room(Chunk<C>::longest)];
    HWY_ALIGN C beta[policy::room(Chunk<C>::longest)];
    int64_t count = 0;

    HWY_INLINE void take(const BackwardArguments& a, int64_t column, int64_t n) {
      if (!a.expand) return;
      expand_chunk(a, a.gamma, 1, column, n, gamma);
      if (from_y) expand_chunk(a, a.beta, 0, column, n, beta);
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

  /// The sums of a segment of rows, as rows() would have them.
  static void sums(const BackwardArguments& a, int64_t row_begin, int64_t row_end, int64_t segment,
                   GradientSums* out, ColumnSums of_columns) {
    const int64_t first = a.segments.begin(segment), last = a.segments.end(segment),
                  count = row_end - row_begin;
    Parameters parameters;
    Sums partial[policy::max_shared_rows] = {};
    Statistics own[policy::max_shared_rows];
    for (int64_t r = 0; r < count; ++r) own[r] = statistics(a, row_begin + r);
    for (int64_t column = first; column < last;) {
      const int64_t n = Chunk<C>::next(last - column);
      parameters.take(a, column, n);
      const Pieces p = parameters.at(a, row_begin, column);
      auto block = Kind::block(a, p, n, own, count, of_columns, last - first, column - first);
      block.next_dy = p.dy + n;
      block.next_source = p.source + n;
      Kind::sum(block, column == first, partial);
      column += n;
    }
    for (int64_t r = 0; r < count; ++r) {
      out[r * a.segments.count + segment] = {
          static_cast<long double>(Kind::total(partial[r].g)),
          static_cast<long double>(Kind::total(partial[r].weighted))};
    }
  }

  static GradientSums merge(const GradientSums* parts, int64_t count) {
    Totals totals;
    for (int64_t s = 0; s < count; ++s)
      totals.add(static_cast<W>(parts[s].g), static_cast<W>(parts[s].g_xhat));
    return {static_cast<long double>(totals.g), static_cast<long double>(totals.g_xhat)};
  }

  static void segment(const BackwardArguments& a, int64_t row_begin, int64_t row_end, int64_t s,
                      const GradientSums* of_rows) {
    const bool bypass = Kind::bypasses(a);
    const W share = W(1) / static_cast<W>(a.cols);
    Factors of_row[policy::max_shared_rows];
    for (int64_t row = row_begin; row < row_end; ++row) {
      const GradientSums& total = of_rows[(row - row_begin) * a.segments.count];
      of_row[row - row_begin] = Kind::factors(
          statistics(a, row), share, {static_cast<W>(total.g), static_cast<W>(total.g_xhat)});
    }
    Parameters parameters;
    const int64_t last = a.segments.end(s);
    for (int64_t column = a.segments.begin(s); column < last;) {
      const int64_t n = Chunk<C>::next(last - column);
      parameters.take(a, column, n);
      for (int64_t row = row_begin; row < row_end; ++row) {
        const Pieces p = parameters.at(a, row, column);
        // The next row, or the next chunk of all.
        const int64_t rows = row + 1 < row_end ? 1 : row_begin - row, columns = rows < 1 ? n : 0;
        Kind::template write_chunk<Kind>(
            {p, static_cast<TX*>(a.dx) + row * a.dx_stride + column, static_cast<size_t>(n),
             of_row[row - row_begin], later(p.dy, columns, rows, a.dy_stride),
             later(p.source, columns, rows, a.source_stride)},
            bypass);
      }
      column += n;
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
