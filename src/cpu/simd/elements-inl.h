// SPDX-License-Identifier: Apache-2.0
// Loads and stores of every element type as vectors of the compute type, with one rounding to
// nearest even at the store; lanes in the order of memory. Included once per instruction set.
#if defined(FUSEDNORM_CPU_SIMD_ELEMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_SIMD_ELEMENTS_INL_H_
#undef FUSEDNORM_CPU_SIMD_ELEMENTS_INL_H_
#else
#define FUSEDNORM_CPU_SIMD_ELEMENTS_INL_H_
#endif

#include "cpu/simd/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
FUSEDNORM_TARGET_BEGIN

template <class D>
HWY_INLINE hn::Vec<D> load_elements(D d, const hn::TFromD<D>* from) {
  return hn::LoadU(d, from);
}

template <class D>
HWY_INLINE hn::Vec<D> load_elements(D d, const BFloat16* from) {
  const hn::RebindToUnsigned<D> bits;
  const hn::Rebind<uint16_t, D> half;
  const auto raw = hn::LoadU(half, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(bits, raw)));
}

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_SSSE3
// No instruction converts f16 here, and Highway's own sequence truncates.

/// The exponent and mantissa, moved into place, are 2^112 too small, subnormal or not. All ones
/// stay all ones.
template <class D>
HWY_INLINE hn::Vec<D> load_elements(D d, const Float16* from) {
  const hn::RebindToUnsigned<D> bits;
  const hn::Rebind<uint16_t, D> half;
  const auto raw = hn::PromoteTo(bits, hn::LoadU(half, reinterpret_cast<const uint16_t*>(from)));
  const auto sign = hn::ShiftLeft<16>(hn::And(raw, hn::Set(bits, 0x8000u)));
  const auto rest = hn::And(raw, hn::Set(bits, 0x7fffu));
  const auto scaled = hn::Mul(hn::BitCast(d, hn::ShiftLeft<13>(rest)), hn::Set(d, 0x1p112f));
  const auto special = hn::BitCast(bits, hn::VecFromMask(d, hn::Ge(scaled, hn::Set(d, 65536.0f))));
  return hn::BitCast(d, hn::Or(hn::Or(sign, hn::BitCast(bits, scaled)),
                               hn::And(special, hn::Set(bits, 0x7f800000u))));
}

/// To nearest even. Below f16's normal numbers, adding 0.5 rounds to its smallest, 2^-24.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> bits_of_half(D d, hn::Vec<D> value) {
  const hn::RebindToUnsigned<D> bits;
  const auto raw = hn::BitCast(bits, value);
  const auto sign = hn::ShiftRight<16>(hn::And(raw, hn::Set(bits, 0x80000000u)));
  const auto size = hn::And(raw, hn::Set(bits, 0x7fffffffu));
  const auto magnitude = hn::BitCast(d, size);
  const auto odd = hn::And(hn::ShiftRight<13>(size), hn::Set(bits, 1u));
  const auto rounded = hn::Add(hn::Add(size, hn::Set(bits, 0xfffu)), odd);
  const auto normal = hn::ShiftRight<13>(hn::Sub(rounded, hn::Set(bits, 112u << 23)));
  const auto small =
      hn::Sub(hn::BitCast(bits, hn::Add(magnitude, hn::Set(d, 0.5f))), hn::Set(bits, 0x3f000000u));
  const auto pick = [&](auto mask, auto yes, auto no)
                        HWY_ATTR { return hn::IfThenElse(hn::RebindMask(bits, mask), yes, no); };
  auto result = pick(hn::Lt(magnitude, hn::Set(d, 0x1p-14f)), small, normal);
  result = pick(hn::Ge(magnitude, hn::Set(d, 65520.0f)), hn::Set(bits, 0x7c00u), result);
  result = pick(hn::IsNaN(value), hn::Set(bits, 0x7e00u), result);
  return hn::BitCast(hn::RebindToSigned<D>(), hn::Or(sign, result));
}

template <class D>
HWY_INLINE void store_elements(D d, hn::Vec<D> value, Float16* to) {
  const hn::Rebind<uint16_t, D> half;
  hn::StoreU(hn::DemoteTo(half, bits_of_half(d, value)), half, reinterpret_cast<uint16_t*>(to));
}

/// The nearest values that T can hold, in the compute type.
template <class D>
HWY_INLINE hn::Vec<D> narrowed_to(D d, hn::Vec<D> value, const Float16*) {
  HWY_ALIGN Float16 elements[hn::MaxLanes(D())];
  store_elements(d, value, elements);
  return load_elements(d, elements);
}
#else
template <class D>
HWY_INLINE hn::Vec<D> load_elements(D d, const Float16* from) {
  const hn::Rebind<hwy::float16_t, D> half;
  return hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(from)));
}

template <class D>
HWY_INLINE void store_elements(D, hn::Vec<D> value, Float16* to) {
  const hn::Rebind<hwy::float16_t, D> half;
  hn::StoreU(hn::DemoteTo(half, value), half, reinterpret_cast<hwy::float16_t*>(to));
}

/// The nearest values that T can hold, in the compute type.
template <class D>
HWY_INLINE hn::Vec<D> narrowed_to(D d, hn::Vec<D> value, const Float16*) {
  const hn::Rebind<hwy::float16_t, D> half;
  return hn::PromoteTo(d, hn::DemoteTo(half, value));
}
#endif

#if HWY_HAVE_FLOAT64
template <class D, std::enable_if_t<sizeof(hn::TFromD<D>) == 8>* = nullptr>
HWY_INLINE hn::Vec<D> load_elements(D d, const float* from) {
  const hn::Rebind<float, D> half;
  return hn::PromoteTo(d, hn::LoadU(half, from));
}
#endif

template <class D>
HWY_INLINE void store_elements(D d, hn::Vec<D> value, hn::TFromD<D>* to) {
  hn::StoreU(value, d, to);
}

/// To nearest even, in the upper half of each lane; NaNs must be canonical.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> rounded_upper_half(D, hn::Vec<D> value) {
  const hn::RebindToUnsigned<D> bits;
  const auto raw = hn::BitCast(bits, value);
  const auto odd = hn::And(hn::ShiftRight<16>(raw), hn::Set(bits, 1u));
  return hn::Add(hn::Add(raw, hn::Set(bits, 0x7fffu)), odd);
}

// Highway's own conversion truncates in old releases. Rounding carries into the upper half, which
// would turn some NaNs into infinities or zeros: NaNs are only made quiet.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> upper_half(D d, hn::Vec<D> value) {
  const hn::RebindToUnsigned<D> bits;
  const auto quiet = hn::Or(hn::BitCast(bits, value), hn::Set(bits, 0x00400000u));
  return hn::IfThenElse(hn::RebindMask(bits, hn::IsNaN(value)), quiet,
                        rounded_upper_half(d, value));
}

template <class D>
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, D>> bits_of_bf16(D d, hn::Vec<D> value) {
  const hn::RebindToSigned<D> signed_bits;
  const auto upper = hn::BitCast(signed_bits, hn::ShiftRight<16>(upper_half(d, value)));
  return hn::DemoteTo(hn::Rebind<uint16_t, D>(), upper);
}

template <class D>
HWY_INLINE void store_elements(D d, hn::Vec<D> value, BFloat16* to) {
  const hn::Rebind<uint16_t, D> half;
  hn::StoreU(bits_of_bf16(d, value), half, reinterpret_cast<uint16_t*>(to));
}

template <class D>
HWY_INLINE hn::Vec<D> narrowed_to(D d, hn::Vec<D> value, const BFloat16*) {
  const hn::RebindToUnsigned<D> bits;
  return hn::BitCast(d, hn::And(upper_half(d, value), hn::Set(bits, 0xffff0000u)));
}

#if HWY_HAVE_FLOAT64
template <class D, std::enable_if_t<sizeof(hn::TFromD<D>) == 8>* = nullptr>
HWY_INLINE void store_elements(D, hn::Vec<D> value, float* to) {
  const hn::Rebind<float, D> half;
  hn::StoreU(hn::DemoteTo(half, value), half, to);
}

template <class D, std::enable_if_t<sizeof(hn::TFromD<D>) == 8>* = nullptr>
HWY_INLINE hn::Vec<D> narrowed_to(D d, hn::Vec<D> value, const float*) {
  return hn::PromoteTo(d, hn::DemoteTo(hn::Rebind<float, D>(), value));
}
#endif

/// Rounded to `dtype`, in the compute type; any dtype that is no narrower than that leaves it.
template <class D>
HWY_INLINE hn::Vec<D> narrowed(D d, hn::Vec<D> value, DType dtype) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
#if HWY_HAVE_FLOAT64
    if (dtype == DType::f32) return narrowed_to(d, value, static_cast<const float*>(nullptr));
#endif
  } else {
    if (dtype == DType::f16) return narrowed_to(d, value, static_cast<const Float16*>(nullptr));
    if (dtype == DType::bf16) return narrowed_to(d, value, static_cast<const BFloat16*>(nullptr));
  }
  return value;
}

/// Whether a vector of the compute type can leave as T with a streaming store: of 16 bytes to a
/// cache line.
template <class D, typename T>
inline constexpr bool can_stream = HWY_TARGET != HWY_SCALAR&& hn::MaxLanes(D()) * sizeof(T) <= 64 &&
                                   (std::is_same_v<T, hn::TFromD<D>> ||
                                    (sizeof(T) == 2 && hn::MaxLanes(D()) * sizeof(T) >= 16));

/// As store_elements, past the cache. `to` is aligned to what is stored.
template <class D, typename T>
HWY_INLINE void stream_elements(D d, hn::Vec<D> value, T* to) {
  if constexpr (std::is_same_v<T, hn::TFromD<D>>) {
    hn::Stream(value, d, to);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    hn::Stream(bits_of_bf16(d, value), hn::Rebind<uint16_t, D>(), &to->bits);
  } else {
    const hn::Rebind<hwy::float16_t, D> half;
    const hn::RebindToUnsigned<decltype(half)> bits;
    hn::Stream(hn::BitCast(bits, hn::DemoteTo(half, value)), bits, &to->bits);
  }
}

// A layout says how the elements of one load (a `step`) become vectors of the compute type (its
// `parts`), and how arrays of the compute type that go with the columns (gamma, beta, column sums)
// lie in memory to match. bf16 pairs, in bf16_pairs-inl.h, are the other layout.

/// Which vector of a step: a constant, as an argument.
template <size_t k>
using Part = std::integral_constant<size_t, k>;

enum class Cache { keep, bypass };

/// Lanes in the order of memory: the layout of every dtype but bf16.
template <class D>
struct InOrder {
  using Tag = D;
  using V = hn::Vec<D>;
  using C = hn::TFromD<D>;
  static constexpr size_t parts = 1;
  static constexpr size_t max_step = hn::MaxLanes(D());
  static HWY_INLINE size_t step() { return hn::Lanes(D()); }

  /// Whether a step can leave as T with a streaming store.
  template <typename T>
  static constexpr bool streams = can_stream<D, T>;

  template <typename T>
  static HWY_INLINE V load(const T* from) {
    return load_elements(D(), from);
  }
  static HWY_INLINE V part(V step, Part<0>) { return step; }
  template <typename T>
  static HWY_INLINE V load_parameter(const T* from) {
    return load(from);
  }

  template <class Body>
  static HWY_INLINE void each_part(const Body& body) {
    body(Part<0>());
  }

  /// A part, rounded to `dtype`.
  static HWY_INLINE V narrowed(V value, DType dtype) {
    return HWY_NAMESPACE::narrowed(D(), value, dtype);
  }

  /// Stores the step whose part k is part_of(Part<k>()).
  template <Cache cache, typename T, class PartOf>
  static HWY_INLINE void store(T* to, const PartOf& part_of) {
    if constexpr (cache == Cache::bypass && streams<T>)
      stream_elements(D(), part_of(Part<0>()), to);
    else
      store_elements(D(), part_of(Part<0>()), to);
  }

  /// Lanes of a part that the first n elements of a step fill.
  static constexpr size_t lanes_of(size_t n, Part<0>) { return n; }

  /// An array of the compute type, from one column on.
  template <typename Q>
  struct Columns {
    Q* first;
    HWY_INLINE Columns at(int64_t column) const { return {first + column}; }
  };
  template <typename Q>
  static HWY_INLINE Columns<Q> columns(Q* array, int64_t) {
    return {array};
  }
  /// Where a part of the step at column i lies.
  template <typename Q>
  static HWY_INLINE Q* address(Columns<Q> all, size_t i, Part<0>) {
    return all.first + i;
  }
};

FUSEDNORM_TARGET_END
#endif
