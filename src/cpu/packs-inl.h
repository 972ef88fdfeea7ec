// Packs: how the elements of a row lie in vectors. In order, one vector of the compute type after
// the other; or, for bf16 alone, in pairs. Included once per instruction set.
#if defined(FUSEDNORM_CPU_PACKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_PACKS_INL_H_
#undef FUSEDNORM_CPU_PACKS_INL_H_
#else
#define FUSEDNORM_CPU_PACKS_INL_H_
#endif

#include <limits>

#include "cpu/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fusednorm::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// In pairs, a register of 16-bit elements becomes a vector of its even and one of its odd elements
/// with one instruction each, a shift and a mask: 2 for what takes 4 in order, and packing is as
/// cheap. Arrays of the compute type that meet such vectors (gamma, beta, column sums) are kept in
/// the same order: see expand().
template <typename TX, typename TY>
inline constexpr bool in_pairs =
    HWY_TARGET != HWY_SCALAR&& std::is_same_v<TX, BFloat16>&& std::is_same_v<TY, BFloat16>;

enum class Cache { keep, bypass };

/// In order. The second vector of every pair of arguments is not used.
template <class D, bool pairs>
struct Pack {
  using V = hn::Vec<D>;
  using C = hn::TFromD<D>;
  static constexpr size_t parts = 1;
  template <typename T>
  static constexpr bool streams = can_stream<D, T>;
  static HWY_INLINE size_t step() { return hn::Lanes(D()); }

  template <typename T>
  static HWY_INLINE void read(const T* from, V& a, V&) {
    a = load(D(), from);
  }
  template <typename T>
  static HWY_INLINE void read_parameter(const T* from, V& a, V&) {
    a = load(D(), from);
  }
  static HWY_INLINE void read_compute(const C* from, V& a, V&) { a = hn::LoadU(D(), from); }
  static HWY_INLINE void write_compute(V a, V, C* to) { hn::StoreU(a, D(), to); }

  template <Cache cache, typename T>
  static HWY_INLINE void write(V a, V, T* to) {
    if constexpr (cache == Cache::bypass && streams<T>)
      stream(D(), a, to);
    else
      store(D(), a, to);
  }

  /// Of two vectors' elements, half: their mean serves to centre all. It is off the mean of all by
  /// at most the standard deviation (the variance between two halves of which one has mean m + d
  /// and the other m - d is d * d), so centring with it costs the sum of squares one bit at worst.
  template <typename T>
  static HWY_INLINE V sample(const T* from) {
    return load(D(), from);
  }
  /// How many of a segment's elements are sampled: all that two vectors do not divide, too.
  static size_t sampled(size_t n) {
    const size_t rest = n % (2 * step());
    return (n - rest) / 2 + rest;
  }
};

#if HWY_TARGET != HWY_SCALAR
template <class D>
struct Pack<D, true> {
  using V = hn::Vec<D>;
  using C = hn::TFromD<D>;
  using Bits = hn::RebindToUnsigned<D>;
  using Halves = hn::Repartition<uint16_t, D>;
  static constexpr size_t parts = 2;
  template <typename T>
  static constexpr bool streams = true;
  static HWY_INLINE size_t step() { return 2 * hn::Lanes(D()); }

  static HWY_INLINE hn::Vec<Bits> raw(const BFloat16* from) {
    return hn::BitCast(Bits(), hn::LoadU(Halves(), reinterpret_cast<const uint16_t*>(from)));
  }
  static HWY_INLINE V odd(hn::Vec<Bits> raw) {
    return hn::BitCast(D(), hn::And(raw, hn::Set(Bits(), 0xffff0000u)));
  }
  static HWY_INLINE V even(hn::Vec<Bits> raw) { return hn::BitCast(D(), hn::ShiftLeft<16>(raw)); }

  static HWY_INLINE void read(const BFloat16* from, V& a, V& b) {
    const auto bits = raw(from);
    a = even(bits);
    b = odd(bits);
  }
  static HWY_INLINE void read_parameter(const BFloat16* from, V& a, V& b) { read(from, a, b); }
  /// Without bits that rounding could carry out of a NaN.
  static HWY_INLINE void read_parameter(const float* from, V& a, V& b) {
    const D d;
    const V nan = hn::Set(d, std::numeric_limits<float>::quiet_NaN());
    const V lower = hn::LoadU(d, from), upper = hn::LoadU(d, from + hn::Lanes(d));
    a = hn::ConcatEven(d, upper, lower);
    b = hn::ConcatOdd(d, upper, lower);
    a = hn::IfThenElse(hn::IsNaN(a), nan, a);
    b = hn::IfThenElse(hn::IsNaN(b), nan, b);
  }
  static HWY_INLINE void read_compute(const C* from, V& a, V& b) {
    a = hn::LoadU(D(), from);
    b = hn::LoadU(D(), from + hn::Lanes(D()));
  }
  static HWY_INLINE void write_compute(V a, V b, C* to) {
    hn::StoreU(a, D(), to);
    hn::StoreU(b, D(), to + hn::Lanes(D()));
  }

  /// To nearest even in 8 instructions for the pack: the kept half of an element grows by one when
  /// its lost half, less one where the kept half is even, reaches 0x8000. A NaN with bits in its
  /// lost half could overflow into a number; none gets here, for the bits of bf16 end above that
  /// half, and expand() and the row's own factors see to theirs.
  static HWY_INLINE hn::Vec<Halves> rounded(V a, V b) {
    const Halves halves;
    const auto even = hn::BitCast(Bits(), a), odd = hn::BitCast(Bits(), b);
    const auto kept =
        hn::OddEven(hn::BitCast(halves, odd), hn::BitCast(halves, hn::ShiftRight<16>(even)));
    const auto lost =
        hn::OddEven(hn::BitCast(halves, hn::ShiftLeft<16>(odd)), hn::BitCast(halves, even));
    const auto is_even = hn::AndNot(kept, hn::Set(halves, uint16_t{1}));
    return hn::Add(kept, hn::ShiftRight<15>(hn::SaturatedSub(lost, is_even)));
  }
  template <Cache cache>
  static HWY_INLINE void write(V a, V b, BFloat16* to) {
    auto* address = reinterpret_cast<uint16_t*>(to);
    if constexpr (cache == Cache::bypass)
      hn::Stream(rounded(a, b), Halves(), address);
    else
      hn::StoreU(rounded(a, b), Halves(), address);
  }

  /// As in order: here the odd elements.
  static HWY_INLINE V sample(const BFloat16* from) { return odd(raw(from)); }
  static size_t sampled(size_t n) {
    const size_t tail = n % step();
    return (n - tail) / 2 + (tail + 1) / 2;
  }
};
#endif

/// The end of a row that is no whole number of packs, as one pack of which only the last `count`
/// elements are new. In an array in pairs it is a pack of its own after the whole ones.
template <class D, bool pairs>
struct PackTail {
  using V = hn::Vec<D>;
  using C = hn::TFromD<D>;
  using P = Pack<D, pairs>;
  size_t n;
  size_t count;  ///< new elements; 0 when there is no tail
  bool wide;     ///< a whole pack before the end may be read and written again

  explicit HWY_INLINE PackTail(size_t elements)
      : n(elements), count(elements % P::step()), wide(elements >= P::step()) {}

  template <typename T>
  HWY_INLINE void read(const T* begin, V& a, V& b) const {
    if (HWY_LIKELY(wide)) return P::read(begin + n - P::step(), a, b);
    HWY_ALIGN T buffer[P::parts * hn::MaxLanes(D())] = {};
    std::memcpy(buffer + (P::step() - count), begin, count * sizeof(T));
    P::read(buffer, a, b);
  }

  HWY_INLINE void read_compute(const C* begin, V& a, V& b) const {
    if constexpr (pairs)
      P::read_compute(begin + (n - count), a, b);
    else
      read(begin, a, b);
  }

  HWY_INLINE void write_compute(V a, V b, C* begin) const {
    if constexpr (pairs)
      P::write_compute(a, b, begin + (n - count));
    else
      write(a, b, begin);
  }

  template <typename T>
  HWY_INLINE void write(V a, V b, T* begin) const {
    if (HWY_LIKELY(wide)) return P::template write<Cache::keep>(a, b, begin + n - P::step());
    HWY_ALIGN T buffer[P::parts * hn::MaxLanes(D())];
    P::template write<Cache::keep>(a, b, buffer);
    std::memcpy(begin, buffer + (P::step() - count), count * sizeof(T));
  }

  /// Zeros in the lanes that are not new.
  HWY_INLINE void only_new(V& a, V& b) const {
    const D d;
    if constexpr (pairs) {
      const hn::Repartition<uint16_t, D> halves;
      const hn::RebindToSigned<D> bits;
      const auto keep = hn::BitCast(bits, hn::IfThenZeroElse(hn::FirstN(halves, P::step() - count),
                                                             hn::Set(halves, uint16_t{0xffff})));
      a = hn::And(a, hn::BitCast(d, hn::ShiftRight<16>(hn::ShiftLeft<16>(keep))));
      b = hn::And(b, hn::BitCast(d, hn::ShiftRight<16>(keep)));
    } else {
      a = hn::IfThenZeroElse(hn::FirstN(d, P::step() - count), a);
    }
  }
};

/// `count` elements of a parameter as the compute type in the order of packs. `to` has room for a
/// pack more. A null parameter is a constant.
template <typename C, typename T, bool pairs>
void expand(const void* given, double constant, int64_t count, void* to) {
  using D = hn::ScalableTag<C>;
  using P = Pack<D, pairs>;
  using V = hn::Vec<D>;
  const D d;
  const T* from = static_cast<const T*>(given);
  C* out = static_cast<C*>(to);
  const auto step = static_cast<int64_t>(P::step());
  const PackTail<D, pairs> tail(static_cast<size_t>(count));
  V a = hn::Set(d, static_cast<C>(constant)), b = a;
  for (int64_t i = 0; i + step <= count; i += step) {
    if (given) P::read_parameter(from + i, a, b);
    P::write_compute(a, b, out + i);
  }
  if (tail.count == 0) return;
  if (given) {
    HWY_ALIGN T last[P::parts * hn::MaxLanes(D())] = {};
    const int64_t kept = count < step ? count : step;
    std::memcpy(last + (step - kept), from + (count - kept), static_cast<size_t>(kept) * sizeof(T));
    P::read_parameter(last, a, b);
  }
  tail.write_compute(a, b, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
