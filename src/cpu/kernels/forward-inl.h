// SPDX-License-Identifier: Apache-2.0
// Forward of whole rows: the statistics pass of the next rows runs between the two passes of these,
// so that memory never waits for arithmetic. Included once per instruction set.
#if defined(FUSEDNORM_CPU_KERNELS_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_KERNELS_FORWARD_INL_H_
#undef FUSEDNORM_CPU_KERNELS_FORWARD_INL_H_
#else
#define FUSEDNORM_CPU_KERNELS_FORWARD_INL_H_
#endif

#include "cpu/kernels/cursor.h"
#include "cpu/kernels/narrow_rows-inl.h"

HWY_BEFORE_NAMESPACE();
FUSEDNORM_TARGET_BEGIN

/// Rows that are taken whole. The next row is summed before this one is written, so that the
/// latency from sums to rstd passes while other work runs. All in registers: a store, even to the
/// stack, queues behind the streaming stores.
template <class F, Cache cache, bool adds>
HWY_NOINLINE void short_rows(const ForwardArguments& a, int64_t begin, int64_t end) {
  using C = typename F::C;
  using W = typename F::W;
  const Parameter<typename F::Lanes> gamma(a.gamma, ones<C>.data(), a.cols),
      beta(a.beta, zeros<C>.data(), a.cols);
  const int64_t y_stride = a.y_stride;
  const Operation operation = a.operation;
  const auto n = static_cast<size_t>(a.cols);
  const W share = W(1) / static_cast<W>(a.cols);
  const WholeRows<F, adds> rows(a);
  auto y = F::Output::of(a.y, begin, y_stride);
  C sum, squares, next_sum = 0, next_squares = 0;
  const auto sum_next = [&](int64_t row, C* own_sum, C* own_squares) FUSEDNORM_INLINE {
    rows.make(row, 1);
    sum_row<F>(rows.at(row), n, own_sum, own_squares);
  };
  sum_next(begin, &sum, &squares);
  for (int64_t row = begin; row < end; ++row, y = y.at(y_stride)) {
    if (HWY_LIKELY(row + 1 < end)) sum_next(row + 1, &next_sum, &next_squares);
    const auto x = rows.at(row);
    const auto factors = finish_row<F>(
        a, row, moments_of<F>(operation, x, a.cols, sum, squares, share), share, true);
    if (cache == Cache::bypass) y.prefetch_head(policy::head_rows_ahead, y_stride);
    write<F, cache>(x, gamma.all, beta.all, y, n, factors, rows.ahead(row + 2), a.roundings);
    sum = next_sum;
    squares = next_squares;
  }
}

/// The statistics pass over rows of any length, chunk by chunk.
template <class F>
struct ChunkedStatistics {
  using W = typename F::W;
  const ForwardArguments& a;
  const WholeRows<F, false> rows;
  W share, of_segment, of_last;  ///< one over the columns of a row, a segment, the last segment
  SegmentSums<F> sums = {};
  typename F::Moments all = {};

  explicit HWY_INLINE ChunkedStatistics(const ForwardArguments& arguments)
      : a(arguments),
        rows(arguments),
        share(W(1) / static_cast<W>(a.cols)),
        of_segment(W(1) / static_cast<W>(a.segments.length)),
        of_last(W(1) / static_cast<W>(a.cols - a.segments.begin(a.segments.count - 1))) {}

  HWY_INLINE typename F::Input input(const Cursor& at) const {
    return rows.at(at.row).at(at.column);
  }

  /// Takes the chunk at the cursor; sets `factors` after the last one of a row.
  HWY_INLINE void take(const Cursor& at, Factors<F>& factors) {
    sums.template add<false>(input(at), static_cast<size_t>(at.length), 0, at.first);
    if (!at.last) return;
    const int64_t first = a.segments.begin(at.segment), end = a.segments.end(at.segment);
    if (at.first_segment()) all = {};
    norms::merge<W>(all, static_cast<W>(first),
                    moments_of<F>(a.operation, input(at).at(first - at.column), end - first,
                                  sums.total(sums.sum), sums.total(sums.squares),
                                  at.last_segment() ? of_last : of_segment),
                    static_cast<W>(end));
    if (at.last_segment()) factors = finish_row<F>(a, at.row, all, share, true);
  }
};

/// Rows of any length, a chunk of each pass at a time: the write pass is a row behind.
template <class F, Cache cache, class Q>
HWY_NOINLINE void long_rows(const ForwardArguments& a, int64_t begin, int64_t end, Q gamma,
                            Q beta) {
  constexpr int64_t chunk = Chunk<typename F::C>::whole;
  ChunkedStatistics<F> statistics(a);
  Cursor reads(a.segments, chunk, begin), writes = reads;
  Factors<F> factors = {};
  for (int64_t wait = chunks_of(a.segments, chunk) - 1; writes.row < end; --wait) {
    if (reads.row < end) {
      statistics.take(reads, factors);
      reads.advance();
    }
    if (wait > 0) continue;
    const auto x = statistics.rows.at(writes.row);
    const auto y = F::Output::of(a.y, writes.row, a.y_stride);
    const Span span(writes, cache == Cache::bypass ? y.head() : 0);
    if (cache == Cache::bypass && span.begin == 0) y.prefetch_head(1, a.y_stride);
    write<F, cache>(x.at(span.begin), gamma.at(span.begin), beta.at(span.begin), y.at(span.begin),
                    static_cast<size_t>(span.end - span.begin), factors,
                    statistics.rows.ahead(reads.row).at(reads.column), a.roundings);
    writes.advance();
  }
}

/// Columns of rows that are taken whole. Threads never share such rows, which are of one segment:
/// their sums may end otherwise than those of chunks.
template <class F>
inline constexpr int64_t longest_whole = HWY_MAX(Chunk<typename F::C>::longest,
                                                 policy::chunk_bytes /
                                                     int64_t{sizeof(typename F::Input::Element)});

/// Columns of rows between whose passes the add pass of the next one runs. With that pass rows move
/// in four streams, which memory likes best when none is far ahead of the others: 10 to 20 % over
/// tiles of 32 KiB.
template <class F>
inline constexpr int64_t longest_added =
    F::Output::can_bypass&& HWY_TARGET != HWY_SCALAR ? longest_whole<F> : 0;

template <class F, Cache cache, bool adds>
HWY_INLINE void whole_rows(const ForwardArguments& a, int64_t begin, int64_t end) {
  if constexpr (can_finish_together<F>) {
    if (a.cols <= policy::narrow_bytes / int64_t{sizeof(typename F::Input::Element)})
      return narrow_rows<F, cache, adds>(a, begin, end);
  }
  short_rows<F, cache, adds>(a, begin, end);
}

template <class F, Cache cache>
HWY_INLINE void rows_of_any_length(const ForwardArguments& a, int64_t begin, int64_t end) {
  using L = typename F::Lanes;
  using C = typename F::C;
  using X = typename F::Input::Element;
  static_assert(
      longest_whole<F> <= policy::max_constants && longest_whole<F> <= max_segment(dtype_of<C>),
      "constants are as long, and so is a segment");
  if (HWY_TARGET != HWY_SCALAR && a.cols <= longest_whole<F>)
    return whole_rows<F, cache, false>(a, begin, end);
  if constexpr (F::sixteen_bit) {
    if (a.as_given)
      return long_rows<F, cache>(a, begin, end, Given<L, X>{static_cast<const X*>(a.gamma)},
                                 Given<L, X>{static_cast<const X*>(a.beta)});
  }
  long_rows<F, cache>(a, begin, end, Parameter<L>(a.gamma, ones<C>.data(), a.cols),
                      Parameter<L>(a.beta, zeros<C>.data(), a.cols));
}

template <class F>
void forward_rows(const ForwardArguments& a, int64_t begin, int64_t end) {
  if constexpr (longest_added < F >> 0) {
    if (a.add) return whole_rows<F, Cache::bypass, true>(a, begin, end);
  }
  if (F::Output::can_bypass && a.streaming)
    rows_of_any_length<F, Cache::bypass>(a, begin, end);
  else
    rows_of_any_length<F, Cache::keep>(a, begin, end);
}

FUSEDNORM_TARGET_END
#endif
