// LayerNorm forward on one instruction set: exact two-pass moments a segment, Chan's merge, one
// elementwise pass. Included once per instruction set.
#if defined(FUSEDNORM_CPU_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_FORWARD_INL_H_
#undef FUSEDNORM_CPU_FORWARD_INL_H_
#else
#define FUSEDNORM_CPU_FORWARD_INL_H_
#endif

#include <cmath>

#include "cpu/elements-inl.h"
#include "cpu/line_writer-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fusednorm::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename TX, typename TP, typename TY>
struct Forward {
  using C = Compute<TX>;
  using W = Wide<C>;
  using D = hn::ScalableTag<C>;
  using V = hn::Vec<D>;

  /// A row's mean as an unevaluated sum centre + rest, so that x - mean is right to the last bit
  /// even where the mean is thousands of times the spread.
  struct Centre {
    C centre;
    C shift;  ///< -rest * rstd
    C rstd;
  };

  // Four accumulators hide the four cycles of an addition.
  static HWY_INLINE W sum(const TX* x, size_t n) {
    const D d;
    const size_t lanes = hn::Lanes(d);
    const Tail tail(n, lanes);
    V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    size_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
      s0 = hn::Add(s0, load(d, x + i));
      s1 = hn::Add(s1, load(d, x + i + lanes));
      s2 = hn::Add(s2, load(d, x + i + 2 * lanes));
      s3 = hn::Add(s3, load(d, x + i + 3 * lanes));
    }
    for (; i + lanes <= n; i += lanes) s0 = hn::Add(s0, load(d, x + i));
    if (tail.count) s1 = hn::Add(s1, tail.load_new(d, x + n));
    return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  }

  /// The first pass centres the second; what the centre's rounding left behind is taken out again.
  static HWY_INLINE void moments_of(const TX* x, size_t n, W* mean, W* squares) {
    const D d;
    const size_t lanes = hn::Lanes(d);
    const Tail tail(n, lanes);
    const C centre = static_cast<C>(sum(x, n) / static_cast<W>(n));
    const V c = hn::Set(d, centre);
    V s0 = hn::Zero(d), s1 = s0, q0 = s0, q1 = s0, q2 = s0, q3 = s0;
    size_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
      const V a0 = hn::Sub(load(d, x + i), c);
      const V a1 = hn::Sub(load(d, x + i + lanes), c);
      const V a2 = hn::Sub(load(d, x + i + 2 * lanes), c);
      const V a3 = hn::Sub(load(d, x + i + 3 * lanes), c);
      s0 = hn::Add(s0, hn::Add(a0, a1));
      s1 = hn::Add(s1, hn::Add(a2, a3));
      q0 = hn::MulAdd(a0, a0, q0);
      q1 = hn::MulAdd(a1, a1, q1);
      q2 = hn::MulAdd(a2, a2, q2);
      q3 = hn::MulAdd(a3, a3, q3);
    }
    for (; i + lanes <= n; i += lanes) {
      const V a = hn::Sub(load(d, x + i), c);
      s0 = hn::Add(s0, a);
      q0 = hn::MulAdd(a, a, q0);
    }
    if (tail.count) {
      const V a = tail.only_new(d, hn::Sub(tail.load_from(d, x + n), c));
      s1 = hn::Add(s1, a);
      q1 = hn::MulAdd(a, a, q1);
    }
    const W rest = hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1)));
    const W square = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(q0, q1), hn::Add(q2, q3))));
    const W offset = rest / static_cast<W>(n);
    *mean = static_cast<W>(centre) + offset;
    *squares = square - rest * offset;
  }

  static HWY_INLINE Centre finish(const ForwardArguments& a, int64_t row, W mean, W squares,
                                  bool store_statistics) {
    const W variance = squares > 0 || std::isnan(squares) ? squares / static_cast<W>(a.cols) : W(0);
    const W rstd = W(1) / std::sqrt(variance + static_cast<W>(a.eps));
    if (store_statistics) {
      if (a.mean) static_cast<C*>(a.mean)[row] = static_cast<C>(mean);
      if (a.rstd) static_cast<C*>(a.rstd)[row] = static_cast<C>(rstd);
    }
    const C centre = static_cast<C>(mean);
    return {centre, static_cast<C>((static_cast<W>(centre) - mean) * rstd), static_cast<C>(rstd)};
  }

  /// Chan's merge of segment `s` into the moments of the segments before it.
  static HWY_INLINE void merge(const Segments& segments, int64_t s, W part_mean, W part_squares,
                               W* mean, W* squares) {
    const W before = static_cast<W>(segments.begin(s));
    const W total = static_cast<W>(segments.end(s));
    const W delta = part_mean - *mean;
    const W share = (total - before) / total;
    *mean += delta * share;
    *squares += part_squares + delta * delta * before * share;
  }

  static HWY_INLINE void chunk(const TX* x, const TP* gamma, const TP* beta, TY* y, size_t n,
                               const Centre& row) {
    const D d;
    const size_t lanes = hn::Lanes(d);
    const Tail tail(n, lanes);
    const V centre = hn::Set(d, row.centre), shift = hn::Set(d, row.shift),
            rstd = hn::Set(d, row.rstd);
    const auto value = [&](V v, V g, V b) HWY_ATTR {
      return hn::MulAdd(hn::MulAdd(hn::Sub(v, centre), rstd, shift), g, b);
    };
    // Read before the loop writes, for y may be x.
    const V last = tail.count ? tail.load_from(d, x + n) : hn::Zero(d);
    size_t i = 0;
    for (; i + 2 * lanes <= n; i += 2 * lanes) {
      const V a = load(d, x + i), b = load(d, x + i + lanes);
      store(d, value(a, load(d, gamma + i), load(d, beta + i)), y + i);
      store(d, value(b, load(d, gamma + i + lanes), load(d, beta + i + lanes)), y + i + lanes);
    }
    for (; i + lanes <= n; i += lanes) {
      store(d, value(load(d, x + i), load(d, gamma + i), load(d, beta + i)), y + i);
    }
    if (tail.count) {
      tail.store_to(d, value(last, tail.load_from(d, gamma + n), tail.load_from(d, beta + n)),
                    y + n);
    }
  }

  /// Columns [begin, end) of a row, in steps that the constant arrays and the writer's buffer can
  /// hold.
  static HWY_INLINE void normalize_columns(const ForwardArguments& a, int64_t row, int64_t begin,
                                           int64_t end, const Centre& centre,
                                           LineWriter<TY>* writer) {
    const Parameter<TP> gamma(a.gamma, ones<TP>.data()), beta(a.beta, zeros<TP>.data());
    const TX* x = static_cast<const TX*>(a.x) + row * a.x_stride;
    TY* y = static_cast<TY*>(a.y) + row * a.y_stride;
    while (begin < end) {
      // The last step takes up to a granule more, so that it is never shorter than a vector.
      const int64_t left = end - begin;
      const int64_t n = left <= max_chunk ? left : max_chunk - segment_granule;
      TY* to = writer ? writer->begin(y + begin) : y + begin;
      chunk(x + begin, gamma.at(begin), beta.at(begin), to, static_cast<size_t>(n), centre);
      if (writer) writer->commit(static_cast<size_t>(n));
      begin += n;
    }
  }

  static void moments(const ForwardArguments& a, int64_t row, int64_t begin, int64_t end,
                      Moments* out) {
    const TX* x = static_cast<const TX*>(a.x) + row * a.x_stride;
    for (int64_t s = begin; s < end; ++s) {
      W mean, squares;
      moments_of(x + a.segments.begin(s),
                 static_cast<size_t>(a.segments.end(s) - a.segments.begin(s)), &mean, &squares);
      out[s] = {static_cast<long double>(mean), static_cast<long double>(squares)};
    }
  }

  static HWY_INLINE Centre statistics(const ForwardArguments& a, int64_t row) {
    if (HWY_LIKELY(a.segments.count == 1)) {
      W mean, squares;
      moments_of(static_cast<const TX*>(a.x) + row * a.x_stride, static_cast<size_t>(a.cols), &mean,
                 &squares);
      return finish(a, row, mean, squares, true);
    }
    const TX* x = static_cast<const TX*>(a.x) + row * a.x_stride;
    W mean = 0, squares = 0;
    for (int64_t s = 0; s < a.segments.count; ++s) {
      W part_mean, part_squares;
      moments_of(x + a.segments.begin(s),
                 static_cast<size_t>(a.segments.end(s) - a.segments.begin(s)), &part_mean,
                 &part_squares);
      merge(a.segments, s, part_mean, part_squares, &mean, &squares);
    }
    return finish(a, row, mean, squares, true);
  }

  static void rows(const ForwardArguments& a, int64_t row_begin, int64_t row_end) {
    if (!a.streaming) {
      for (int64_t row = row_begin; row < row_end; ++row) {
        normalize_columns(a, row, 0, a.cols, statistics(a, row), nullptr);
      }
      return;
    }
    LineWriter<TY> writer;
    for (int64_t row = row_begin; row < row_end; ++row) {
      normalize_columns(a, row, 0, a.cols, statistics(a, row), &writer);
    }
  }

  static void normalize(const ForwardArguments& a, int64_t row, int64_t begin, int64_t end,
                        const Moments* of_row) {
    W mean = 0, squares = 0;
    for (int64_t s = 0; s < a.segments.count; ++s) {
      merge(a.segments, s, static_cast<W>(of_row[s].mean), static_cast<W>(of_row[s].squares), &mean,
            &squares);
    }
    const Centre centre = finish(a, row, mean, squares, begin == 0);
    const int64_t first = a.segments.begin(begin), last = a.segments.end(end - 1);
    if (!a.streaming) return normalize_columns(a, row, first, last, centre, nullptr);
    LineWriter<TY> writer;
    normalize_columns(a, row, first, last, centre, &writer);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
