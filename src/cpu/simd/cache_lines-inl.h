// SPDX-License-Identifier: Apache-2.0
// Whole cache lines of a row, which streaming stores write, and the unaligned head and tail, which
// ordinary stores write. Included once per instruction set.
#if defined(FUSEDNORM_CPU_SIMD_CACHE_LINES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_SIMD_CACHE_LINES_INL_H_
#undef FUSEDNORM_CPU_SIMD_CACHE_LINES_INL_H_
#else
#define FUSEDNORM_CPU_SIMD_CACHE_LINES_INL_H_
#endif

#include "cpu/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
FUSEDNORM_TARGET_BEGIN

/// [begin, end) are whole cache lines. Head and tail are empty or at least a step long, so that
/// they are written in whole steps.
template <typename T>
struct CacheLines {
  static constexpr size_t line = policy::cache_line / sizeof(T);
  size_t begin;
  size_t end;

  HWY_INLINE CacheLines(const T* row, size_t n, size_t step)
      : begin(static_cast<size_t>(head(row))) {
    // A short row may end before its first line begins.
    if (HWY_UNLIKELY(begin > 0 && n < 4 * line)) {
      begin = end = n;
      return;
    }
    if (begin > 0 && begin < step) begin += line;
    const size_t rest = (n - begin) % line;
    end = n - rest;
    if (rest > 0 && rest < step) end -= line;
  }

  /// body(i) for steps at columns i that cover head and tail. Where two overlap they write the same
  /// values twice.
  template <class Body>
  HWY_INLINE void each_unaligned(size_t n, size_t step, const Body& body) const {
    for (size_t i = begin > 0 ? 0 : end; HWY_UNLIKELY(i < n);) {
      const size_t last = (i < begin ? begin : n) - step;
      body(i < last ? i : last);
      i += step;
      if (i >= begin && i < end) i = end;
    }
  }

  /// Elements before the row's first whole line.
  static HWY_INLINE int64_t head(const T* row) {
    return static_cast<int64_t>((0 - reinterpret_cast<uintptr_t>(row)) % policy::cache_line /
                                sizeof(T));
  }
  /// Whether n elements can be written so: none of them, or a step at least, is unaligned.
  static HWY_INLINE bool fit(const T* row, int64_t n) {
    return n >= segment_granule || (head(row) == 0 && n % int64_t{line} == 0);
  }
  /// Whether all rows can.
  static HWY_INLINE bool fit(const T* rows, int64_t stride, int64_t n) {
    return n >= segment_granule || (fit(rows, n) && stride % int64_t{line} == 0);
  }
  /// Prefetches the lines that the head of `row` and the tail of the row before it share.
  static HWY_INLINE void prefetch_head(const T* row, size_t step) {
    const auto elements = static_cast<size_t>(head(row));
    if (elements == 0) return;
    hwy::Prefetch(row);
    if (elements < step) hwy::Prefetch(row + line);
    if (line - elements < step) hwy::Prefetch(row - line);
  }
};

FUSEDNORM_TARGET_END
#endif
