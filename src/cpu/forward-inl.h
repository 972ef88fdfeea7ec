// LayerNorm forward on one instruction set: the stages of rows that follow each other run as a
// pipeline, a chunk at a time, so that memory never waits for arithmetic. Included once per
// instruction set.
#if defined(FUSEDNORM_CPU_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_FORWARD_INL_H_
#undef FUSEDNORM_CPU_FORWARD_INL_H_
#else
#define FUSEDNORM_CPU_FORWARD_INL_H_
#endif

#include "cpu/forward_stages-inl.h"
#include "cpu/pipeline.h"

HWY_BEFORE_NAMESPACE();
namespace fusednorm::cpu {
namespace HWY_NAMESPACE {

template <typename TX, typename TY>
struct Forward : ForwardStages<TX, TY> {
  using Stages = ForwardStages<TX, TY>;
  using typename Stages::C;
  using typename Stages::Columns;
  using typename Stages::Factors;
  using typename Stages::P;
  using typename Stages::SegmentMoments;
  using typename Stages::Sums;
  using typename Stages::W;

  static HWY_INLINE Factors finish(const ForwardArguments& a, int64_t row, SegmentMoments of_row,
                                   W share, bool store_statistics) {
    const W mean = of_row.mean, variance = Stages::variance_of(of_row.squares, share);
    const W rstd = Stages::rstd_of(variance, a.eps);
    if (store_statistics) {
      if (a.mean) static_cast<C*>(a.mean)[row] = static_cast<C>(mean);
      if (a.rstd) static_cast<C*>(a.rstd)[row] = static_cast<C>(rstd);
    }
    return Stages::factors(mean, variance, rstd);
  }

  static constexpr bool can_bypass = P::template streams<TY>;

  template <Cache cache, class Q>
  static HWY_INLINE void write(const TX* x, Q gamma, Q beta, TY* y, size_t n, const Factors& row,
                               const TX* ahead) {
    if (cache == Cache::keep || HWY_LIKELY(Lines<TY>::fit(y, static_cast<int64_t>(n))))
      Stages::template normalize_row<cache>(x, gamma, beta, y, n, row, ahead);
    else
      Stages::keep_row(x, gamma, beta, y, n, row);
  }

  /// Rows whose sums wait for each other, so that one long chain of latencies, from sums to rstd,
  /// serves all.
  struct Batch {
    static constexpr int64_t most = policy::rows_at_once;
    HWY_ALIGN C rest[most];
    HWY_ALIGN C squares[most];
    Factors factors[most];
  };

  static HWY_INLINE void sum_batch(const TX* x, int64_t stride, size_t n, int64_t count,
                                   Batch& batch) {
    for (int64_t r = 0; r < count; ++r, x += stride)
      Stages::sums_of_row(x, n, &batch.rest[r], &batch.squares[r]);
  }

  /// Factors and statistics of rows `row` and on.
  static HWY_INLINE void finish_batch(const ForwardArguments& a, int64_t row, const TX* x, W share,
                                      int64_t count, Batch& batch) {
    if (HWY_LIKELY(
            Stages::finish_together(batch.rest, batch.squares, share, a.eps, batch.factors))) {
      for (int64_t r = 0; a.mean && r < count; ++r)
        static_cast<C*>(a.mean)[row + r] = batch.factors[r].mean;
      for (int64_t r = 0; a.rstd && r < count; ++r)
        static_cast<C*>(a.rstd)[row + r] = batch.factors[r].rstd;
      return;
    }
    for (int64_t r = 0; r < count; ++r, x += a.x_stride) {
      batch.factors[r] =
          finish(a, row + r, Stages::settled(x, a.cols, batch.rest[r], batch.squares[r], share),
                 share, true);
    }
  }

  /// Rows so short that what is found once a row takes longer than they do.
  template <Cache cache>
  static HWY_NOINLINE void narrow_rows(const ForwardArguments& a, int64_t begin, int64_t end) {
    const Parameter<P> gamma(a.gamma, ones<C>.data(), a.cols),
        beta(a.beta, zeros<C>.data(), a.cols);
    const int64_t x_stride = a.x_stride, y_stride = a.y_stride, most = Batch::most;
    const auto n = static_cast<size_t>(a.cols);
    const W share = W(1) / static_cast<W>(a.cols);
    const TX* x = static_cast<const TX*>(a.x) + begin * x_stride;
    TY* y = static_cast<TY*>(a.y) + begin * y_stride;
    Batch batches[2] = {};
    sum_batch(x, x_stride, n, HWY_MIN(most, end - begin), batches[0]);
    int now = 0;
    for (int64_t row = begin; row < end; row += most, now ^= 1) {
      const int64_t count = HWY_MIN(most, end - row);
      Batch& batch = batches[now];
      finish_batch(a, row, x, share, count, batch);
      if (HWY_LIKELY(row + most < end))
        sum_batch(x + most * x_stride, x_stride, n, HWY_MIN(most, end - row - most),
                  batches[now ^ 1]);
      const TX* ahead = ahead_of(later(x, 0, 2 * most, x_stride));
      for (int64_t r = 0; r < count; ++r, x += x_stride, y += y_stride, ahead += x_stride) {
        if (cache == Cache::bypass) Lines<TY>::prefetch_edges(y + 2 * y_stride, P::step());
        write<cache>(x, gamma.columns, beta.columns, y, n, batch.factors[r], ahead);
      }
    }
  }

  /// Rows that are taken whole. The next row is summed before this one is written, so that the
  /// latencies of sums and of rstd pass while something else runs. All in registers: a store, be it
  /// to the stack, waits in line with the streaming ones.
  template <Cache cache>
  static HWY_NOINLINE void short_rows(const ForwardArguments& a, int64_t begin, int64_t end) {
    const Parameter<P> gamma(a.gamma, ones<C>.data(), a.cols),
        beta(a.beta, zeros<C>.data(), a.cols);
    const int64_t x_stride = a.x_stride, y_stride = a.y_stride;
    const auto n = static_cast<size_t>(a.cols);
    const W share = W(1) / static_cast<W>(a.cols);
    const TX* x = static_cast<const TX*>(a.x) + begin * x_stride;
    TY* y = static_cast<TY*>(a.y) + begin * y_stride;
    C rest, squares, next_rest = 0, next_squares = 0;
    Stages::sums_of_row(x, n, &rest, &squares);
    for (int64_t row = begin; row < end; ++row, x += x_stride, y += y_stride) {
      if (HWY_LIKELY(row + 1 < end))
        Stages::sums_of_row(x + x_stride, n, &next_rest, &next_squares);
      const Factors factors =
          finish(a, row, Stages::settled(x, a.cols, rest, squares, share), share, true);
      if (cache == Cache::bypass) Lines<TY>::prefetch_edges(y + 2 * y_stride, P::step());
      write<cache>(x, gamma.columns, beta.columns, y, n, factors,
                   ahead_of(later(x, 0, 2, x_stride)));
      rest = next_rest;
      squares = next_squares;
    }
  }

  /// Rows of any length, a chunk of each stage at a time: the last is as far behind as a row is
  /// long.
  template <Cache cache, class Q>
  static HWY_NOINLINE void long_rows(const ForwardArguments& a, int64_t begin, int64_t end, Q gamma,
                                     Q beta) {
    const W share = W(1) / static_cast<W>(a.cols);
    const W of_segment = W(1) / static_cast<W>(a.segments.length),
            of_last = W(1) / static_cast<W>(a.cols - a.segments.begin(a.segments.count - 1));
    const auto x_at = [&](const Position& at) {
      return static_cast<const TX*>(a.x) + at.row * a.x_stride + at.column;
    };
    Position deviation(a.segments, Chunk<C>::whole, begin), output = deviation;
    Sums sums = {};
    SegmentMoments all = {};
    Factors factors = {};
    for (int64_t wait = chunks_of(a.segments, Chunk<C>::whole) - 1; output.row < end; --wait) {
      if (deviation.row < end) {
        Stages::template add_deviations<false>(
            x_at(deviation), static_cast<size_t>(deviation.length), 0, deviation.first, sums);
        if (deviation.last) {
          const int64_t first = a.segments.begin(deviation.segment);
          if (deviation.first_segment()) all = {};
          Stages::merge(a.segments, deviation.segment,
                        Stages::settled(x_at(deviation) - deviation.column + first,
                                        a.segments.end(deviation.segment) - first, sums,
                                        deviation.last_segment() ? of_last : of_segment),
                        all);
          if (deviation.last_segment()) factors = finish(a, deviation.row, all, share, true);
        }
        deviation.advance();
      }
      if (wait > 0) continue;
      const TX* x = static_cast<const TX*>(a.x) + output.row * a.x_stride;
      TY* y = static_cast<TY*>(a.y) + output.row * a.y_stride;
      const Span span(output, cache == Cache::bypass ? Lines<TY>::before(y) : 0);
      if (cache == Cache::bypass && span.begin == 0)
        Lines<TY>::prefetch_edges(y + a.y_stride, P::step());
      write<cache>(x + span.begin, gamma.at(span.begin), beta.at(span.begin), y + span.begin,
                   static_cast<size_t>(span.end - span.begin), factors, ahead_of(x_at(deviation)));
      output.advance();
    }
  }

  static HWY_INLINE Given<TX> given(const void* parameter, int64_t column) {
    return {static_cast<const TX*>(parameter) + column};
  }

  /// Columns of rows that are taken whole. Threads never share them, for they are of one segment;
  /// their sums may end otherwise than those of chunks.
  static constexpr int64_t longest_whole =
      HWY_MAX(Chunk<C>::longest, policy::chunk_bytes / int64_t{sizeof(TX)});
  static_assert(longest_whole <= max_constants && longest_whole <= max_segment(dtype_of<C>),
                "constants are as long, and so is a segment");

  template <Cache cache>
  static HWY_INLINE void rows_of_any_length(const ForwardArguments& a, int64_t begin, int64_t end) {
    if (HWY_TARGET == HWY_SCALAR || a.cols > longest_whole) {
      if constexpr (sizeof(TX) == 2) {
        if (a.as_given) return long_rows<cache>(a, begin, end, given(a.gamma, 0), given(a.beta, 0));
      }
      const Parameter<P> gamma(a.gamma, ones<C>.data(), a.cols),
          beta(a.beta, zeros<C>.data(), a.cols);
      return long_rows<cache>(a, begin, end, gamma, beta);
    }
    if constexpr (Stages::can_finish_together) {
      if (a.cols <= policy::narrow_bytes / int64_t{sizeof(TX)})
        return narrow_rows<cache>(a, begin, end);
    }
    short_rows<cache>(a, begin, end);
  }
  static void rows(const ForwardArguments& a, int64_t begin, int64_t end) {
    if (!can_bypass || !a.streaming) return rows_of_any_length<Cache::keep>(a, begin, end);
    rows_of_any_length<Cache::bypass>(a, begin, end);
    hwy::FlushStream();
  }

  /// The moments of a row's segments [begin, end), as run() would have them.
  static void moments(const ForwardArguments& a, int64_t row, int64_t begin, int64_t end,
                      Moments* out) {
    const TX* x = static_cast<const TX*>(a.x) + row * a.x_stride;
    for (int64_t s = begin; s < end; ++s) {
      const int64_t n = a.segments.end(s) - a.segments.begin(s);
      const TX* from = x + a.segments.begin(s);
      Sums sums = {};
      Stages::template add_segment<false>(from, n, 0, sums);
      const SegmentMoments m = Stages::settled(from, n, sums, W(1) / static_cast<W>(n));
      out[s] = {static_cast<long double>(m.mean), static_cast<long double>(m.squares)};
    }
  }

  static Moments merge_segments(const ForwardArguments& a, const Moments* parts) {
    SegmentMoments all = {};
    for (int64_t s = 0; s < a.segments.count; ++s) {
      Stages::merge(a.segments, s,
                    {static_cast<W>(parts[s].mean), static_cast<W>(parts[s].squares)}, all);
    }
    return {static_cast<long double>(all.mean), static_cast<long double>(all.squares)};
  }

  /// A segment of rows [row_begin, row_end), a chunk of all rows at a time.
  static void normalize_segment(const ForwardArguments& a, int64_t row_begin, int64_t row_end,
                                int64_t segment, const Moments* of_rows, int64_t ahead_rows) {
    const Parameter<P> gamma(a.gamma, ones<C>.data(), a.cols),
        beta(a.beta, zeros<C>.data(), a.cols);
    Factors factors[policy::max_shared_rows];
    for (int64_t row = row_begin; row < row_end; ++row) {
      const Moments& of_row = of_rows[(row - row_begin) * a.segments.count];
      factors[row - row_begin] =
          finish(a, row, {static_cast<W>(of_row.mean), static_cast<W>(of_row.squares)},
                 W(1) / static_cast<W>(a.cols), segment == 0);
    }
    HWY_ALIGN C expanded[2][policy::room(Chunk<C>::longest)];
    const int64_t last = a.segments.end(segment);
    for (int64_t column = a.segments.begin(segment); column < last;) {
      const int64_t n = Chunk<C>::next(last - column);
      const auto write_rows = [&](auto gamma_at, auto beta_at) HWY_ATTR {
        for (int64_t row = row_begin; row < row_end; ++row) {
          const TX* x = static_cast<const TX*>(a.x) + row * a.x_stride + column;
          TY* y = static_cast<TY*>(a.y) + row * a.y_stride + column;
          const TX* ahead = ahead_rows > 0 ? later(x, 0, ahead_rows, a.x_stride) : ahead_of(x);
          const Factors& f = factors[row - row_begin];
          if (can_bypass && a.streaming)
            write<can_bypass ? Cache::bypass : Cache::keep>(x, gamma_at, beta_at, y,
                                                            static_cast<size_t>(n), f, ahead);
          else
            write<Cache::keep>(x, gamma_at, beta_at, y, static_cast<size_t>(n), f, ahead);
        }
      };
      if (a.as_given) {
        if constexpr (sizeof(TX) == 2) write_rows(given(a.gamma, column), given(a.beta, column));
      } else if (a.expand) {
        expand_chunk(a, a.gamma, 1, column, n, expanded[0]);
        expand_chunk(a, a.beta, 0, column, n, expanded[1]);
        const C *gamma_expanded = expanded[0], *beta_expanded = expanded[1];
        write_rows(P::columns(gamma_expanded, n), P::columns(beta_expanded, n));
      } else {
        write_rows(gamma.at(column), beta.at(column));
      }
      column += n;
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
