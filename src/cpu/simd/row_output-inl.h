// SPDX-License-Identifier: Apache-2.0
// Row output: the one place where kernels write y and dx. Included once per instruction set.
#if defined(FUSEDNORM_CPU_SIMD_ROW_OUTPUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_SIMD_ROW_OUTPUT_INL_H_
#undef FUSEDNORM_CPU_SIMD_ROW_OUTPUT_INL_H_
#else
#define FUSEDNORM_CPU_SIMD_ROW_OUTPUT_INL_H_
#endif

#include "cpu/simd/cache_lines-inl.h"
#include "cpu/simd/tails-inl.h"

HWY_BEFORE_NAMESPACE();
FUSEDNORM_TARGET_BEGIN

/// A row, or what follows a column of it.
template <class L, typename T>
struct RowOutput {
  using Element = T;
  using Lines = CacheLines<T>;
  static constexpr bool can_bypass = L::template streams<T>;
  /// How a row is written that should not stay in the cache.
  static constexpr Cache past = can_bypass ? Cache::bypass : Cache::keep;
  T* first;

  static HWY_INLINE RowOutput of(void* array, int64_t row, int64_t stride) {
    return {static_cast<T*>(array) + row * stride};
  }
  HWY_INLINE RowOutput at(int64_t column) const { return {first + column}; }

  /// Stores the step at column i whose part k is part_of(Part<k>()).
  template <Cache cache, class PartOf>
  HWY_INLINE void store(size_t i, const PartOf& part_of) const {
    L::template store<cache>(first + i, part_of);
  }
  template <class PartOf>
  HWY_INLINE void store(const Tail<L>& tail, const PartOf& part_of) const {
    tail.store(first, part_of);
  }

  HWY_INLINE Lines lines(size_t n) const { return Lines(first, n, L::step()); }
  /// Columns before the first whole cache line.
  HWY_INLINE int64_t head() const { return Lines::head(first); }
  HWY_INLINE bool fits_lines(size_t n) const { return Lines::fit(first, static_cast<int64_t>(n)); }
  /// For a row that will be written past the cache, `rows` later.
  HWY_INLINE void prefetch_head(int64_t rows, int64_t stride) const {
    Lines::prefetch_head(first + rows * stride, L::step());
  }
};

FUSEDNORM_TARGET_END
#endif
