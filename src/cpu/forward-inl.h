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
#include "cpu/line_writer-inl.h"
#include "cpu/pipeline.h"

HWY_BEFORE_NAMESPACE();
namespace fusednorm::cpu {
namespace HWY_NAMESPACE {

template <typename TX, typename TY>
struct Forward : ForwardStages<TX, TY> {
  using Stages = ForwardStages<TX, TY>;
  using typename Stages::C;
  using typename Stages::Factors;
  using typename Stages::P;
  using typename Stages::Sums;
  using typename Stages::W;

  /// One over the elements of a segment, and over those of its sample.
  struct Shares {
    W all;
    W sample;
    explicit Shares(int64_t n)
        : all(W(1) / static_cast<W>(n)),
          sample(W(1) / static_cast<W>(P::sampled(static_cast<size_t>(n)))) {}
  };

  struct Row {
    W mean;
    W squares;
    Factors factors;
  };

  static HWY_INLINE Factors finish(const ForwardArguments& a, int64_t row, W mean, W squares,
                                   W share, bool store_statistics) {
    const W rstd = Stages::rstd_of(squares, share, a.eps);
    const C centre = static_cast<C>(mean);
    if (store_statistics) {
      if (a.mean) static_cast<C*>(a.mean)[row] = static_cast<C>(mean);
      if (a.rstd) static_cast<C*>(a.rstd)[row] = static_cast<C>(rstd);
    }
    return {centre, static_cast<C>((static_cast<W>(centre) - mean) * rstd), static_cast<C>(rstd)};
  }

  template <bool kept, typename T>
  static HWY_INLINE void write(const T* from, const C* gamma, const C* beta, TY* y, size_t n,
                               const Factors& row, const TX* ahead, LineWriter<TY>* writer) {
    if (!writer) {
      Stages::template normalize<kept, Cache::keep>(from, gamma, beta, y, n, row, ahead);
    } else if (P::template streams<TY> && writer->direct(y, n)) {
      Stages::template normalize<kept, Cache::bypass>(from, gamma, beta, y, n, row, ahead);
    } else {
      Stages::template normalize<kept, Cache::keep>(from, gamma, beta, writer->begin(y), n, row,
                                                    ahead);
      writer->commit(n);
    }
  }

  static constexpr int64_t chunk = chunk_of<TX>;
  static constexpr int64_t one_chunk = chunk + segment_granule;

  /// Short 16-bit rows keep their deviations for the last stage, which saves it their
  /// unpacking and centring.
  static constexpr bool keep = sizeof(TX) == 2;

  /// Short rows on their way from the second stage to the last.
  struct Batch {
    static constexpr int64_t most = policy::max_rows_per_step;
    C centre[most];
    C rest[most];
    C squares[most];
    Factors factors[most];
  };

  /// Row by row: a vector of what was stored as single numbers would have to wait for all stores
  /// before them, the streaming ones too.
  static HWY_INLINE void finish(const ForwardArguments& a, int64_t row, int64_t count, W share,
                                Batch& batch) {
    for (int64_t r = 0; r < count; ++r) {
      const C centre = batch.centre[r];
      const W rest = batch.rest[r], offset = rest * share, mean = Stages::mean_of(centre, offset);
      const W rstd = Stages::rstd_of(batch.squares[r] - rest * offset, share, a.eps);
      if (a.mean) static_cast<C*>(a.mean)[row + r] = static_cast<C>(mean);
      if (a.rstd) static_cast<C*>(a.rstd)[row + r] = static_cast<C>(rstd);
      // Kept deviations are from the centre; x is best taken from what is nearest to the mean.
      const C from = keep ? centre : static_cast<C>(mean);
      Factors& f = batch.factors[r];
      f.centre = from;
      f.shift = static_cast<C>((static_cast<W>(from) - mean) * rstd);
      f.rstd = static_cast<C>(rstd);
    }
  }

  /// Short rows: three stages, each a step behind the one before it, so that the latencies
  /// between them are hidden and reads and writes come evenly.
  static HWY_INLINE void short_rows(const ForwardArguments& a, int64_t begin, int64_t end,
                                    LineWriter<TY>* writer) {
    constexpr int64_t most = policy::max_rows_per_step;
    const Parameter<C> gamma(a.gamma, ones<C>.data()), beta(a.beta, zeros<C>.data());
    const int64_t group = policy::rows_per_step(a.cols);
    const auto n = static_cast<size_t>(a.cols);
    const Shares shares(a.cols);
    const TX* x = static_cast<const TX*>(a.x);
    const int64_t pitch = a.cols + 2 * static_cast<int64_t>(Stages::max_lanes);
    Batch batches[2] = {};
    HWY_ALIGN C kept[keep ? 2 * (max_chunk + most * 2 * Stages::max_lanes) : 1];
    const auto rows_at = [&](int64_t row) {
      return row < begin ? 0 : row + group <= end ? group : end - row;
    };
    int turn = 0;
    for (int64_t row = begin; row < end + 2 * group; row += group, turn ^= 1) {
      // This step's batch leaves the pipeline before it enters it anew.
      Batch &now = batches[turn], &before = batches[turn ^ 1];
      C centres[most];
      for (int64_t r = 0; r < rows_at(row); ++r) {
        centres[r] = Stages::centre_of_row(x + (row + r) * a.x_stride, n, shares.sample);
      }
      const int64_t second = row - group, third = second - group;
      for (int64_t r = 0; r < rows_at(second); ++r) {
        Stages::template sums_of_row<keep>(x + (second + r) * a.x_stride, n, before.centre[r],
                                           keep ? kept + ((turn ^ 1) * group + r) * pitch : kept,
                                           &before.rest[r], &before.squares[r]);
      }
      for (int64_t r = 0; r < rows_at(third); ++r) {
        TY* y = static_cast<TY*>(a.y) + (third + r) * a.y_stride;
        const TX* ahead = ahead_of(x + (row + r < end ? row + r : third + r) * a.x_stride);
        if constexpr (keep) {
          write<true>(static_cast<const C*>(kept + (turn * group + r) * pitch), gamma.data,
                      beta.data, y, n, now.factors[r], ahead, writer);
        } else {
          write<false>(x + (third + r) * a.x_stride, gamma.data, beta.data, y, n, now.factors[r],
                       ahead, writer);
        }
      }
      if (second >= begin) finish(a, second, rows_at(second), shares.all, before);
      for (int64_t r = 0; r < rows_at(row); ++r) now.centre[r] = centres[r];
    }
  }

  /// Rows of any length, a chunk of each stage at a time.
  static HWY_INLINE void long_rows(const ForwardArguments& a, int64_t begin, int64_t end,
                                   LineWriter<TY>* writer) {
    const Parameter<C> gamma(a.gamma, ones<C>.data()), beta(a.beta, zeros<C>.data());
    const auto step = [&](int64_t lag) { return Step(a.segments, begin, end, chunk, lag); };
    Step sample = step(0), deviation = step(1), output = step(a.segments.count + 1);
    const Shares of_segment(a.segments.length),
        of_last(a.cols - a.segments.begin(a.segments.count - 1));
    const W share = W(1) / static_cast<W>(a.cols);
    const auto x_at = [&](const Step& at, int64_t offset) {
      return static_cast<const TX*>(a.x) + at.row * a.x_stride + at.column + offset;
    };
    Sums sums[2] = {};
    Row rows[3] = {};
    for (; output.row < end; sample.advance(), deviation.advance(), output.advance()) {
      for (int64_t offset = 0; offset < a.segments.length; offset += chunk) {
        if (const Piece piece = sample.piece(offset)) {
          Sums& own = sums[sample.turn];
          Stages::add_sample(x_at(sample, offset), piece.n, offset == 0, own);
          if (piece.last)
            Stages::finish_sample(own, (sample.last_segment() ? of_last : of_segment).sample);
        }
        if (const Piece piece = deviation.piece(offset)) {
          Sums& own = sums[deviation.turn];
          Stages::add_deviations(x_at(deviation, offset), piece.n, offset == 0, own);
          if (piece.last) {
            Row& row = rows[deviation.ring];
            W mean, squares;
            Stages::finish_deviations(own, (deviation.last_segment() ? of_last : of_segment).all,
                                      &mean, &squares);
            if (deviation.first_segment()) row.mean = row.squares = 0;
            Stages::merge(a.segments, deviation.segment, mean, squares, &row.mean, &row.squares);
            if (deviation.last_segment())
              row.factors = finish(a, deviation.row, row.mean, row.squares, share, true);
          }
        }
        if (const Piece piece = output.piece(offset)) {
          const int64_t column = output.column + offset;
          write<false>(x_at(output, offset), gamma.at(column), beta.at(column),
                       static_cast<TY*>(a.y) + output.row * a.y_stride + column, piece.n,
                       rows[output.ring].factors,
                       ahead_of(sample.length > 0 ? x_at(sample, offset) : x_at(output, offset)),
                       writer);
        }
      }
    }
  }

  static void rows(const ForwardArguments& a, int64_t begin, int64_t end) {
    const bool one = a.cols <= short_row_of<TX>;
    if (!a.streaming) {
      return one ? short_rows(a, begin, end, nullptr) : long_rows(a, begin, end, nullptr);
    }
    LineWriter<TY> writer;
    return one ? short_rows(a, begin, end, &writer) : long_rows(a, begin, end, &writer);
  }

  /// The moments of a row's segments [begin, end), as run() would have them.
  static void moments(const ForwardArguments& a, int64_t row, int64_t begin, int64_t end,
                      Moments* out) {
    const TX* x = static_cast<const TX*>(a.x) + row * a.x_stride;
    for (int64_t s = begin; s < end; ++s) {
      const int64_t n = a.segments.end(s) - a.segments.begin(s);
      const TX* from = x + a.segments.begin(s);
      const Shares shares(n);
      Sums sums = {};
      for (int64_t offset = 0; offset < n;) {
        const int64_t piece = n - offset <= one_chunk ? n - offset : chunk;
        Stages::add_sample(from + offset, static_cast<size_t>(piece), offset == 0, sums);
        offset += piece;
      }
      Stages::finish_sample(sums, shares.sample);
      for (int64_t offset = 0; offset < n;) {
        const int64_t piece = n - offset <= one_chunk ? n - offset : chunk;
        Stages::add_deviations(from + offset, static_cast<size_t>(piece), offset == 0, sums);
        offset += piece;
      }
      W mean, squares;
      Stages::finish_deviations(sums, shares.all, &mean, &squares);
      out[s] = {static_cast<long double>(mean), static_cast<long double>(squares)};
    }
  }

  /// Segments [begin, end) of rows [row_begin, row_end), a chunk of all rows at a time.
  static void normalize_segments(const ForwardArguments& a, int64_t row_begin, int64_t row_end,
                                 int64_t begin, int64_t end, const Moments* moments) {
    const Parameter<C> gamma(a.gamma, ones<C>.data()), beta(a.beta, zeros<C>.data());
    constexpr int64_t most = policy::max_shared_rows;
    Factors factors[most];
    for (int64_t row = row_begin; row < row_end; ++row) {
      const Moments* of_row = moments + (row - row_begin) * a.segments.count;
      W mean = 0, squares = 0;
      for (int64_t s = 0; s < a.segments.count; ++s) {
        Stages::merge(a.segments, s, static_cast<W>(of_row[s].mean),
                      static_cast<W>(of_row[s].squares), &mean, &squares);
      }
      factors[row - row_begin] =
          finish(a, row, mean, squares, W(1) / static_cast<W>(a.cols), begin == 0);
    }
    HWY_ALIGN C expanded[2][max_chunk + 2 * Stages::max_lanes];
    LineWriter<TY> writers[most];
    const int64_t last = a.segments.end(end - 1);
    for (int64_t column = a.segments.begin(begin); column < last;) {
      const int64_t left = last - column;
      const int64_t n = left <= one_chunk ? left : chunk;
      const C *gamma_at = expanded[0], *beta_at = expanded[1];
      if (a.expand) {
        const auto skip = [&](const void* given) {
          return given ? static_cast<const char*>(given) + column * a.param_size : nullptr;
        };
        a.expand(skip(a.gamma), 1, n, expanded[0]);
        a.expand(skip(a.beta), 0, n, expanded[1]);
      } else {
        gamma_at = gamma.at(column);
        beta_at = beta.at(column);
      }
      for (int64_t row = row_begin; row < row_end; ++row) {
        write<false>(static_cast<const TX*>(a.x) + row * a.x_stride + column, gamma_at, beta_at,
                     static_cast<TY*>(a.y) + row * a.y_stride + column, static_cast<size_t>(n),
                     factors[row - row_begin],
                     ahead_of(static_cast<const TX*>(a.x) + row * a.x_stride + column),
                     a.streaming ? &writers[row - row_begin] : nullptr);
      }
      column += n;
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
