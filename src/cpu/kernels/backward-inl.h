// SPDX-License-Identifier: Apache-2.0
// Backward of whole rows, and of rows that threads share. Included once per instruction set.
#if defined(FUSEDNORM_CPU_KERNELS_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_KERNELS_BACKWARD_INL_H_
#undef FUSEDNORM_CPU_KERNELS_BACKWARD_INL_H_
#else
#define FUSEDNORM_CPU_KERNELS_BACKWARD_INL_H_
#endif

#include "cpu/kernels/fused_backward-inl.h"
#include "cpu/kernels/head_rows-inl.h"
#include "cpu/kernels/two_row_backward-inl.h"

HWY_BEFORE_NAMESPACE();
FUSEDNORM_TARGET_BEGIN

template <class B, bool columns, Cache cache>
void rows_by_size(const BackwardArguments& a, int64_t begin, int64_t end, ColumnSums sums) {
  if constexpr (B::sixteen_bit)
    narrow_element_rows<B, columns, cache>(a, begin, end, sums);
  else
    wide_element_rows<B, columns, cache>(a, begin, end, sums);
}

template <class B, Cache cache>
void rows_by_sums(const BackwardArguments& a, int64_t begin, int64_t end, ColumnSums sums) {
  if (sums.dgamma)
    rows_by_size<B, true, cache>(a, begin, end, sums);
  else
    rows_by_size<B, false, cache>(a, begin, end, sums);
}

template <class B>
void backward_rows(const BackwardArguments& a, int64_t begin, int64_t end, ColumnSums sums) {
  if (bypasses<B>(a))
    rows_by_sums<B, B::Output::past>(a, begin, end, sums);
  else
    rows_by_sums<B, Cache::keep>(a, begin, end, sums);
}

/// gamma and beta of a chunk where threads share rows, expanded here if need be.
template <class B>
struct ChunkParameters {
  using C = typename B::C;
  HWY_ALIGN C gamma[policy::room(Chunk<C>::longest)];
  HWY_ALIGN C beta[policy::room(Chunk<C>::longest)];

  HWY_INLINE void take(const BackwardArguments& a, int64_t column, int64_t n) {
    if (!a.expand) return;
    expand_chunk(a, a.gamma, a.gamma_offset, 1, column, n, gamma);
    if (B::from_y) expand_chunk(a, a.beta, 0, 0, column, n, beta);
  }
  HWY_INLINE Operands<B> at(const BackwardArguments& a, int64_t row, int64_t column,
                            int64_t n) const {
    using L = typename B::Lanes;
    if (!a.expand) return operands<B>(a, row, column);
    const C *own_gamma = gamma, *own_beta = beta;
    return {B::Gradient::of(a.dy, row, a.dy_stride).at(column),
            B::Source::of(a.source, row, a.source_stride).at(column),
            {L::columns(own_gamma, n)},
            {L::columns(own_beta, n)}};
  }
};

/// The sums of a segment of rows, as backward_rows() would have them.
template <class B>
void segment_sums(const BackwardArguments& a, int64_t row_begin, int64_t row_end, int64_t segment,
                  GradientSums* out, ColumnSums sums) {
  using C = typename B::C;
  const int64_t first = a.segments.begin(segment), last = a.segments.end(segment),
                count = row_end - row_begin;
  ChunkParameters<B> parameters;
  GradientLanes<B> partial[policy::max_shared_rows] = {};
  Statistics<B> own[policy::max_shared_rows];
  for (int64_t r = 0; r < count; ++r) own[r] = statistics<B>(a, row_begin + r);
  for (int64_t column = first, n; column < last; column += n) {
    n = Chunk<C>::next(last - column);
    parameters.take(a, column, n);
    const auto in = parameters.at(a, row_begin, column, n);
    RowBlock<B>{in,
                static_cast<size_t>(n),
                own,
                count,
                a.dy_stride,
                a.source_stride,
                ColumnSlice<B>::of(sums, last - first, column - first),
                sums.dgamma != nullptr,
                {in.dy.at(n), in.source.at(n)}}
        .sum(column == first, partial);
  }
  for (int64_t r = 0; r < count; ++r) {
    const auto of_row = partial[r].totals();
    out[r * a.segments.count + segment] = {static_cast<long double>(of_row.g),
                                           static_cast<long double>(of_row.g_xhat)};
  }
}

template <class B>
GradientSums merge_sums(const GradientSums* parts, int64_t count) {
  using W = typename B::W;
  W g = empty_sum<W>, g_xhat = empty_sum<W>;
  for (int64_t s = 0; s < count; ++s) {
    g += static_cast<W>(parts[s].g);
    g_xhat += static_cast<W>(parts[s].g_xhat);
  }
  return {static_cast<long double>(g), static_cast<long double>(g_xhat)};
}

template <class B>
void write_shared_dx(const BackwardArguments& a, int64_t row_begin, int64_t row_end,
                     int64_t segment, const GradientSums* of_rows) {
  using C = typename B::C;
  using W = typename B::W;
  const bool bypass = bypasses<B>(a);
  GradientFactors<B> factors[policy::max_shared_rows];
  for (int64_t row = row_begin; row < row_end; ++row) {
    const GradientSums& sums = of_rows[(row - row_begin) * a.segments.count];
    factors[row - row_begin] =
        make_factors<B>(a.operation, statistics<B>(a, row), W(1) / static_cast<W>(a.cols),
                        {static_cast<W>(sums.g), static_cast<W>(sums.g_xhat)});
  }
  ChunkParameters<B> parameters;
  const int64_t last = a.segments.end(segment);
  for (int64_t column = a.segments.begin(segment), n; column < last; column += n) {
    n = Chunk<C>::next(last - column);
    parameters.take(a, column, n);
    for (int64_t row = row_begin; row < row_end; ++row) {
      const auto in = parameters.at(a, row, column, n);
      // The next row, or the next chunk of all rows.
      const int64_t rows = row + 1 < row_end ? 1 : row_begin - row, columns = rows < 1 ? n : 0;
      write_dx_chunk<B>(
          {in, B::Output::of(a.dx, row, a.dx_stride).at(column), static_cast<size_t>(n),
           factors[row - row_begin], in.dy.later(columns, rows, a.dy_stride),
           in.source.later(columns, rows, a.source_stride)},
          addend_of<B>(a, row, column), bypass);
    }
  }
}

FUSEDNORM_TARGET_END
#endif
