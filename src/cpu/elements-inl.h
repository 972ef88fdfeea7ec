// Loads and stores of every element type as vectors of the compute type, with one rounding to
// nearest even at the store. Included once per instruction set.
#if defined(FUSEDNORM_CPU_ELEMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_ELEMENTS_INL_H_
#undef FUSEDNORM_CPU_ELEMENTS_INL_H_
#else
#define FUSEDNORM_CPU_ELEMENTS_INL_H_
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cpu/element_types.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

// For lambdas of inner loops: vectors that a call leaves in memory are read again in every turn.
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

HWY_BEFORE_NAMESPACE();
namespace fusednorm::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The vectors of every kernel: at most 64 bytes, so that segments end with a whole turn of a loop.
template <typename C>
using Vectors = hn::CappedTag<C, 64 / sizeof(C)>;

/// How a segment is cut into chunks. They are shorter where vectors are short, for the error of a
/// sum of f32 grows with the additions that each lane makes.
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

/// The vector, in a register. Where it is used twice, the compiler would rather read it twice, and
/// loads are what inner loops have the most of.
template <class V>
HWY_INLINE V once(V vector) {
#if FUSEDNORM_NAMES_REGISTERS
  asm("" : "+v"(vector.raw));
#endif
  return vector;
}

/// The vector, which the compiler does not touch before it has `earlier`: what it takes up too soon
/// fills registers, and sums go to memory for it.
template <class V, class Earlier>
HWY_INLINE V after(V vector, [[maybe_unused]] Earlier earlier) {
#if FUSEDNORM_NAMES_REGISTERS
  asm("" : "+v"(vector.raw) : "v"(earlier.raw));
#endif
  return vector;
}

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const hn::TFromD<D>* from) {
  return hn::LoadU(d, from);
}

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const BFloat16* from) {
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
HWY_INLINE hn::Vec<D> load(D d, const Float16* from) {
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
HWY_INLINE void store(D d, hn::Vec<D> value, Float16* to) {
  const hn::Rebind<uint16_t, D> half;
  hn::StoreU(hn::DemoteTo(half, bits_of_half(d, value)), half, reinterpret_cast<uint16_t*>(to));
}
#else
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const Float16* from) {
  const hn::Rebind<hwy::float16_t, D> half;
  return hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(from)));
}

template <class D>
HWY_INLINE void store(D, hn::Vec<D> value, Float16* to) {
  const hn::Rebind<hwy::float16_t, D> half;
  hn::StoreU(hn::DemoteTo(half, value), half, reinterpret_cast<hwy::float16_t*>(to));
}
#endif

#if HWY_HAVE_FLOAT64
template <class D, std::enable_if_t<sizeof(hn::TFromD<D>) == 8>* = nullptr>
HWY_INLINE hn::Vec<D> load(D d, const float* from) {
  const hn::Rebind<float, D> half;
  return hn::PromoteTo(d, hn::LoadU(half, from));
}
#endif

template <class D>
HWY_INLINE void store(D d, hn::Vec<D> value, hn::TFromD<D>* to) {
  hn::StoreU(value, d, to);
}

// Highway's own conversion truncates in old releases. Rounding to even carries into the upper half;
// a NaN must not carry into infinity.
template <class D>
HWY_INLINE void store(D, hn::Vec<D> value, BFloat16* to) {
  const hn::RebindToUnsigned<D> bits;
  const hn::RebindToSigned<D> signed_bits;
  const hn::Rebind<uint16_t, D> half;
  const auto raw = hn::BitCast(bits, value);
  const auto odd = hn::And(hn::ShiftRight<16>(raw), hn::Set(bits, 1u));
  const auto rounded = hn::Add(hn::Add(raw, hn::Set(bits, 0x7fffu)), odd);
  const auto quiet = hn::Or(raw, hn::Set(bits, 0x00400000u));
  const auto kept = hn::IfThenElse(hn::RebindMask(bits, hn::IsNaN(value)), quiet, rounded);
  const auto upper = hn::BitCast(signed_bits, hn::ShiftRight<16>(kept));
  hn::StoreU(hn::DemoteTo(half, upper), half, reinterpret_cast<uint16_t*>(to));
}

#if HWY_HAVE_FLOAT64
template <class D, std::enable_if_t<sizeof(hn::TFromD<D>) == 8>* = nullptr>
HWY_INLINE void store(D, hn::Vec<D> value, float* to) {
  const hn::Rebind<float, D> half;
  hn::StoreU(hn::DemoteTo(half, value), half, to);
}
#endif

/// Whether a vector of the compute type can leave as T with a streaming store. No longer than a
/// line, for lines begin anywhere.
template <class D, typename T>
inline constexpr bool can_stream = HWY_TARGET != HWY_SCALAR&& hn::MaxLanes(D()) * sizeof(T) <= 64 &&
                                   (std::is_same_v<T, hn::TFromD<D>> ||
                                    (std::is_same_v<T, Float16> &&
                                     hn::MaxLanes(D()) * sizeof(T) >= 16));

/// As store, past the cache. `to` is aligned to what is stored.
template <class D, typename T>
HWY_INLINE void stream(D d, hn::Vec<D> value, T* to) {
  if constexpr (std::is_same_v<T, hn::TFromD<D>>) {
    hn::Stream(value, d, to);
  } else {
    const hn::Rebind<hwy::float16_t, D> half;
    const hn::RebindToUnsigned<decltype(half)> bits;
    hn::Stream(hn::BitCast(bits, hn::DemoteTo(half, value)), bits, &to->bits);
  }
}

/// `columns` and `rows` later; maybe past the end of the array, or of all memory, which is for
/// prefetch alone.
template <typename T>
HWY_INLINE const T* later(const T* from, int64_t columns, int64_t rows = 0, int64_t stride = 0) {
  const uintptr_t elements = static_cast<uintptr_t>(columns) +
                             static_cast<uintptr_t>(rows) * static_cast<uintptr_t>(stride);
  return reinterpret_cast<const T*>(reinterpret_cast<uintptr_t>(from) + elements * sizeof(T));
}

/// What the first stage, now at `from`, needs soon.
template <typename T>
HWY_INLINE const T* ahead_of(const T* from) {
  return later(from, policy::prefetch_bytes / int64_t{sizeof(T)});
}

template <typename T>
HWY_INLINE void prefetch(const T* from, size_t elements) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(from);
  for (size_t i = 0; i < elements * sizeof(T); i += 64) hwy::Prefetch(bytes + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
