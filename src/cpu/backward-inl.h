// LayerNorm backward on one instruction set: two sums a row, then one pass that yields dx and adds
// to the column sums while the row is still in the cache. Included once per instruction set.
#if defined(FUSEDNORM_CPU_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_BACKWARD_INL_H_
#undef FUSEDNORM_CPU_BACKWARD_INL_H_
#else
#define FUSEDNORM_CPU_BACKWARD_INL_H_
#endif

#include "cpu/elements-inl.h"
#include "cpu/line_writer-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fusednorm::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename TX, typename TP, typename TY, bool from_y>
struct Backward {
  using C = Compute<TX>;
  using W = Wide<C>;
  using D = hn::ScalableTag<C>;
  using V = hn::Vec<D>;
  using TS = std::conditional_t<from_y, TY, TX>;  // of the array that xhat is known from

  /// The row as the elementwise pass sees it: dx = rstd * g + constant + slope * xhat.
  struct Factors {
    C mean;
    C rstd;
    C constant;
    C slope;
  };

  struct Pieces {
    const TY* dy;
    const TS* source;
    const TP* gamma;
    const TP* beta;
  };

  static HWY_INLINE C mean_of(const BackwardArguments& a, int64_t row) {
    return from_y ? C(0) : static_cast<const C*>(a.mean)[row];
  }

  static HWY_INLINE Pieces pieces(const BackwardArguments& a, int64_t row, int64_t column) {
    const Parameter<TP> gamma(a.gamma, ones<TP>.data()), beta(a.beta, zeros<TP>.data());
    return {static_cast<const TY*>(a.dy) + row * a.dy_stride + column,
            static_cast<const TS*>(a.source) + row * a.source_stride + column, gamma.at(column),
            beta.at(column)};
  }

  /// g_xhat sums g * (x - mean), to be scaled by rstd, or dy * (y - beta), in which gamma cancels.
  template <class Load>
  static HWY_INLINE void accumulate(const Load& load_at, V mean, V& g_sum, V& weighted_sum) {
    V dy, source, gamma, beta;
    load_at(dy, source, gamma, beta);
    const V g = hn::Mul(dy, gamma);
    g_sum = hn::Add(g_sum, g);
    if constexpr (from_y)
      weighted_sum = hn::MulAdd(dy, hn::Sub(source, beta), weighted_sum);
    else
      weighted_sum = hn::MulAdd(g, hn::Sub(source, mean), weighted_sum);
  }

  static HWY_INLINE void sum_chunk(const Pieces& p, size_t n, V mean, V (&g)[4], V (&w)[4]) {
    const D d;
    const size_t lanes = hn::Lanes(d);
    const Tail tail(n, lanes);
    const auto at = [&](size_t i) HWY_ATTR {
      return [&p, i](V& dy, V& source, V& gamma, V& beta) HWY_ATTR {
        const D tag;
        dy = load(tag, p.dy + i);
        source = load(tag, p.source + i);
        gamma = load(tag, p.gamma + i);
        beta = from_y ? load(tag, p.beta + i) : hn::Zero(tag);
      };
    };
    size_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
      accumulate(at(i), mean, g[0], w[0]);
      accumulate(at(i + lanes), mean, g[1], w[1]);
      accumulate(at(i + 2 * lanes), mean, g[2], w[2]);
      accumulate(at(i + 3 * lanes), mean, g[3], w[3]);
    }
    for (; i + lanes <= n; i += lanes) accumulate(at(i), mean, g[0], w[0]);
    if (tail.count) {
      // dy is zero in the lanes that were counted before; so is everything summed, unless source is
      // not finite there, hence the second mask.
      const auto last = [&](V& dy, V& source, V& gamma, V& beta) HWY_ATTR {
        dy = tail.load_new(d, p.dy + n);
        source = tail.load_new(d, p.source + n);
        gamma = tail.load_new(d, p.gamma + n);
        beta = from_y ? tail.load_new(d, p.beta + n) : hn::Zero(d);
      };
      accumulate(last, from_y ? mean : tail.only_new(d, mean), g[1], w[1]);
    }
  }

  static HWY_INLINE void sums_of(const BackwardArguments& a, int64_t row, int64_t begin,
                                 int64_t end, W* g_sum, W* g_xhat_sum) {
    const D d;
    const V mean = hn::Set(d, mean_of(a, row));
    V g[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    V w[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    while (begin < end) {
      const int64_t left = end - begin;
      const int64_t n = left <= max_chunk ? left : max_chunk - segment_granule;
      sum_chunk(pieces(a, row, begin), static_cast<size_t>(n), mean, g, w);
      begin += n;
    }
    const W scale = from_y ? W(1) : static_cast<W>(static_cast<const C*>(a.rstd)[row]);
    *g_sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(g[0], g[1]), hn::Add(g[2], g[3]))));
    *g_xhat_sum =
        scale * hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(w[0], w[1]), hn::Add(w[2], w[3]))));
  }

  static HWY_INLINE Factors factors(const BackwardArguments& a, int64_t row, W g_sum,
                                    W g_xhat_sum) {
    const C rstd = static_cast<const C*>(a.rstd)[row];
    const W scale = -static_cast<W>(rstd) / static_cast<W>(a.cols);
    return {mean_of(a, row), rstd, static_cast<C>(scale * g_sum),
            static_cast<C>(scale * g_xhat_sum)};
  }

  template <bool want_dx, bool want_sums>
  static HWY_INLINE void chunk(const Pieces& p, TX* dx, C* dgamma, C* dbeta, size_t n,
                               const Factors& f) {
    const D d;
    const size_t lanes = hn::Lanes(d);
    const Tail tail(n, lanes);
    const V mean = hn::Set(d, f.mean), rstd = hn::Set(d, f.rstd);
    const V constant = hn::Set(d, f.constant), slope = hn::Set(d, f.slope);
    const auto normalized = [&](V source, V gamma, V beta) HWY_ATTR {
      if constexpr (from_y)
        return hn::Div(hn::Sub(source, beta), gamma);
      else
        return hn::Mul(hn::Sub(source, mean), rstd);
    };
    const auto gradient = [&](V dy, V xhat, V gamma) HWY_ATTR {
      return hn::MulAdd(xhat, slope, hn::MulAdd(hn::Mul(dy, gamma), rstd, constant));
    };
    // Read before the loop writes, for dx may be dy or the source.
    const V last_dy = tail.count ? tail.load_from(d, p.dy + n) : hn::Zero(d);
    const V last_source = tail.count ? tail.load_from(d, p.source + n) : hn::Zero(d);
    for (size_t i = 0; i + lanes <= n; i += lanes) {
      const V dy = load(d, p.dy + i), gamma = load(d, p.gamma + i);
      const V beta = from_y ? load(d, p.beta + i) : hn::Zero(d);
      const V xhat = normalized(load(d, p.source + i), gamma, beta);
      if constexpr (want_sums) {
        hn::StoreU(hn::MulAdd(dy, xhat, hn::LoadU(d, dgamma + i)), d, dgamma + i);
        hn::StoreU(hn::Add(dy, hn::LoadU(d, dbeta + i)), d, dbeta + i);
      }
      if constexpr (want_dx) store(d, gradient(dy, xhat, gamma), dx + i);
    }
    if (tail.count) {
      const V gamma = tail.load_from(d, p.gamma + n);
      const V beta = from_y ? tail.load_from(d, p.beta + n) : hn::Zero(d);
      const V xhat = normalized(last_source, gamma, beta);
      if constexpr (want_sums) {
        const V dy = tail.only_new(d, last_dy), new_xhat = tail.only_new(d, xhat);
        tail.store_to(d, hn::MulAdd(dy, new_xhat, tail.load_from(d, dgamma + n)), dgamma + n);
        tail.store_to(d, hn::Add(dy, tail.load_from(d, dbeta + n)), dbeta + n);
      }
      if constexpr (want_dx) tail.store_to(d, gradient(last_dy, xhat, gamma), dx + n);
    }
  }

  /// Columns [begin, end) of a row; `sums` point at column `begin`.
  template <bool want_dx, bool want_sums>
  static HWY_INLINE void columns(const BackwardArguments& a, int64_t row, int64_t begin,
                                 int64_t end, const Factors& f, ColumnSums sums,
                                 LineWriter<TX>* writer) {
    C* dgamma = static_cast<C*>(sums.dgamma);
    C* dbeta = static_cast<C*>(sums.dbeta);
    TX* dx = want_dx ? static_cast<TX*>(a.dx) + row * a.dx_stride : nullptr;
    for (int64_t column = begin; column < end;) {
      const int64_t left = end - column;
      const int64_t n = left <= max_chunk ? left : max_chunk - segment_granule;
      TX* to = !want_dx ? nullptr : writer ? writer->begin(dx + column) : dx + column;
      chunk<want_dx, want_sums>(
          pieces(a, row, column), to, want_sums ? dgamma + (column - begin) : nullptr,
          want_sums ? dbeta + (column - begin) : nullptr, static_cast<size_t>(n), f);
      if (want_dx && writer) writer->commit(static_cast<size_t>(n));
      column += n;
    }
  }

  template <bool want_dx, bool want_sums>
  static HWY_INLINE void rows_with(const BackwardArguments& a, int64_t row_begin, int64_t row_end,
                                   ColumnSums sums, LineWriter<TX>* writer) {
    for (int64_t row = row_begin; row < row_end; ++row) {
      W g_sum = 0, g_xhat_sum = 0;
      for (int64_t s = 0; want_dx && s < a.segments.count; ++s) {
        W g, g_xhat;
        sums_of(a, row, a.segments.begin(s), a.segments.end(s), &g, &g_xhat);
        g_sum += g;
        g_xhat_sum += g_xhat;
      }
      columns<want_dx, want_sums>(a, row, 0, a.cols, factors(a, row, g_sum, g_xhat_sum), sums,
                                  writer);
    }
  }

  static void rows(const BackwardArguments& a, int64_t row_begin, int64_t row_end,
                   ColumnSums sums) {
    if (!a.dx) return rows_with<false, true>(a, row_begin, row_end, sums, nullptr);
    if (!a.streaming) {
      return sums.dgamma ? rows_with<true, true>(a, row_begin, row_end, sums, nullptr)
                         : rows_with<true, false>(a, row_begin, row_end, sums, nullptr);
    }
    LineWriter<TX> writer;
    return sums.dgamma ? rows_with<true, true>(a, row_begin, row_end, sums, &writer)
                       : rows_with<true, false>(a, row_begin, row_end, sums, &writer);
  }

  static void sums(const BackwardArguments& a, int64_t row, int64_t begin, int64_t end,
                   GradientSums* out) {
    for (int64_t s = begin; s < end; ++s) {
      W g, g_xhat;
      sums_of(a, row, a.segments.begin(s), a.segments.end(s), &g, &g_xhat);
      out[s] = {static_cast<long double>(g), static_cast<long double>(g_xhat)};
    }
  }

  static GradientSums merge(const GradientSums* parts, int64_t count) {
    W g = 0, g_xhat = 0;
    for (int64_t s = 0; s < count; ++s) {
      g += static_cast<W>(parts[s].g);
      g_xhat += static_cast<W>(parts[s].g_xhat);
    }
    return {static_cast<long double>(g), static_cast<long double>(g_xhat)};
  }

  static void segment(const BackwardArguments& a, int64_t row, int64_t s,
                      const GradientSums& of_row, ColumnSums sums) {
    const Factors f = factors(a, row, static_cast<W>(of_row.g), static_cast<W>(of_row.g_xhat));
    const int64_t begin = a.segments.begin(s), end = a.segments.end(s);
    if (!a.dx) return columns<false, true>(a, row, begin, end, f, sums, nullptr);
    if (!a.streaming) {
      return sums.dgamma ? columns<true, true>(a, row, begin, end, f, sums, nullptr)
                         : columns<true, false>(a, row, begin, end, f, sums, nullptr);
    }
    LineWriter<TX> writer;
    return sums.dgamma ? columns<true, true>(a, row, begin, end, f, sums, &writer)
                       : columns<true, false>(a, row, begin, end, f, sums, &writer);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
