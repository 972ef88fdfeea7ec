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
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fusednorm::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const Float16* from) {
  const hn::Rebind<hwy::float16_t, D> half;
  return hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(from)));
}

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

template <class D>
HWY_INLINE void store(D, hn::Vec<D> value, Float16* to) {
  const hn::Rebind<hwy::float16_t, D> half;
  hn::StoreU(hn::DemoteTo(half, value), half, reinterpret_cast<hwy::float16_t*>(to));
}

#if HWY_HAVE_FLOAT64
template <class D, std::enable_if_t<sizeof(hn::TFromD<D>) == 8>* = nullptr>
HWY_INLINE void store(D, hn::Vec<D> value, float* to) {
  const hn::Rebind<float, D> half;
  hn::StoreU(hn::DemoteTo(half, value), half, to);
}
#endif

/// Whether a vector of the compute type can leave as T with a streaming store.
template <class D, typename T>
inline constexpr bool can_stream = HWY_TARGET != HWY_SCALAR &&
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

/// The end of a run of elements that is no whole number of vectors: the last vector's worth, of
/// which only the upper `count` lanes are new. A run shorter than a vector goes through a buffer.
struct Tail {
  size_t count;  ///< new lanes; 0 when there is no tail
  bool wide;     ///< a whole vector before the end may be read and written again

  Tail(size_t elements, size_t lanes) : count(elements % lanes), wide(elements >= lanes) {}

  template <class D, typename T>
  HWY_INLINE hn::Vec<D> load_from(D d, const T* end) const {
    const size_t lanes = hn::Lanes(d);
    if (HWY_LIKELY(wide)) return load(d, end - lanes);
    HWY_ALIGN T buffer[hn::MaxLanes(D())] = {};
    std::memcpy(buffer + (lanes - count), end - count, count * sizeof(T));
    return load(d, buffer);
  }

  /// As load_from, with zeros in the lanes that are not new.
  template <class D, typename T>
  HWY_INLINE hn::Vec<D> load_new(D d, const T* end) const {
    return only_new(d, load_from(d, end));
  }

  template <class D>
  HWY_INLINE hn::Vec<D> only_new(D d, hn::Vec<D> value) const {
    return hn::IfThenZeroElse(hn::FirstN(d, hn::Lanes(d) - count), value);
  }

  template <class D, typename T>
  HWY_INLINE void store_to(D d, hn::Vec<D> value, T* end) const {
    const size_t lanes = hn::Lanes(d);
    if (HWY_LIKELY(wide)) return store(d, value, end - lanes);
    HWY_ALIGN T buffer[hn::MaxLanes(D())];
    store(d, value, buffer);
    std::memcpy(end - count, buffer + (lanes - count), count * sizeof(T));
  }
};

/// The lower `count` lanes only.
template <class D, typename T>
HWY_INLINE void store_first(D d, hn::Vec<D> value, T* to, size_t count) {
  HWY_ALIGN T buffer[hn::MaxLanes(D())];
  store(d, value, buffer);
  std::memcpy(to, buffer, count * sizeof(T));
}

/// An absent gamma or beta is a constant array that every chunk reads from its start.
template <typename T>
struct Parameter {
  const T* data;
  int64_t step;

  Parameter(const void* given, const T* constant)
      : data(given ? static_cast<const T*>(given) : constant), step(given ? 1 : 0) {}
  HWY_INLINE const T* at(int64_t column) const { return data + step * column; }
};

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
