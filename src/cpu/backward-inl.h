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
  using typename Stages::Columns;
  using typename Stages::ColumnSum;
  using typename Stages::Factors;
  using typename Stages::P;
  using typename Stages::Pieces;
  using typename Stages::Sums;
  using typename Stages::TS;
  using typename Stages::W;

  static HWY_INLINE C mean_of(const BackwardArguments& a, int64_t row) {
    return from_y ? C(0) : Stages::settled(static_cast<const C*>(a.mean)[row]);
  }
  static HWY_INLINE C rstd_of(const BackwardArguments& a, int64_t row) {
    return Stages::settled(static_cast<const C*>(a.rstd)[row]);
  }

  static HWY_INLINE Pieces pieces(const BackwardArguments& a, int64_t row, int64_t column) {
    const Parameter<P> gamma(a.gamma, ones<C>.data(), a.cols),
        beta(a.beta, zeros<C>.data(), a.cols);
    return {static_cast<const TY*>(a.dy) + row * a.dy_stride + column,
            static_cast<const TS*>(a.source) + row * a.source_stride + column, gamma.at(column),
            beta.at(column)};
  }

  static HWY_INLINE void totals(const BackwardArguments& a, int64_t row, const Sums& sums, W* g,
                                W* g_xhat) {
    const W scale = from_y ? W(1) : static_cast<W>(rstd_of(a, row));
    *g = Stages::total(sums.g);
    *g_xhat = scale * Stages::total(sums.weighted);
  }

  static constexpr bool can_bypass = P::template streams<TX>;
  static constexpr Cache past = can_bypass ? Cache::bypass : Cache::keep;

  /// `dgamma` and `dbeta` begin at the chunk's first column.
  template <bool want_dx, bool want_sums, Cache cache>
  static HWY_INLINE void write(const Pieces& p, TX* dx, ColumnSum dgamma, ColumnSum dbeta, size_t n,
                               const Factors& f, const TY* ahead_dy, const TS* ahead_source) {
    if constexpr (want_dx && cache == Cache::bypass) {
      const bool whole = Lines<TX>::whole(dx, n);
      if (HWY_LIKELY(whole || Lines<TX>::fit(dx, n))) {
        // At the alignment of dx, the column sums would be read and written across lines.
        const bool apart = want_sums && !whole;
        if (HWY_UNLIKELY(apart))
          Stages::template write_exactly<false, true>(p, nullptr, dgamma, dbeta, n, f, ahead_dy,
                                                      ahead_source);
        const bool ties = apart
                              ? Stages::template write_chunk<true, false, false, Cache::bypass>(
                                    p, dx, dgamma, dbeta, n, f, ahead_dy, ahead_source)
                              : Stages::template write_chunk<true, want_sums, false, Cache::bypass>(
                                    p, dx, dgamma, dbeta, n, f, ahead_dy, ahead_source);
        if (HWY_UNLIKELY(ties))
          Stages::template write_exactly<true, false>(p, dx, dgamma, dbeta, n, f, p.dy, p.source);
        return;
      }
    }
    // With every tie, for in place nothing could be written again.
    Stages::template write_chunk<want_dx, want_sums, true, Cache::keep>(p, dx, dgamma, dbeta, n, f,
                                                                        ahead_dy, ahead_source);
  }

  /// The same for chunks of longer rows, which are worth a call through a pointer: one long_rows()
  /// and one segment() serve every kind of problem.
  using Writer = void (*)(Pieces, TX*, ColumnSum, ColumnSum, size_t, Factors, const TY*, const TS*);
  template <bool want_dx, bool want_sums, Cache cache>
  static void write_one(Pieces p, TX* dx, ColumnSum dgamma, ColumnSum dbeta, size_t n, Factors f,
                        const TY* ahead_dy, const TS* ahead_source) {
    write<want_dx, want_sums, cache>(p, dx, dgamma, dbeta, n, f, ahead_dy, ahead_source);
  }
  static bool bypasses(const BackwardArguments& a) { return can_bypass && a.dx && a.streaming; }
  static Writer writer_of(const BackwardArguments& a, ColumnSums sums) {
    if (!a.dx) return &write_one<false, true, Cache::keep>;
    if (bypasses(a))
      return sums.dgamma ? &write_one<true, true, past> : &write_one<true, false, past>;
    return sums.dgamma ? &write_one<true, true, Cache::keep> : &write_one<true, false, Cache::keep>;
  }

  /// The factors of a row of one chunk.
  static HWY_INLINE Factors factors_of(const BackwardArguments& a, int64_t row, const Pieces& p,
                                       size_t n, W share) {
    const C mean = mean_of(a, row), rstd = rstd_of(a, row);
    C g, weighted;
    Stages::sums_of_row(p, n, mean, &g, &weighted);
    const W g_xhat =
        from_y ? static_cast<W>(weighted) : static_cast<W>(rstd) * static_cast<W>(weighted);
    return Stages::factors(mean, rstd, share, static_cast<W>(g), g_xhat);
  }
  static HWY_NOINLINE Factors first_factors(const BackwardArguments& a, int64_t row, W share) {
    return factors_of(a, row, pieces(a, row, 0), static_cast<size_t>(a.cols), share);
  }

  /// Rows of one chunk, with dx. The next row's sums are found before this one is written, so that
  /// their latencies pass while something else runs. All in registers: a store, be it to the stack,
  /// waits in line with the streaming ones.
  template <bool want_sums, Cache cache>
  static HWY_NOINLINE void short_rows(const BackwardArguments& a, int64_t begin, int64_t end,
                                      ColumnSums sums) {
    const ColumnSum dgamma = P::columns(static_cast<C*>(sums.dgamma), a.cols),
                    dbeta = P::columns(static_cast<C*>(sums.dbeta), a.cols);
    const W share = W(1) / static_cast<W>(a.cols);
    const auto n = static_cast<size_t>(a.cols);
    const int64_t dy_stride = a.dy_stride, source_stride = a.source_stride, dx_stride = a.dx_stride;
    const Pieces origin = pieces(a, begin, 0);
    const auto at = [&](const TY* dy, const TS* source) FUSEDNORM_INLINE {
      return Pieces{dy, source, origin.gamma, origin.beta};
    };
    const TY* dy = origin.dy;
    const TS* source = origin.source;
    TX* dx = static_cast<TX*>(a.dx) + begin * dx_stride;
    // The last row's turn finds its own sums again.
    Factors f = first_factors(a, begin, share);
    for (int64_t row = begin; row < end; ++row) {
      const bool more = row + 1 < end;
      const TY* next_dy = more ? dy + dy_stride : dy;
      const TS* next_source = more ? source + source_stride : source;
      const Factors next = factors_of(a, more ? row + 1 : row, at(next_dy, next_source), n, share);
      // The line that the next two rows may share.
      if (cache == Cache::bypass) hwy::Prefetch(dx + 2 * dx_stride);
      write<true, want_sums, cache>(at(dy, source), dx, dgamma, dbeta, n, f,
                                    ahead_of(dy + 2 * dy_stride),
                                    ahead_of(source + 2 * source_stride));
      f = next;
      dy = next_dy;
      source = next_source;
      dx += dx_stride;
    }
  }

  /// Rows of any length, a chunk of each stage at a time; the second stage is as far behind as a
  /// row is long.
  static void long_rows(const BackwardArguments& a, int64_t begin, int64_t end, ColumnSums sums) {
    const bool want_dx = a.dx, want_sums = sums.dgamma, bypass = bypasses(a);
    const Writer writer = writer_of(a, sums);
    const ColumnSum dgamma = P::columns(static_cast<C*>(sums.dgamma), a.cols),
                    dbeta = P::columns(static_cast<C*>(sums.dbeta), a.cols);
    const W share = W(1) / static_cast<W>(a.cols);
    Position reduce(a.segments, whole_chunk, begin), output = reduce;
    Sums partial = {};
    W g_sum = 0, g_xhat_sum = 0;
    Factors next = {}, factors = {};
    // Without dx there is nothing to sum first.
    for (int64_t wait = want_dx ? chunks_of(a.segments, whole_chunk) : 0; output.row < end;
         --wait) {
      if (output.column == 0 && wait <= 0) {
        factors =
            want_dx ? next
                    : Stages::factors(mean_of(a, output.row), rstd_of(a, output.row), share, 0, 0);
      }
      if (want_dx && reduce.row < end) {
        Stages::add_chunk(pieces(a, reduce.row, reduce.column), static_cast<size_t>(reduce.length),
                          mean_of(a, reduce.row), reduce.first, partial);
        if (reduce.last) {
          W g, g_xhat;
          totals(a, reduce.row, partial, &g, &g_xhat);
          g_sum = reduce.first_segment() ? g : g_sum + g;
          g_xhat_sum = reduce.first_segment() ? g_xhat : g_xhat_sum + g_xhat;
          if (reduce.last_segment())
            next = Stages::factors(mean_of(a, reduce.row), rstd_of(a, reduce.row), share, g_sum,
                                   g_xhat_sum);
        }
        reduce.advance();
      }
      if (wait > 0) continue;
      TX* dx = want_dx ? static_cast<TX*>(a.dx) + output.row * a.dx_stride : nullptr;
      const Span span(output, bypass ? Lines<TX>::before(dx) : 0);
      if (bypass && span.begin == 0) hwy::Prefetch(dx + a.dx_stride);
      const Position& first = want_dx ? reduce : output;
      const Pieces soon = pieces(a, first.row, first.column);
      writer(pieces(a, output.row, span.begin), want_dx ? dx + span.begin : nullptr,
             want_sums ? dgamma.at(span.begin) : dgamma, want_sums ? dbeta.at(span.begin) : dbeta,
             static_cast<size_t>(span.end - span.begin), factors, ahead_of(soon.dy),
             ahead_of(soon.source));
      output.advance();
    }
  }

  static void rows(const BackwardArguments& a, int64_t begin, int64_t end, ColumnSums sums) {
    const bool bypass = bypasses(a);
    if (HWY_TARGET == HWY_SCALAR || !a.dx || a.cols > longest_chunk)
      long_rows(a, begin, end, sums);
    else if (bypass)
      sums.dgamma ? short_rows<true, past>(a, begin, end, sums)
                  : short_rows<false, past>(a, begin, end, sums);
    else
      sums.dgamma ? short_rows<true, Cache::keep>(a, begin, end, sums)
                  : short_rows<false, Cache::keep>(a, begin, end, sums);
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

  /// The sums of rows over segments [begin, end), as long_rows() would have them.
  static void sums(const BackwardArguments& a, int64_t row_begin, int64_t row_end, int64_t begin,
                   int64_t end, GradientSums* out) {
    Parameters parameters;
    for (int64_t s = begin; s < end; ++s) {
      Sums partial[policy::max_shared_rows] = {};
      const int64_t first = a.segments.begin(s), last = a.segments.end(s);
      for (int64_t column = first; column < last;) {
        const int64_t n = next_chunk(last - column);
        parameters.take(a, column, n);
        for (int64_t row = row_begin; row < row_end; ++row) {
          Stages::add_chunk(parameters.at(a, row, column), static_cast<size_t>(n), mean_of(a, row),
                            column == first, partial[row - row_begin]);
        }
        column += n;
      }
      for (int64_t row = row_begin; row < row_end; ++row) {
        W g, g_xhat;
        totals(a, row, partial[row - row_begin], &g, &g_xhat);
        out[(row - row_begin) * a.segments.count + s] = {static_cast<long double>(g),
                                                         static_cast<long double>(g_xhat)};
      }
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
                      const GradientSums* of_rows, ColumnSums sums, int64_t ahead_rows) {
    const bool want_sums = sums.dgamma;
    const Writer writer = writer_of(a, sums);
    const int64_t first = a.segments.begin(s), last = a.segments.end(s);
    const ColumnSum dgamma = P::columns(static_cast<C*>(sums.dgamma), last - first),
                    dbeta = P::columns(static_cast<C*>(sums.dbeta), last - first);
    const W share = W(1) / static_cast<W>(a.cols);
    Factors of_row[policy::max_shared_rows];
    for (int64_t row = row_begin; row < row_end; ++row) {
      const GradientSums& total = of_rows[(row - row_begin) * a.segments.count];
      of_row[row - row_begin] = Stages::factors(mean_of(a, row), rstd_of(a, row), share,
                                                a.dx ? static_cast<W>(total.g) : W(0),
                                                a.dx ? static_cast<W>(total.g_xhat) : W(0));
    }
    Parameters parameters;
    for (int64_t column = first; column < last;) {
      const int64_t n = next_chunk(last - column);
      parameters.take(a, column, n);
      for (int64_t row = row_begin; row < row_end; ++row) {
        TX* dx = a.dx ? static_cast<TX*>(a.dx) + row * a.dx_stride + column : nullptr;
        const Pieces p = parameters.at(a, row, column);
        writer(p, dx, want_sums ? dgamma.at(column - first) : dgamma,
               want_sums ? dbeta.at(column - first) : dbeta, static_cast<size_t>(n),
               of_row[row - row_begin],
               ahead_rows ? p.dy + ahead_rows * a.dy_stride : ahead_of(p.dy),
               ahead_rows ? p.source + ahead_rows * a.source_stride : ahead_of(p.source));
      }
      column += n;
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
