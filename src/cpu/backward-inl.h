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
#include "cpu/line_writer-inl.h"
#include "cpu/pipeline.h"

HWY_BEFORE_NAMESPACE();
namespace fusednorm::cpu {
namespace HWY_NAMESPACE {

template <typename TX, typename TY, bool from_y>
struct Backward : BackwardStages<TX, TY, from_y> {
  using Stages = BackwardStages<TX, TY, from_y>;
  using typename Stages::C;
  using typename Stages::Factors;
  using typename Stages::P;
  using typename Stages::Pieces;
  using typename Stages::Sums;
  using typename Stages::TS;
  using typename Stages::W;

  static constexpr int64_t chunk = chunk_of<TX>;
  static constexpr int64_t one_chunk = chunk + segment_granule;

  static HWY_INLINE C mean_of(const BackwardArguments& a, int64_t row) {
    return from_y ? C(0) : Stages::settled(static_cast<const C*>(a.mean)[row]);
  }
  static HWY_INLINE C rstd_of(const BackwardArguments& a, int64_t row) {
    return Stages::settled(static_cast<const C*>(a.rstd)[row]);
  }

  static HWY_INLINE Pieces pieces(const BackwardArguments& a, int64_t row, int64_t column) {
    const Parameter<C> gamma(a.gamma, ones<C>.data()), beta(a.beta, zeros<C>.data());
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

  /// `sums` point at the chunk's first column.
  template <bool want_dx, bool want_sums>
  static HWY_INLINE void write(const Pieces& p, TX* dx, C* dgamma, C* dbeta, size_t n,
                               const Factors& f, const Pieces& first_stage,
                               LineWriter<TX>* writer) {
    const TY* dy = ahead_of(first_stage.dy);
    const TS* source = ahead_of(first_stage.source);
    if (!want_dx || !writer) {
      Stages::template write_chunk<want_dx, want_sums, Cache::keep>(p, dx, dgamma, dbeta, n, f, dy,
                                                                    source);
    } else if (P::template streams<TX> && writer->direct(dx, n)) {
      Stages::template write_chunk<want_dx, want_sums, Cache::bypass>(p, dx, dgamma, dbeta, n, f,
                                                                      dy, source);
    } else {
      Stages::template write_chunk<want_dx, want_sums, Cache::keep>(p, writer->begin(dx), dgamma,
                                                                    dbeta, n, f, dy, source);
      writer->commit(n);
    }
  }

  /// Short rows with dx: the second stage is a step behind the first, so that the latencies between
  /// them are hidden and reads and writes come evenly.
  template <bool want_sums>
  static HWY_INLINE void short_rows(const BackwardArguments& a, int64_t begin, int64_t end,
                                    ColumnSums sums, LineWriter<TX>* writer) {
    constexpr int64_t most = policy::max_rows_per_step;
    C* dgamma = static_cast<C*>(sums.dgamma);
    C* dbeta = static_cast<C*>(sums.dbeta);
    const W share = W(1) / static_cast<W>(a.cols);
    const int64_t group = policy::rows_per_step(a.cols);
    const auto n = static_cast<size_t>(a.cols);
    const auto rows_at = [&](int64_t row) {
      return row < begin ? 0 : row + group <= end ? group : end - row;
    };
    const Pieces origin = pieces(a, 0, 0);
    const auto at = [&](int64_t row) {
      return Pieces{origin.dy + row * a.dy_stride, origin.source + row * a.source_stride,
                    origin.gamma, origin.beta};
    };
    Factors factors[most];
    for (int64_t row = begin; row < end + group; row += group) {
      C g[most], weighted[most];
      for (int64_t r = 0; r < rows_at(row); ++r) {
        Stages::sums_of_row(at(row + r), n, mean_of(a, row + r), &g[r], &weighted[r]);
      }
      const int64_t second = row - group;
      for (int64_t r = 0; r < rows_at(second); ++r) {
        write<true, want_sums>(at(second + r), static_cast<TX*>(a.dx) + (second + r) * a.dx_stride,
                               dgamma, dbeta, n, factors[r],
                               at(row + r < end ? row + r : second + r), writer);
      }
      for (int64_t r = 0; r < rows_at(row); ++r) {
        const C rstd = rstd_of(a, row + r);
        factors[r] = Stages::factors(mean_of(a, row + r), rstd, share, static_cast<W>(g[r]),
                                     from_y ? static_cast<W>(weighted[r])
                                            : static_cast<W>(rstd) * static_cast<W>(weighted[r]));
      }
    }
  }

  /// Rows of any length, a chunk of each stage at a time; the second stage is a row behind.
  template <bool want_dx, bool want_sums>
  static HWY_INLINE void long_rows(const BackwardArguments& a, int64_t begin, int64_t end,
                                   ColumnSums sums, LineWriter<TX>* writer) {
    C* dgamma = static_cast<C*>(sums.dgamma);
    C* dbeta = static_cast<C*>(sums.dbeta);
    const W share = W(1) / static_cast<W>(a.cols);
    const auto step = [&](int64_t lag) { return Step(a.segments, begin, end, chunk, lag); };
    // Without dx there is nothing to sum first.
    Step reduce = step(0), output = step(want_dx ? a.segments.count : 0);
    Sums partial = {};
    W g_sum = 0, g_xhat_sum = 0;
    Factors factors[2] = {};  // of the row that the second stage is at, and of the next
    int turn = 0;
    for (; output.row < end; reduce.advance(), output.advance()) {
      if (output.first_segment()) {
        turn ^= want_dx ? 1 : 0;
        if (!want_dx && output.length > 0)
          factors[0] = Stages::factors(mean_of(a, output.row), rstd_of(a, output.row), share, 0, 0);
      }
      for (int64_t offset = 0; offset < a.segments.length; offset += chunk) {
        const Piece piece = reduce.piece(offset);
        if (want_dx && piece) {
          Stages::add_chunk(pieces(a, reduce.row, reduce.column + offset), piece.n,
                            mean_of(a, reduce.row), offset == 0, partial);
          if (piece.last) {
            W g, g_xhat;
            totals(a, reduce.row, partial, &g, &g_xhat);
            g_sum = reduce.first_segment() ? g : g_sum + g;
            g_xhat_sum = reduce.first_segment() ? g_xhat : g_xhat_sum + g_xhat;
            if (reduce.last_segment()) {
              factors[turn ^ 1] = Stages::factors(mean_of(a, reduce.row), rstd_of(a, reduce.row),
                                                  share, g_sum, g_xhat_sum);
            }
          }
        }
        if (const Piece out = output.piece(offset)) {
          const int64_t column = output.column + offset;
          TX* dx = want_dx ? static_cast<TX*>(a.dx) + output.row * a.dx_stride + column : nullptr;
          const Pieces p = pieces(a, output.row, column);
          write<want_dx, want_sums>(
              p, dx, want_sums ? dgamma + column : nullptr, want_sums ? dbeta + column : nullptr,
              out.n, factors[turn],
              reduce.length > 0 ? pieces(a, reduce.row, reduce.column + offset) : p, writer);
        }
      }
    }
  }

  static void rows(const BackwardArguments& a, int64_t begin, int64_t end, ColumnSums sums) {
    if (!a.dx) return long_rows<false, true>(a, begin, end, sums, nullptr);
    LineWriter<TX> own;
    LineWriter<TX>* writer = a.streaming ? &own : nullptr;
    if (a.cols <= short_row_of<TX>) {
      return sums.dgamma ? short_rows<true>(a, begin, end, sums, writer)
                         : short_rows<false>(a, begin, end, sums, writer);
    }
    return sums.dgamma ? long_rows<true, true>(a, begin, end, sums, writer)
                       : long_rows<true, false>(a, begin, end, sums, writer);
  }

  /// Gamma and beta of a chunk, expanded here where that is wanted.
  struct Parameters {
    HWY_ALIGN C gamma[max_chunk + 2 * Stages::max_lanes];
    HWY_ALIGN C beta[max_chunk + 2 * Stages::max_lanes];

    HWY_INLINE void take(const BackwardArguments& a, int64_t column, int64_t n) {
      if (!a.expand) return;
      const auto skip = [&](const void* given) {
        return given ? static_cast<const char*>(given) + column * a.param_size : nullptr;
      };
      a.expand(skip(a.gamma), 1, n, gamma);
      if (from_y) a.expand(skip(a.beta), 0, n, beta);
    }
    HWY_INLINE Pieces at(const BackwardArguments& a, int64_t row, int64_t column) const {
      Pieces p = pieces(a, row, a.expand ? 0 : column);
      if (!a.expand) return p;
      p.dy += column;
      p.source += column;
      p.gamma = gamma;
      p.beta = beta;
      return p;
    }
  };

  static int64_t piece_of(int64_t left) { return left <= one_chunk ? left : chunk; }

  /// The sums of rows over segments [begin, end), as long_rows() would have them.
  static void sums(const BackwardArguments& a, int64_t row_begin, int64_t row_end, int64_t begin,
                   int64_t end, GradientSums* out) {
    Parameters parameters;
    for (int64_t s = begin; s < end; ++s) {
      Sums partial[policy::max_shared_rows] = {};
      const int64_t first = a.segments.begin(s), last = a.segments.end(s);
      for (int64_t column = first; column < last;) {
        const int64_t n = piece_of(last - column);
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

  template <bool want_dx, bool want_sums>
  static HWY_INLINE void segment_with(const BackwardArguments& a, int64_t row_begin,
                                      int64_t row_end, int64_t s, const GradientSums* of_rows,
                                      ColumnSums sums, LineWriter<TX>* writers) {
    C* dgamma = static_cast<C*>(sums.dgamma);
    C* dbeta = static_cast<C*>(sums.dbeta);
    const W share = W(1) / static_cast<W>(a.cols);
    Factors of_row[policy::max_shared_rows];
    for (int64_t row = row_begin; row < row_end; ++row) {
      const GradientSums& total = of_rows[(row - row_begin) * a.segments.count];
      of_row[row - row_begin] = Stages::factors(mean_of(a, row), rstd_of(a, row), share,
                                                want_dx ? static_cast<W>(total.g) : W(0),
                                                want_dx ? static_cast<W>(total.g_xhat) : W(0));
    }
    Parameters parameters;
    const int64_t first = a.segments.begin(s), last = a.segments.end(s);
    for (int64_t column = first; column < last;) {
      const int64_t n = piece_of(last - column);
      parameters.take(a, column, n);
      for (int64_t row = row_begin; row < row_end; ++row) {
        TX* dx = want_dx ? static_cast<TX*>(a.dx) + row * a.dx_stride + column : nullptr;
        const Pieces p = parameters.at(a, row, column);
        write<want_dx, want_sums>(p, dx, want_sums ? dgamma + (column - first) : nullptr,
                                  want_sums ? dbeta + (column - first) : nullptr,
                                  static_cast<size_t>(n), of_row[row - row_begin], p,
                                  a.streaming ? writers + (row - row_begin) : nullptr);
      }
      column += n;
    }
  }

  static void segment(const BackwardArguments& a, int64_t row_begin, int64_t row_end, int64_t s,
                      const GradientSums* of_rows, ColumnSums sums) {
    if (!a.dx) return segment_with<false, true>(a, row_begin, row_end, s, of_rows, sums, nullptr);
    LineWriter<TX> writers[policy::max_shared_rows];
    return sums.dgamma
               ? segment_with<true, true>(a, row_begin, row_end, s, of_rows, sums, writers)
               : segment_with<true, false>(a, row_begin, row_end, s, of_rows, sums, writers);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
