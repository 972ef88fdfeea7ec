// SPDX-License-Identifier: Apache-2.0
// The sums pass of backward: a row's sums of g and g * xhat, and its terms of the column sums.
// Included once per instruction set.
#if defined(FUSEDNORM_CPU_KERNELS_GRADIENT_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_KERNELS_GRADIENT_SUMS_INL_H_
#undef FUSEDNORM_CPU_KERNELS_GRADIENT_SUMS_INL_H_
#else
#define FUSEDNORM_CPU_KERNELS_GRADIENT_SUMS_INL_H_
#endif

#include "cpu/kernels/backward_types-inl.h"

HWY_BEFORE_NAMESPACE();
FUSEDNORM_TARGET_BEGIN

/// The tail of a row. It comes before the whole steps: its column sums lie across theirs, and a
/// vector that is read across two pending stores waits for both (no store-to-load forwarding).
template <class B, bool columns>
HWY_INLINE void add_tail(const SumRow<B>& f, const Tail<typename B::Lanes>& tail,
                         typename B::V mean, typename B::V rstd, typename B::V& g,
                         typename B::V& w) {
  using L = typename B::Lanes;
  using V = typename B::V;
  const typename B::D d;
  const auto dy_step = f.in.dy.load(tail);
  const auto source_step = f.in.source.load(tail);
  const auto sums = f.columns.at(static_cast<int64_t>(tail.begin));
  L::each_part([&](auto k) FUSEDNORM_INLINE {
    V second = mean, dgamma = mean, dbeta = mean;
    if constexpr (B::from_y) second = f.in.beta.vector(tail, k);
    if constexpr (columns) {
      dgamma = hn::LoadU(d, L::address(sums.dgamma, 0, k));
      dbeta = hn::LoadU(d, L::address(sums.dbeta, 0, k));
    }
    const V old = dgamma;
    // Every term is zero in lanes that are counted elsewhere, also where they hold Inf or NaN.
    add_terms<B, columns>(tail.only_new(L::part(dy_step, k), k),
                          tail.only_new(L::part(source_step, k), k),
                          tail.only_new(f.in.gamma.vector(tail, k), k), tail.only_new(second, k),
                          tail.only_new(rstd, k), g, w, dgamma, dbeta);
    if constexpr (columns) {
      hn::StoreU(tail.only_new(dgamma, old, k), d, L::address(sums.dgamma, 0, k));
      hn::StoreU(dbeta, d, L::address(sums.dbeta, 0, k));
    }
  });
}

/// The step at column i of row 0 and, if `two`, of row 1: gamma and the column sums are loaded and
/// stored once for both. In pairs the odd part waits for the even one, whose registers it needs.
template <class B, bool columns, bool two>
HWY_INLINE void add_step(const SumRow<B>& row0, [[maybe_unused]] const SumRow<B>& row1, size_t i,
                         typename B::V mean0, typename B::V rstd0,
                         [[maybe_unused]] typename B::V mean1, [[maybe_unused]] typename B::V rstd1,
                         typename B::V& g0, typename B::V& w0, typename B::V& g1,
                         typename B::V& w1) {
  using L = typename B::Lanes;
  using V = typename B::V;
  const typename B::D d;
  auto dy0 = row0.in.dy.load(i), dy1 = row1.in.dy.load(i);
  auto source0 = row0.in.source.load(i), source1 = row1.in.source.load(i);
  L::each_part([&](auto k) FUSEDNORM_INLINE {
    if constexpr (k == 1) {
      dy0 = after(dy0, w0);
      source0 = after(source0, w0);
      dy1 = after(dy1, w1);
      source1 = after(source1, w1);
    }
    const V gamma = row0.in.gamma.vector(i, k);
    V beta = gamma, dgamma = gamma, dbeta = gamma;
    if constexpr (B::from_y) beta = row0.in.beta.vector(i, k);
    if constexpr (columns) {
      dgamma = hn::LoadU(d, L::address(row0.columns.dgamma, i, k));
      dbeta = hn::LoadU(d, L::address(row0.columns.dbeta, i, k));
    }
    add_terms<B, columns>(L::part(dy0, k), L::part(source0, k), gamma, B::from_y ? beta : mean0,
                          rstd0, g0, w0, dgamma, dbeta);
    if constexpr (two)
      add_terms<B, columns>(L::part(dy1, k), L::part(source1, k), gamma, B::from_y ? beta : mean1,
                            rstd1, g1, w1, dgamma, dbeta);
    if constexpr (columns) {
      hn::StoreU(dgamma, d, L::address(row0.columns.dgamma, i, k));
      hn::StoreU(dbeta, d, L::address(row0.columns.dbeta, i, k));
    }
  });
}

/// Sums of a segment on its way through its chunks.
template <class B>
struct GradientLanes {
  static constexpr size_t max_lanes = hn::MaxLanes(typename B::D());
  HWY_ALIGN typename B::C g[max_lanes];
  HWY_ALIGN typename B::C weighted[max_lanes];

  HWY_INLINE void add(typename B::V chunk_g, typename B::V chunk_weighted, bool first) {
    const typename B::D d;
    add_chunk(d, chunk_g, first, g);
    add_chunk(d, chunk_weighted, first, weighted);
  }
  HWY_INLINE typename B::Totals totals() const {
    const typename B::D d;
    return {total<B>(hn::Load(d, g)), total<B>(hn::Load(d, weighted))};
  }
};

/// The sums of a chunk, or of a row where only column sums are wanted; prefetches `ahead`.
template <class B, bool columns>
HWY_INLINE void sum_one_row(const SumRow<B>& f, typename B::Gradient ahead_dy,
                            typename B::Source ahead_source, typename B::V& g,
                            typename B::V& weighted) {
  using V = typename B::V;
  const typename B::D d;
  const size_t step = B::Lanes::step(), two = 2 * step;
  const V mean = hn::Set(d, f.row.mean), rstd = hn::Set(d, f.row.rstd);
  const Tail<typename B::Lanes> tail(f.n);
  V g0 = hn::Zero(d), g1 = g0, w0 = g0, w1 = g0;
  if (tail.count) add_tail<B, columns>(f, tail, mean, rstd, g0, w0);
  const auto add = [&](size_t i, V& g_sum, V& w_sum) FUSEDNORM_INLINE {
    add_step<B, columns, false>(f, f, i, mean, rstd, mean, rstd, g_sum, w_sum, g_sum, w_sum);
  };
  const size_t whole = f.n - tail.count;
  size_t i = 0;
  for (; i + two <= whole; i += two) {
    ahead_dy.prefetch(i, two);
    ahead_source.prefetch(i, two);
    add(i, g0, w0);
    add(i + step, g1, w1);
  }
  if (i < whole) add(i, g0, w0);
  g = hn::Add(g0, g1);
  weighted = hn::Add(w0, w1);
}

/// What the sums pass prefetches, if not null.
template <class B>
struct Ahead {
  typename B::Gradient dy = {};
  typename B::Source source = {};
};

/// The sums of one row or two. A row's sums do not depend on the other row, nor do those of
/// columns, which grow row by row either way. One register a sum, for two rows take all there are.
template <class B, bool two, bool columns>
HWY_INLINE void sum_rows(SumRow<B> row0, SumRow<B> row1, Ahead<B> ahead0, Ahead<B> ahead1,
                         typename B::V& row_g0, typename B::V& row_w0, typename B::V& row_g1,
                         typename B::V& row_w1) {
  using C = typename B::C;
  using V = typename B::V;
  const typename B::D d;
  const size_t step = B::Lanes::step(), line = HWY_MAX(step, B::Output::Lines::line);
  const V mean0 = hn::Set(d, row0.row.mean), rstd0 = hn::Set(d, row0.row.rstd),
          mean1 = hn::Set(d, row1.row.mean), rstd1 = hn::Set(d, row1.row.rstd);
  V g0 = hn::Zero(d), w0 = g0, g1 = g0, w1 = g0;
  row_g0 = row_w0 = row_g1 = row_w1 = hn::Set(d, empty_sum<C>);
  const Tail<typename B::Lanes> tail(row0.n);
  if (tail.count) {
    add_tail<B, columns>(row0, tail, mean0, rstd0, g0, w0);
    if constexpr (two) add_tail<B, columns>(row1, tail, mean1, rstd1, g1, w1);
  }
  const auto add = [&](size_t i) FUSEDNORM_INLINE {
    add_step<B, columns, two>(row0, row1, i, mean0, rstd0, mean1, rstd1, g0, w0, g1, w1);
  };
  for (size_t i = 0, end = 0; end < row0.n;) {
    end += static_cast<size_t>(Chunk<C>::next(static_cast<int64_t>(row0.n - end)));
    if (ahead0.dy.first) {
      for (; i + line <= end; i += line) {
        ahead0.dy.prefetch(i, line);
        if constexpr (two) ahead1.dy.prefetch(i, line);
        if (ahead0.source.first) {
          ahead0.source.prefetch(i, line);
          if constexpr (two) ahead1.source.prefetch(i, line);
        }
        for (size_t k = 0; k < line; k += step) add(i + k);
      }
    }
    for (; i + step <= end; i += step) add(i);
    // Chains of additions end with a chunk.
    row_g0 = hn::Add(row_g0, g0);
    row_w0 = hn::Add(row_w0, w0);
    row_g1 = hn::Add(row_g1, g1);
    row_w1 = hn::Add(row_w1, w1);
    g0 = w0 = g1 = w1 = hn::Zero(d);
  }
}

// A chunk of two rows, or of one, added to their sums. Arguments by value: an object whose address
// is known is reloaded after every store.

template <class B, bool columns>
HWY_NOINLINE void sum_two_chunks(SumRow<B> row0, SumRow<B> row1, Ahead<B> ahead0, Ahead<B> ahead1,
                                 bool starts, GradientLanes<B>* sums) {
  typename B::V g0, w0, g1, w1;
  sum_rows<B, true, columns>(row0, row1, ahead0, ahead1, g0, w0, g1, w1);
  sums[0].add(g0, w0, starts);
  sums[1].add(g1, w1, starts);
}
template <class B, bool columns>
HWY_NOINLINE void sum_one_chunk(SumRow<B> row, Ahead<B> ahead, bool starts,
                                GradientLanes<B>* sums) {
  typename B::V g, w, none_g, none_w;
  if constexpr (B::sixteen_bit)
    sum_rows<B, false, columns>(row, row, ahead, ahead, g, w, none_g, none_w);
  else
    sum_one_row<B, columns>(row, ahead.dy, ahead.source, g, w);
  sums->add(g, w, starts);
}

/// A chunk of rows that follow each other.
template <class B>
struct RowBlock {
  Operands<B> in;  ///< of the first row
  size_t n;
  const Statistics<B>* statistics;
  int64_t rows;
  int64_t dy_stride;
  int64_t source_stride;
  ColumnSlice<B> columns;
  bool wants_columns;
  Ahead<B> next;  ///< the block that follows; null where the dx pass prefetches it

  HWY_INLINE SumRow<B> row(int64_t r) const {
    return {{in.dy.at(r * dy_stride), in.source.at(r * source_stride), in.gamma, in.beta},
            n,
            statistics[r],
            columns};
  }
  /// The row that is summed `distance` rows after row r: of this block, or of the next.
  HWY_INLINE Ahead<B> ahead(int64_t r, int64_t distance) const {
    const int64_t beyond = r + distance - rows, rows_on = beyond < 0 ? r + distance : beyond;
    Ahead<B> out;
    if (next.dy.first) out.dy = (beyond < 0 ? in.dy : next.dy).later(0, rows_on, dy_stride);
    if (next.source.first)
      out.source = (beyond < 0 ? in.source : next.source).later(0, rows_on, source_stride);
    return out;
  }

  /// Adds to the column sums, and to sums[r] of row r, or sets them if this chunk `starts` them.
  void sum(bool starts, GradientLanes<B>* sums) const {
    const auto one = wants_columns ? &sum_one_chunk<B, true> : &sum_one_chunk<B, false>;
    if constexpr (B::sixteen_bit) {
      const auto both = wants_columns ? &sum_two_chunks<B, true> : &sum_two_chunks<B, false>;
      const int64_t distance = std::min<int64_t>(2, rows);
      int64_t r = 0;
      for (; r + 1 < rows; r += 2)
        both(row(r), row(r + 1), ahead(r, distance), ahead(r + 1, distance), starts, sums + r);
      if (r < rows) one(row(r), ahead(r, distance), starts, sums + r);
    } else {
      for (int64_t r = 0; r < rows; ++r) one(row(r), ahead(r, 1), starts, sums + r);
    }
  }
};

FUSEDNORM_TARGET_END
#endif
