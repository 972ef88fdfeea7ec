// SPDX-License-Identifier: Apache-2.0
// The vectors that kernels compute in, and hints to compiler and cache. Included once per
// instruction set.
#if defined(FUSEDNORM_CPU_SIMD_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_SIMD_VECTORS_INL_H_
#undef FUSEDNORM_CPU_SIMD_VECTORS_INL_H_
#else
#define FUSEDNORM_CPU_SIMD_VECTORS_INL_H_
#endif

#include <cstdint>

#include "cpu/plan/segments.h"
#include "cpu/simd/element_types.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

// For lambdas of inner loops: an outlined one would pass its vectors through memory.
#undef FUSEDNORM_INLINE
#define FUSEDNORM_INLINE HWY_ATTR __attribute__((always_inline))

// Whether a vector is a register that an asm statement can name.
#undef FUSEDNORM_NAMES_REGISTERS
#if HWY_ARCH_X86 && (HWY_COMPILER_GCC || HWY_COMPILER_CLANG) && HWY_TARGET != HWY_SCALAR && \
    HWY_TARGET != HWY_EMU128
#define FUSEDNORM_NAMES_REGISTERS 1
#else
#define FUSEDNORM_NAMES_REGISTERS 0
#endif

// Around everything that is compiled once per instruction set, behind HWY_BEFORE_NAMESPACE(), whose
// pragma must stand on a line of its own: g++ 14 drops what follows it in a macro.
#undef FUSEDNORM_TARGET_BEGIN
#define FUSEDNORM_TARGET_BEGIN \
  namespace fusednorm::cpu {   \
  namespace HWY_NAMESPACE {    \
  namespace hn = hwy::HWY_NAMESPACE;
#undef FUSEDNORM_TARGET_END
#define FUSEDNORM_TARGET_END \
  } /* HWY_NAMESPACE */      \
  } /* fusednorm::cpu */     \
  HWY_AFTER_NAMESPACE();

HWY_BEFORE_NAMESPACE();
FUSEDNORM_TARGET_BEGIN

/// At most 64 bytes, so that segments end with a whole iteration of an unrolled loop.
template <typename C>
using Vectors = hn::CappedTag<C, 64 / sizeof(C)>;

/// How a segment is cut into chunks. They are shorter where vectors are short, for the error of a
/// sum of f32 grows with the additions that each lane makes. Decides bits.
template <typename C>
struct Chunk {
  static constexpr int64_t of_bytes = policy::chunk_bytes / int64_t{sizeof(C)};
  static constexpr int64_t whole = HWY_TARGET == HWY_SCALAR              ? segment_granule
                                   : hn::MaxLanes(Vectors<float>()) <= 4 ? of_bytes / 2
                                                                         : of_bytes;
  /// The last one of a segment takes up to a granule more, so that none is shorter than a vector.
  static constexpr int64_t longest = whole + segment_granule;

  /// The length of the next one where `left` columns of a segment are left.
  static constexpr int64_t next(int64_t left) { return left <= longest ? left : whole; }
};

template <class D>
HWY_INLINE hn::TFromD<D> sum_of_lanes(D d, hn::Vec<D> lanes) {
  return hn::GetLane(hn::SumOfLanes(d, lanes));
}

/// Stores the sum of a chunk, added to that of the chunks before it unless it is the `first`.
template <class D>
HWY_INLINE void add_chunk(D d, hn::Vec<D> chunk, bool first, hn::TFromD<D>* sums) {
  hn::Store(first ? chunk : hn::Add(hn::Load(d, sums), chunk), d, sums);
}

/// The vector, in a register: otherwise the compiler reloads it at each use, and loads limit these
/// loops (bf16 backward: 6 %).
template <class V>
HWY_INLINE V in_register(V vector) {
#if FUSEDNORM_NAMES_REGISTERS
  asm("" : "+v"(vector.raw));
#endif
  return vector;
}

/// The vector, not used before `earlier` is known: started too soon, its work takes registers, and
/// accumulators are spilled for it.
template <class V, class Earlier>
HWY_INLINE V after(V vector, [[maybe_unused]] Earlier earlier) {
#if FUSEDNORM_NAMES_REGISTERS
  asm("" : "+v"(vector.raw) : "v"(earlier.raw));
#endif
  return vector;
}

/// Prefetches the cache lines of `bytes` bytes. The address need not be valid.
HWY_INLINE void prefetch(const void* from, size_t bytes) {
  for (size_t i = 0; i < bytes; i += policy::cache_line)
    hwy::Prefetch(static_cast<const uint8_t*>(from) + i);
}

FUSEDNORM_TARGET_END
#endif
