// SPDX-License-Identifier: Apache-2.0
// Backward of f32 and f64 rows: one loop takes the sums pass of a row and the dx pass of the row
// before it, two steps of each at a time, so that reads, column sums and streaming stores are
// spread evenly. In separate loops the stores of column sums queue behind a burst of streaming
// stores: 0.73 of a copy instead of 0.89 at 768 columns. Included once per instruction set.
#if defined(FUSEDNORM_CPU_KERNELS_FUSED_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_KERNELS_FUSED_BACKWARD_INL_H_
#undef FUSEDNORM_CPU_KERNELS_FUSED_BACKWARD_INL_H_
#else
#define FUSEDNORM_CPU_KERNELS_FUSED_BACKWARD_INL_H_
#endif

#include "cpu/kernels/cursor.h"
#include "cpu/kernels/dx_pass-inl.h"
#include "cpu/kernels/gradient_sums-inl.h"

HWY_BEFORE_NAMESPACE();
FUSEDNORM_TARGET_BEGIN

/// Where a row's chains of additions end: with its chunks, in segments.
struct Chains {
  size_t segment = 0;     ///< columns of a segment
  size_t last_chunk = 0;  ///< where the row's last chunk begins, of which the tail is part
};

/// A row of ds that is added to dx, and prefetched from its own address: no register more.
template <class B>
struct RowOfDs {
  RowInput<typename B::Lanes, typename B::Output::Element> ds;
  static HWY_INLINE RowOfDs of(const BackwardArguments& a, int64_t row) {
    return {decltype(ds)::of(a.ds, row, a.ds_stride)};
  }
  HWY_INLINE RowOfDs at(int64_t column) const { return {ds.at(column)}; }
  template <class Where>
  HWY_INLINE auto load(const Where& where) const {
    return ds.load(where);
  }
  HWY_INLINE void prefetch_next(size_t i, size_t count) const {
    ds.at(static_cast<int64_t>(i)).ahead().prefetch(0, count);
  }
};

/// The sums of row `f` and dx of row `w`; either may have no columns. Neither depends on the other.
/// The sums are those of f's last segment, lane by lane; segments before it are added to `before`.
template <class B, bool columns, bool several_chunks, Cache cache, class Addend>
HWY_INLINE void sum_and_write(const SumRow<B>& f, const Chains& chains, const WriteRow<B>& w,
                              Addend addend, typename B::V& g_sum, typename B::V& w_sum,
                              typename B::Totals& before) {
  using C = typename B::C;
  using L = typename B::Lanes;
  using V = typename B::V;
  static_assert(2 * L::max_step <= size_t{segment_granule},
                "chunks end with an iteration of the loop");
  const typename B::D d;
  const size_t step = L::step(), two = 2 * step;
  const V mean = hn::Set(d, f.row.mean), rstd = hn::Set(d, f.row.rstd);
  V g0 = hn::Zero(d), g1 = g0, w0 = g0, w1 = g0;
  const Tail<L> own_tail(f.n - chains.last_chunk);
  if (own_tail.count) {
    const auto column = static_cast<int64_t>(chains.last_chunk);
    add_tail<B, columns>({f.in.at(column), f.n - chains.last_chunk, f.row, f.columns.at(column)},
                         own_tail, mean, rstd, g0, w0);
  }
  // The chain of the last chunk begins with the tail.
  const V tail_g = g0, tail_w = w0;
  const auto add_one = [&](size_t i, V& g, V& weighted) FUSEDNORM_INLINE {
    add_step<B, columns, false>(f, f, i, mean, rstd, mean, rstd, g, weighted, g, weighted);
  };
  const auto add_two = [&](size_t i) FUSEDNORM_INLINE {
    add_one(i, g0, w0);
    add_one(i + step, g1, w1);
  };
  size_t segment_end = several_chunks ? HWY_MIN(chains.segment, f.n) : f.n, chunk_end = f.n;
  g_sum = w_sum = hn::Set(d, empty_sum<C>);
  const auto begin_chain = [&](size_t i) FUSEDNORM_INLINE {
    chunk_end = i + static_cast<size_t>(Chunk<C>::next(static_cast<int64_t>(segment_end - i)));
    const bool last = chunk_end == f.n;
    g0 = last ? tail_g : hn::Zero(d);
    w0 = last ? tail_w : hn::Zero(d);
    g1 = w1 = hn::Zero(d);
  };
  const auto end_chain = [&]() FUSEDNORM_INLINE {
    const V g = hn::Add(g0, g1), weighted = hn::Add(w0, w1);
    g_sum = several_chunks ? hn::Add(g_sum, g) : g;
    w_sum = several_chunks ? hn::Add(w_sum, weighted) : weighted;
  };
  if constexpr (several_chunks) begin_chain(0);
  const Tail<L> tail(w.n);
  const auto last_dy = w.in.dy.load(tail);
  const auto last_source = w.in.source.load(tail);
  const auto last_added = addend.load(tail);
  const DxRange<B, cache> range(w);
  const Operands<B> in = w.in.at(static_cast<int64_t>(range.begin));
  const auto dx = w.dx.at(static_cast<int64_t>(range.begin));
  const Addend added = addend.at(static_cast<int64_t>(range.begin));
  const size_t count = range.end - range.begin, summed = f.n - own_tail.count;
  size_t i = 0, j = 0;
  for (;;) {
    const size_t stop = several_chunks ? HWY_MIN(chunk_end, summed) : summed;
    // Sums lead by two iterations. 4 KiB aliasing: where rows are multiples of 4 KiB, the load of a
    // sum would falsely match the store of dx that was just issued.
    for (; i < range.begin + 2 * two && i + two <= stop; i += two) add_two(i);
    for (; i + two <= stop && j + two <= count; i += two, j += two) {
      add_two(i);
      // From f's own addresses: there is no register left for others, and a spilled one would queue
      // behind the streaming stores.
      f.in.dy.at(static_cast<int64_t>(i)).ahead().prefetch(0, two);
      f.in.source.at(static_cast<int64_t>(i)).ahead().prefetch(0, two);
      added.prefetch_next(j, two);
      write_two<B, cache>(in, dx, j, w.row, added);
    }
    for (; i + two <= stop; i += two) add_two(i);
    if (!several_chunks || chunk_end == f.n) break;
    end_chain();
    if (i == segment_end) {
      before.g += total<B>(g_sum);
      before.g_xhat += total<B>(w_sum);
      g_sum = w_sum = hn::Set(d, empty_sum<C>);
      segment_end = HWY_MIN(segment_end + chains.segment, f.n);
    }
    begin_chain(i);
  }
  if (i < summed) add_one(i, g0, w0);
  end_chain();
  write_rest<B, cache>(w, range, j, tail, last_dy, last_source, addend, last_added);
}

/// Rows of any length, with dx. All in registers: a store, even to the stack, queues behind the
/// streaming stores.
template <class B, bool columns, bool several_chunks, Cache cache, class Addend>
HWY_NOINLINE void fused_rows(const BackwardArguments& a, int64_t begin, int64_t end,
                             ColumnSums sums) {
  using W = typename B::W;
  const auto of_columns = ColumnSlice<B>::of(sums, a.cols, 0);
  const Operation operation = a.operation;
  const W share = W(1) / static_cast<W>(a.cols);
  const auto n = static_cast<size_t>(a.cols), segment = static_cast<size_t>(a.segments.length);
  const size_t last_chunk =
      several_chunks ? static_cast<size_t>(last_chunk_of(a.segments, Chunk<typename B::C>::whole))
                     : 0;
  const int64_t dy_stride = a.dy_stride, source_stride = a.source_stride, dx_stride = a.dx_stride;
  Operands<B> next = operands<B>(a, begin, 0), now = next;
  auto dx = B::Output::of(a.dx, begin, dx_stride);
  GradientFactors<B> factors = {};
  // The first iteration writes nothing, and the last sums nothing.
  for (int64_t row = begin - 1; row < end; ++row) {
    const bool more = row + 1 < end, writes = row >= begin;
    const Statistics<B> own = statistics<B>(a, more ? row + 1 : row);
    if (cache == Cache::bypass)
      dx.prefetch_head(writes ? policy::head_rows_ahead : policy::head_rows_ahead - 1, dx_stride);
    typename B::V g, weighted;
    typename B::Totals of_row = {empty_sum<W>, empty_sum<W>};
    sum_and_write<B, columns, several_chunks, cache>(
        {next, more ? n : 0, own, of_columns}, {segment, more ? last_chunk : 0},
        {now, dx, writes ? n : 0, factors, next.dy.ahead(), next.source.ahead()},
        Addend::of(a, writes ? row : begin), g, weighted, of_row);
    if constexpr (several_chunks)
      of_row = {of_row.g + total<B>(g), of_row.g_xhat + total<B>(weighted)};
    else
      of_row = {total<B>(g), total<B>(weighted)};
    factors = make_factors<B>(operation, own, share, of_row);
    now = next;
    next.dy = next.dy.at(dy_stride);
    next.source = next.source.at(source_stride);
    if (writes) dx = dx.at(dx_stride);
  }
}

/// Without dx: dgamma and dbeta alone.
template <class B>
HWY_NOINLINE void column_rows(const BackwardArguments& a, int64_t begin, int64_t end,
                              ColumnSums sums) {
  const auto of_columns = ColumnSlice<B>::of(sums, a.cols, 0);
  for (int64_t row = begin; row < end; ++row) {
    const auto in = operands<B>(a, row, 0);
    typename B::V g, weighted;
    sum_one_row<B, true>({in, static_cast<size_t>(a.cols), statistics<B>(a, row), of_columns},
                         in.dy.ahead(), in.source.ahead(), g, weighted);
  }
}

/// Rows of f32 and f64. One chunk alone is a quarter faster at 64 columns.
template <class B, bool columns, Cache cache>
void wide_element_rows(const BackwardArguments& a, int64_t begin, int64_t end, ColumnSums sums) {
  if (!a.dx) return column_rows<B>(a, begin, end, sums);
  const bool one_chunk = a.cols <= Chunk<typename B::C>::longest;
  if constexpr (columns && !B::from_y) {
    if (a.ds)
      return one_chunk ? fused_rows<B, true, false, cache, RowOfDs<B>>(a, begin, end, sums)
                       : fused_rows<B, true, true, cache, RowOfDs<B>>(a, begin, end, sums);
  }
  if (one_chunk)
    fused_rows<B, columns, false, cache, NoAddend>(a, begin, end, sums);
  else
    fused_rows<B, columns, true, cache, NoAddend>(a, begin, end, sums);
}

FUSEDNORM_TARGET_END
#endif
