// Lines: which part of a row goes past the cache in whole lines, and what is left for ordinary
// stores. Included once per instruction set.
#if defined(FUSEDNORM_CPU_LINES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_LINES_INL_H_
#undef FUSEDNORM_CPU_LINES_INL_H_
#else
#define FUSEDNORM_CPU_LINES_INL_H_
#endif

#include "cpu/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fusednorm::cpu {
namespace HWY_NAMESPACE {

/// Where lines of a row that is written past the cache begin and end. What is before and after goes
/// out with ordinary stores, for its lines belong to other rows, too: whole packs, so it is nothing
/// or at least a pack.
template <typename T>
struct Lines {
  static constexpr size_t line = 64 / sizeof(T);
  size_t begin;
  size_t end;

  HWY_INLINE Lines(const T* row, size_t n, size_t step) : begin(static_cast<size_t>(before(row))) {
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

  /// body(i) for the packs at columns i that cover what is before `begin` and after `end`. Where
  /// they overlap they write the same again.
  template <class Body>
  HWY_INLINE void each_edge(size_t n, size_t step, const Body& body) const {
    for (size_t i = begin > 0 ? 0 : end; HWY_UNLIKELY(i < n);) {
      const size_t last = (i < begin ? begin : n) - step;
      body(i < last ? i : last);
      i += step;
      if (i >= begin && i < end) i = end;
    }
  }

  /// Elements from the start of a row to its first whole line.
  static HWY_INLINE int64_t before(const T* row) {
    return static_cast<int64_t>((0 - reinterpret_cast<uintptr_t>(row)) % 64 / sizeof(T));
  }
  /// Whether n elements have a line, or at least a pack, of their own.
  static HWY_INLINE bool fit(const T* row, int64_t n) {
    return n >= segment_granule || (before(row) == 0 && n % int64_t{line} == 0);
  }
  /// Whether all rows do.
  static HWY_INLINE bool fit(const T* rows, int64_t stride, int64_t n) {
    return n >= segment_granule || (fit(rows, n) && stride % int64_t{line} == 0);
  }
  /// The line that `row` shares with the row before, and what goes with it into ordinary stores.
  static HWY_INLINE void prefetch_edges(const T* row, size_t step) {
    const auto elements = static_cast<size_t>(before(row));
    if (elements == 0) return;
    hwy::Prefetch(row);
    if (elements < step) hwy::Prefetch(row + line);
    if (line - elements < step) hwy::Prefetch(row - line);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
