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

/// A parameter of 16 bits as the caller gave it: half the bytes of an expanded one, for two
/// instructions a pack.
template <typename T>
struct Given {
  const T* first;
  HWY_INLINE Given at(int64_t column) const { return {first + column}; }
};

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

  /// An array of the compute type that goes with the columns: gamma, beta, column sums.
  template <typename Q>
  struct Columns {
    Q* first;
    HWY_INLINE Columns at(int64_t column) const { return {first + column}; }
  };
  template <typename Q>
  static HWY_INLINE Columns<Q> columns(Q* array, int64_t) {
    return {array};
  }
  template <typename Q>
  static HWY_INLINE void read_columns(Columns<Q> from, size_t i, V& a, V&) {
    a = hn::LoadU(D(), from.first + i);
  }
  template <typename T>
  static HWY_INLINE void read_columns(Given<T> from, size_t i, V& a, V& b) {
    read(from.first + i, a, b);
  }
  static HWY_INLINE void write_columns(V a, V, Columns<C> to, size_t i) {
    hn::StoreU(a, D(), to.first + i);
  }

  // Vector k of a pack by itself, where registers are few: of a pack as it was loaded, of columns.
  using Raw = V;
  template <typename T>
  static HWY_INLINE Raw raw(const T* from) {
    return load(D(), from);
  }
  template <size_t k>
  static HWY_INLINE V part(Raw pack) {
    return pack;
  }
  template <size_t k, typename Q>
  static HWY_INLINE Q* part(Columns<Q> all, size_t i) {
    return all.first + i;
  }

  /// `old` in all lanes but [begin, end).
  static HWY_INLINE void only(V& a, V&, V old_a, V, size_t begin, size_t end) {
    const D d;
    a = hn::IfThenElse(hn::FirstN(d, begin), old_a, hn::IfThenElse(hn::FirstN(d, end), a, old_a));
  }

  template <Cache cache, typename T>
  static HWY_INLINE void write(V a, V, T* to) {
    if constexpr (cache == Cache::bypass && streams<T>)
      stream(D(), a, to);
    else
      store(D(), a, to);
  }

  /// Four vectors: a turn of the inner loops.
  template <typename T>
  static HWY_INLINE void read_four(const T* from, V& v0, V& v1, V& v2, V& v3) {
    const D d;
    const size_t lanes = hn::Lanes(d);
    v0 = load(d, from);
    v1 = load(d, from + lanes);
    v2 = load(d, from + 2 * lanes);
    v3 = load(d, from + 3 * lanes);
  }

  /// As write; there is nothing to write again.
  using Ties = int;
  static HWY_INLINE Ties no_ties() { return 0; }
  static HWY_INLINE bool any(Ties) { return false; }
  template <Cache cache, typename T>
  static HWY_INLINE void write(V a, V b, T* to, Ties&) {
    write<cache>(a, b, to);
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
  static constexpr bool streams = 2 * hn::MaxLanes(D()) * sizeof(T) <= 64;
  static HWY_INLINE size_t step() { return 2 * hn::Lanes(D()); }

  using Raw = hn::Vec<Bits>;
  static HWY_INLINE Raw raw(const BFloat16* from) {
    return once(hn::BitCast(Bits(), hn::LoadU(Halves(), reinterpret_cast<const uint16_t*>(from))));
  }
  static HWY_INLINE V odd(Raw raw) {
    return hn::BitCast(D(), hn::And(raw, hn::Set(Bits(), 0xffff0000u)));
  }
  static HWY_INLINE V even(Raw raw) { return hn::BitCast(D(), hn::ShiftLeft<16>(raw)); }

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

  /// First the even columns, then the odd ones: a pack may begin at any column.
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
  /// Column i, which is even, as far from the start in bytes as element i of a row in bf16: one
  /// register holds both.
  template <typename Q>
  static HWY_INLINE Q* place(Q* half, size_t i) {
    using Byte = std::conditional_t<std::is_const_v<Q>, const uint8_t, uint8_t>;
    return reinterpret_cast<Q*>(reinterpret_cast<Byte*>(half) + i * sizeof(BFloat16));
  }
  template <typename Q>
  static HWY_INLINE void read_columns(Columns<Q> from, size_t i, V& a, V& b) {
    a = hn::LoadU(D(), place(from.even, i));
    b = hn::LoadU(D(), place(from.odd, i));
  }
  static HWY_INLINE void read_columns(Given<BFloat16> from, size_t i, V& a, V& b) {
    read(from.first + i, a, b);
  }
  static HWY_INLINE void write_columns(V a, V b, Columns<C> to, size_t i) {
    hn::StoreU(a, D(), place(to.even, i));
    hn::StoreU(b, D(), place(to.odd, i));
  }

  template <size_t k>
  static HWY_INLINE V part(Raw pack) {
    return k == 0 ? even(pack) : odd(pack);
  }
  template <size_t k, typename Q>
  static HWY_INLINE Q* part(Columns<Q> all, size_t i) {
    return place(k == 0 ? all.even : all.odd, i);
  }

  /// `old` in all lanes but [begin, end).
  static HWY_INLINE void only(V& a, V& b, V old_a, V old_b, size_t begin, size_t end) {
    const D d;
    a = hn::IfThenElse(hn::FirstN(d, (begin + 1) / 2), old_a,
                       hn::IfThenElse(hn::FirstN(d, (end + 1) / 2), a, old_a));
    b = hn::IfThenElse(hn::FirstN(d, begin / 2), old_b,
                       hn::IfThenElse(hn::FirstN(d, end / 2), b, old_b));
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
  static HWY_INLINE void put(hn::Vec<Halves> pack, BFloat16* to) {
    auto* address = reinterpret_cast<uint16_t*>(to);
    if constexpr (cache == Cache::bypass)
      hn::Stream(pack, Halves(), address);
    else
      hn::StoreU(pack, Halves(), address);
  }
  template <Cache cache>
  static HWY_INLINE void write(V a, V b, BFloat16* to) {
    put<cache>(rounded(a, b), to);
  }

  static HWY_INLINE void read_four(const BFloat16* from, V& v0, V& v1, V& v2, V& v3) {
    read(from, v0, v1);
    read(from + step(), v2, v3);
  }

  /// The least of the halves that were lost, in even lanes.
  using Ties = hn::Vec<Halves>;
  static HWY_INLINE Ties no_ties() { return hn::Set(Halves(), uint16_t{0xffff}); }
  static HWY_INLINE bool any(Ties ties) {
    const Halves halves;
    const auto lost = hn::Or(ties, hn::BitCast(halves, hn::Set(Bits(), 0xffff0000u)));
    return !hn::AllFalse(halves, hn::Eq(lost, hn::Zero(halves)));
  }
  /// Adding 0x8000 rounds all but ties, one element in 2^16: 6 instructions for a pack instead of
  /// 8, and one shift instead of three. Where there were any, what was written has to be written
  /// again with the other write.
  template <Cache cache>
  static HWY_INLINE void write(V a, V b, BFloat16* to, Ties& ties) {
    const Bits bits;
    const Halves halves;
    const auto half = hn::Set(bits, 0x8000u);
    const auto even = hn::Add(hn::BitCast(bits, a), half);
    const auto odd = hn::BitCast(halves, hn::Add(hn::BitCast(bits, b), half));
    ties = hn::Min(ties, hn::Min(hn::BitCast(halves, even), odd));
    put<cache>(hn::OddEven(odd, hn::BitCast(halves, hn::ShiftRight<16>(even))), to);
  }
};
#endif

/// The end of a row that is no whole number of packs, as one pack: the last of the row, of which
/// only the last `count` elements are new, or all of a row that is shorter.
template <class D, bool pairs>
struct PackTail {
  using V = hn::Vec<D>;
  using C = hn::TFromD<D>;
  using P = Pack<D, pairs>;
  size_t count;  ///< new elements; 0 when there is no tail
  bool wide;     ///< a whole pack before the end may be read and written again
  size_t begin;  ///< of the pack

  explicit HWY_INLINE PackTail(size_t n)
      : count(n % P::step()), wide(n >= P::step()), begin(wide ? n - P::step() : 0) {}

  template <typename T>
  HWY_INLINE void read(const T* row, V& a, V& b) const {
    if (HWY_LIKELY(wide)) return P::read(row + begin, a, b);
    HWY_ALIGN T buffer[P::parts * hn::MaxLanes(D())] = {};
    std::memcpy(buffer, row, count * sizeof(T));
    P::read(buffer, a, b);
  }

  template <typename T>
  HWY_INLINE void write(V a, V b, T* row) const {
    if (HWY_LIKELY(wide)) return P::template write<Cache::keep>(a, b, row + begin);
    HWY_ALIGN T buffer[P::parts * hn::MaxLanes(D())];
    P::template write<Cache::keep>(a, b, buffer);
    std::memcpy(row, buffer, count * sizeof(T));
  }

  /// Of a parameter, which in order may be the caller's own and end with the row.
  HWY_INLINE void read_columns(typename P::template Columns<const C> from, V& a, V& b) const {
    if constexpr (pairs)
      P::read_columns(from.at(static_cast<int64_t>(begin)), 0, a, b);
    else
      read(from.first, a, b);
  }
  template <typename T>
  HWY_INLINE void read_columns(Given<T> from, V& a, V& b) const {
    read(from.first, a, b);
  }
  /// Of sums, which are padded.
  HWY_INLINE typename P::template Columns<C> sums(typename P::template Columns<C> all) const {
    return all.at(static_cast<int64_t>(begin));
  }

  /// The lanes [first, last) that are new.
  HWY_INLINE size_t first() const { return wide ? P::step() - count : 0; }
  HWY_INLINE size_t last() const { return wide ? P::step() : count; }
  /// Zeros in the others.
  HWY_INLINE void only_new(V& a, V& b) const {
    const V zero = hn::Zero(D());
    P::only(a, b, zero, zero, first(), last());
  }
};

/// Gamma or beta. An absent one is a constant array that every chunk reads from its start.
template <class P>
struct Parameter {
  using C = typename P::C;
  typename P::template Columns<const C> columns;
  int64_t step;

  Parameter(const void* given, const C* constant, int64_t count)
      : columns(P::columns(given ? static_cast<const C*>(given) : constant, count)),
        step(given ? 1 : 0) {}
  HWY_INLINE typename P::template Columns<const C> at(int64_t column) const {
    return columns.at(step * column);
  }
};

/// `count` elements of a parameter as the compute type in the order of packs. A null parameter is a
/// constant.
template <typename C, typename T, bool pairs>
void expand(const void* given, double constant, int64_t count, void* to) {
  using D = Vectors<C>;
  using P = Pack<D, pairs>;
  using V = hn::Vec<D>;
  const D d;
  const T* from = static_cast<const T*>(given);
  const auto out = P::columns(static_cast<C*>(to), count);
  const size_t step = P::step(), n = static_cast<size_t>(count);
  V a = hn::Set(d, static_cast<C>(constant)), b = a;
  for (size_t i = 0; i + step <= n; i += step) {
    if (given) P::read_parameter(from + i, a, b);
    P::write_columns(a, b, out, i);
  }
  const PackTail<D, pairs> tail(n);
  if (tail.count == 0) return;
  if (given) {
    HWY_ALIGN T last[P::parts * hn::MaxLanes(D())] = {};
    std::memcpy(last, from + tail.begin, (tail.wide ? step : n) * sizeof(T));
    P::read_parameter(last, a, b);
  }
  P::write_columns(a, b, tail.sums(out), 0);
}

/// A chunk of a parameter where threads share rows: expanded by whoever needs it, who also asks for
/// the next chunk.
template <class Arguments, typename C>
HWY_INLINE void expand_chunk(const Arguments& a, const void* given, double constant, int64_t column,
                             int64_t n, C* to) {
  if (!given) return a.expand(nullptr, constant, n, to);
  const auto* from = static_cast<const uint8_t*>(given) + column * a.param_size;
  const auto bytes = static_cast<size_t>(n * a.param_size);
  prefetch(from + bytes, bytes);
  a.expand(from, constant, n, to);
}

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
