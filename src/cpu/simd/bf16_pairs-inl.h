// SPDX-License-Identifier: Apache-2.0
// bf16 pairs: the layout of bf16, where x and y both are. Included once per instruction set.
//
// A register of 16-bit elements becomes a vector of its even and one of its odd elements with a
// shift and a mask: 2 instructions, where 4 would bring them in order. Packing is as cheap. Arrays
// of the compute type that go with the columns hold first all even columns, then all odd ones.
#if defined(FUSEDNORM_CPU_SIMD_BF16_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_SIMD_BF16_PAIRS_INL_H_
#undef FUSEDNORM_CPU_SIMD_BF16_PAIRS_INL_H_
#else
#define FUSEDNORM_CPU_SIMD_BF16_PAIRS_INL_H_
#endif

#include <limits>

#include "cpu/simd/elements-inl.h"

HWY_BEFORE_NAMESPACE();
FUSEDNORM_TARGET_BEGIN

#if HWY_TARGET != HWY_SCALAR
/// Part 0 of a step are its even elements, part 1 the odd ones.
template <class D>
struct Bf16Pairs {
  using Tag = D;
  using V = hn::Vec<D>;
  using C = hn::TFromD<D>;
  using Bits = hn::RebindToUnsigned<D>;
  using Halves = hn::Repartition<uint16_t, D>;
  using Step = hn::Vec<Bits>;
  static constexpr size_t parts = 2;
  static constexpr size_t max_step = 2 * hn::MaxLanes(D());
  static HWY_INLINE size_t step() { return 2 * hn::Lanes(D()); }

  template <typename T>
  static constexpr bool streams = max_step * sizeof(T) <= policy::cache_line;

  static HWY_INLINE Step load(const BFloat16* from) {
    return in_register(
        hn::BitCast(Bits(), hn::LoadU(Halves(), reinterpret_cast<const uint16_t*>(from))));
  }
  static HWY_INLINE V part(Step step, Part<0>) { return hn::BitCast(D(), hn::ShiftLeft<16>(step)); }
  static HWY_INLINE V part(Step step, Part<1>) {
    return hn::BitCast(D(), hn::And(step, hn::Set(Bits(), 0xffff0000u)));
  }

  template <class Body>
  static HWY_INLINE void each_part(const Body& body) {
    body(Part<0>());
    body(Part<1>());
  }

  /// To nearest even in 8 instructions: the kept half of an element grows by one when its lost
  /// half, less one where the kept half is even, reaches 0x8000. A NaN with bits in its lost half
  /// could overflow into a number. None gets here: bf16 has no bits there, and NaNs among
  /// parameters and statistics are canonicalised where they are read.
  static HWY_INLINE hn::Vec<Halves> rounded(V even_values, V odd_values) {
    const Halves halves;
    const auto even = hn::BitCast(Bits(), even_values), odd = hn::BitCast(Bits(), odd_values);
    const auto kept =
        hn::OddEven(hn::BitCast(halves, odd), hn::BitCast(halves, hn::ShiftRight<16>(even)));
    const auto lost =
        hn::OddEven(hn::BitCast(halves, hn::ShiftLeft<16>(odd)), hn::BitCast(halves, even));
    const auto is_even = hn::AndNot(kept, hn::Set(halves, uint16_t{1}));
    return hn::Add(kept, hn::ShiftRight<15>(hn::SaturatedSub(lost, is_even)));
  }
  /// A part, rounded to `dtype`, which is bf16 or f32. No NaN needs care, as above.
  static HWY_INLINE V narrowed(V value, DType dtype) {
    if (dtype != DType::bf16) return value;
    const auto rounded = rounded_upper_half(D(), value);
    return hn::BitCast(D(), hn::And(rounded, hn::Set(Bits(), 0xffff0000u)));
  }
  template <Cache cache, class PartOf>
  static HWY_INLINE void store(BFloat16* to, const PartOf& part_of) {
    const V even = part_of(Part<0>()), odd = part_of(Part<1>());
    auto* address = reinterpret_cast<uint16_t*>(to);
    if constexpr (cache == Cache::bypass)
      hn::Stream(rounded(even, odd), Halves(), address);
    else
      hn::StoreU(rounded(even, odd), Halves(), address);
  }
  /// Column sums of f32 parameters, back in the order of memory.
  template <Cache cache, class PartOf>
  static HWY_INLINE void store(float* to, const PartOf& part_of) {
    static_assert(cache == Cache::keep, "two vectors are no single streaming store");
    const D d;
    HWY_ALIGN float even[hn::MaxLanes(D())], odd[hn::MaxLanes(D())];
    hn::Store(part_of(Part<0>()), d, even);
    hn::Store(part_of(Part<1>()), d, odd);
    for (size_t lane = 0; lane < hn::Lanes(d); ++lane) {
      to[2 * lane] = even[lane];
      to[2 * lane + 1] = odd[lane];
    }
  }

  static constexpr size_t lanes_of(size_t n, Part<0>) { return (n + 1) / 2; }
  static constexpr size_t lanes_of(size_t n, Part<1>) { return n / 2; }

  /// From an odd column on, even and odd change places: a step may begin at any column.
  template <typename Q>
  struct Columns {
    Q* even;
    Q* odd;
    HWY_INLINE Columns at(int64_t column) const {
      const int64_t half = column / 2;
      return column % 2 == 0 ? Columns{even + half, odd + half}
                             : Columns{odd + half, even + half + 1};
    }
  };
  template <typename Q>
  static HWY_INLINE Columns<Q> columns(Q* array, int64_t count) {
    return {array, array + policy::odd_columns(count)};
  }
  /// i is even: i / 2 floats are i times 2 bytes, so that one register indexes rows and columns.
  template <size_t k, typename Q>
  static HWY_INLINE Q* address(Columns<Q> all, size_t i, Part<k>) {
    using Byte = std::conditional_t<std::is_const_v<Q>, const uint8_t, uint8_t>;
    Q* half = k == 0 ? all.even : all.odd;
    return reinterpret_cast<Q*>(reinterpret_cast<Byte*>(half) + i * sizeof(BFloat16));
  }

  // A step of a parameter, for part() below.
  static HWY_INLINE Step load_parameter(const BFloat16* from) { return load(from); }
  static HWY_INLINE const float* load_parameter(const float* from) { return from; }
  /// NaNs are canonicalised: rounding to bf16 could turn their payload into a number.
  template <size_t k>
  static HWY_INLINE V part(const float* from, Part<k>) {
    const D d;
    const V lower = hn::LoadU(d, from), upper = hn::LoadU(d, from + hn::Lanes(d));
    const V value = k == 0 ? hn::ConcatEven(d, upper, lower) : hn::ConcatOdd(d, upper, lower);
    return hn::IfThenElse(hn::IsNaN(value), hn::Set(d, std::numeric_limits<float>::quiet_NaN()),
                          value);
  }
};

template <class D, typename TX, typename TY>
using Lanes = std::conditional_t<std::is_same_v<TX, BFloat16> && std::is_same_v<TY, BFloat16>,
                                 Bf16Pairs<D>, InOrder<D>>;
#else
template <class D, typename TX, typename TY>
using Lanes = InOrder<D>;
#endif

/// Whether kernels of these element types compute in pairs.
template <class L>
inline constexpr bool in_pairs = L::parts == 2;

FUSEDNORM_TARGET_END
#endif
