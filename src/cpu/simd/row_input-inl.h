// SPDX-License-Identifier: Apache-2.0
// Row input: the one place where kernels read x, dy and y. Included once per instruction set.
#if defined(FUSEDNORM_CPU_SIMD_ROW_INPUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_SIMD_ROW_INPUT_INL_H_
#undef FUSEDNORM_CPU_SIMD_ROW_INPUT_INL_H_
#else
#define FUSEDNORM_CPU_SIMD_ROW_INPUT_INL_H_
#endif

#include "cpu/simd/tails-inl.h"

HWY_BEFORE_NAMESPACE();
FUSEDNORM_TARGET_BEGIN

/// A row, or what follows a column of it.
template <class L, typename T>
struct RowInput {
  using Element = T;
  const T* first;

  /// An array of rows, at one of them.
  static HWY_INLINE RowInput of(const void* array, int64_t row, int64_t stride) {
    return {static_cast<const T*>(array) + row * stride};
  }
  /// The same where only prefetches go, with a stride in bytes.
  static HWY_INLINE RowInput beyond(const void* array, int64_t row, int64_t stride) {
    return {
        reinterpret_cast<const T*>(reinterpret_cast<uintptr_t>(array) +
                                   static_cast<uintptr_t>(row) * static_cast<uintptr_t>(stride))};
  }
  HWY_INLINE RowInput at(int64_t column) const { return {first + column}; }

  /// The step at column i, for L::part().
  HWY_INLINE auto load(size_t i) const { return L::load(first + i); }
  HWY_INLINE auto load(const Tail<L>& tail) const { return tail.load(first); }
  /// One element, of a dtype that is its own compute type.
  HWY_INLINE T element(size_t i) const { return first[i]; }

  /// Another place in the array, or past its end: for prefetch alone.
  HWY_INLINE RowInput later(int64_t columns, int64_t rows, int64_t stride) const {
    const uintptr_t elements = static_cast<uintptr_t>(columns) +
                               static_cast<uintptr_t>(rows) * static_cast<uintptr_t>(stride);
    return {reinterpret_cast<const T*>(reinterpret_cast<uintptr_t>(first) + elements * sizeof(T))};
  }
  /// As far ahead as memory needs to answer, or somewhere else: for prefetch alone.
  HWY_INLINE RowInput ahead(int64_t bytes = policy::prefetch_bytes) const {
    return later(bytes / int64_t{sizeof(T)}, 0, 0);
  }
  /// `count` elements from column i on.
  HWY_INLINE void prefetch(size_t i, size_t count) const {
    HWY_NAMESPACE::prefetch(first + i, count * sizeof(T));
  }
};

FUSEDNORM_TARGET_END
#endif
