// SPDX-License-Identifier: Apache-2.0
// cvt: between integers, f16, bf16, f32 and f64, with every rounding; two f32 into a packed pair.
#include <cmath>
#include <limits>
#include <type_traits>

#include "float_formats.h"
#include "lanes.h"

namespace fusednorm::emulator {
namespace {

struct HalfTag {
  uint16_t bits;
};
struct BfloatTag {
  uint16_t bits;
};
template <class T>
constexpr bool is_float = !std::is_integral_v<T>;

enum Flags : uint8_t { kSaturate = 1, kFlush = 2, kRelu = 4, kToWhole = 8 };

struct Options {
  Rounding rounding;
  uint8_t flags;
};

inline double number(HalfTag x) {
  return decode_half(x.bits);
}
inline double number(BfloatTag x) {
  return decode_bfloat(x.bits);
}
inline double number(float x) {
  return x;
}
inline double number(double x) {
  return x;
}

inline double round_whole(double x, Rounding mode) {
  switch (mode) {
    case Rounding::Zero:
      return std::trunc(x);
    case Rounding::Down:
      return std::floor(x);
    case Rounding::Up:
      return std::ceil(x);
    default:
      return std::nearbyint(x);
  }
}

template <class D>
inline D from_double(double x, Rounding mode) {
  if constexpr (std::is_same_v<D, HalfTag>) return {encode_half(x, mode)};
  if constexpr (std::is_same_v<D, BfloatTag>) return {encode_bfloat(x, mode)};
  if constexpr (std::is_same_v<D, float>)
    return mode == Rounding::NearestEven ? canonical(float(x)) : encode_float(x, mode);
  if constexpr (std::is_same_v<D, double>) return x;
}

// A whole number in double: past 2^53 the bits cut off leave a sticky one, so one later rounding is
// exact.
template <class S>
inline double whole_number(S x) {
  const bool negative = x < 0;
  uint64_t magnitude = negative ? 0 - uint64_t(x) : uint64_t(x);
  if (magnitude >> 53) {
    const uint64_t rest = magnitude & 0x7ff;
    magnitude = (magnitude & ~0x7ffull) | (rest ? 0x800 : 0);
  }
  const double value = double(magnitude);
  return negative ? -value : value;
}

template <class D, class S>
inline D convert(S x, Options options) {
  if constexpr (!is_float<D> && !is_float<S>) {
    if (options.flags & kSaturate) {
      const __int128 value = x, low = std::numeric_limits<D>::min(),
                     high = std::numeric_limits<D>::max();
      return D(value < low ? low : value > high ? high : value);
    }
    return D(x);
  } else if constexpr (!is_float<S>) {
    if (options.flags & kSaturate) return from_double<D>(x > 0 ? 1.0 : 0.0, options.rounding);
    if constexpr (std::is_same_v<D, float> || std::is_same_v<D, double>)
      if (options.rounding == Rounding::NearestEven) return D(x);
    if constexpr (std::is_same_v<D, double>) {
      // 64-bit integers into f64, rounding not to nearest: step from the nearest.
      double value = double(x);
      const __int128 exact = x;
      const __int128 back = __int128(value);
      if (options.rounding == Rounding::Down || (options.rounding == Rounding::Zero && exact > 0))
        return back > exact ? std::nextafter(value, -HUGE_VAL) : value;
      return back < exact ? std::nextafter(value, HUGE_VAL) : value;
    } else {
      return from_double<D>(whole_number(x), options.rounding);
    }
  } else if constexpr (!is_float<D>) {
    double value = number(x);
    if ((options.flags & kFlush) && std::is_same_v<S, float>) value = flush(float(value));
    if (value != value) return 0;
    value = round_whole(value, options.rounding);
    // The result is clamped to the type in any case.
    if (value <= double(std::numeric_limits<D>::min())) return std::numeric_limits<D>::min();
    if (value >= double(std::numeric_limits<D>::max())) return std::numeric_limits<D>::max();
    return D(value);
  } else {
    double value = number(x);
    if ((options.flags & kFlush) && std::is_same_v<S, float>) value = flush(float(value));
    if (options.flags & kToWhole) value = round_whole(value, options.rounding);
    if (options.flags & kRelu) value = value > 0 ? value : value != value ? value : 0.0;
    if (options.flags & kSaturate) value = value > 0 ? (value < 1 ? value : 1.0) : 0.0;
    D out = from_double<D>(value, options.rounding);
    if constexpr (std::is_same_v<D, float>)
      if (options.flags & kFlush) out = flush(out);
    return out;
  }
}

// Lane strides differ when a register is wider than its type, so both are parameters.
template <class D, class S, class DRegister, class SRegister>
void convert_handler(Warp& w, const Instruction& i, uint32_t active) {
  const SRegister* a = w.reg<SRegister>(i.a);
  DRegister* d = w.reg<DRegister>(i.dst);
  const Options options{static_cast<Rounding>(i.immediate), i.flags};
  auto one = [=](int lane) {
    S source;
    std::memcpy(&source, &a[lane], sizeof source);
    const D value = convert<D, S>(source, options);
    if constexpr (std::is_integral_v<D>) {
      return DRegister(std::make_unsigned_t<DRegister>(std::make_signed_t<DRegister>(value)));
    } else {
      DRegister out = 0;
      std::memcpy(&out, &value, sizeof value);
      return out;
    }
  };
  if constexpr (std::is_integral_v<D> && std::is_integral_v<S>) {
    if (i.flags == 0) {
      for_lanes(d, active,
                [=](int lane) { return DRegister(std::make_signed_t<DRegister>(D(S(a[lane])))); });
      return;
    }
  }
  for_each_active(active, [&](int lane) { d[lane] = one(lane); });
}

// The conversions that hot loops consist of, vectorised.
void half_to_float(Warp& w, const Instruction& i, uint32_t active) {
  const uint16_t* a = w.reg<uint16_t>(i.a);
  for_lanes(w.reg<float>(i.dst), active, [=](int lane) { return canonical(decode_half(a[lane])); });
}
void bfloat_to_float(Warp& w, const Instruction& i, uint32_t active) {
  const uint16_t* a = w.reg<uint16_t>(i.a);
  for_lanes(w.reg<float>(i.dst), active, [=](int lane) { return decode_bfloat(a[lane]); });
}
void float_to_half(Warp& w, const Instruction& i, uint32_t active) {
  const float* a = w.reg<float>(i.a);
  for_lanes(w.reg<uint16_t>(i.dst), active, [=](int lane) { return half_nearest(a[lane]); });
}
void float_to_bfloat(Warp& w, const Instruction& i, uint32_t active) {
  const float* a = w.reg<float>(i.a);
  for_lanes(w.reg<uint16_t>(i.dst), active, [=](int lane) { return bfloat_nearest(a[lane]); });
}
void float_to_double(Warp& w, const Instruction& i, uint32_t active) {
  const float* a = w.reg<float>(i.a);
  for_lanes(w.reg<double>(i.dst), active, [=](int lane) { return double(a[lane]); });
}
template <class S>
void integer_to_float(Warp& w, const Instruction& i, uint32_t active) {
  const S* a = w.reg<S>(i.a);
  for_lanes(w.reg<float>(i.dst), active, [=](int lane) { return float(a[lane]); });
}
template <uint16_t (*kRound)(float)>
void pair_nearest(Warp& w, const Instruction& i, uint32_t active) {
  const float* high = w.reg<float>(i.a);
  const float* low = w.reg<float>(i.b);
  for_lanes(w.reg<uint32_t>(i.dst), active,
            [=](int lane) { return uint32_t{kRound(high[lane])} << 16 | kRound(low[lane]); });
}
template <class D>
void pair_general(Warp& w, const Instruction& i, uint32_t active) {
  const float* high = w.reg<float>(i.a);
  const float* low = w.reg<float>(i.b);
  const Options options{static_cast<Rounding>(i.immediate), i.flags};
  uint32_t* d = w.reg<uint32_t>(i.dst);
  for_each_active(active, [&](int lane) {
    d[lane] = uint32_t{convert<D, float>(high[lane], options).bits} << 16 |
              convert<D, float>(low[lane], options).bits;
  });
}
void float_to_tf32(Warp& w, const Instruction& i, uint32_t active) {
  const float* a = w.reg<float>(i.a);
  uint32_t* d = w.reg<uint32_t>(i.dst);
  for_each_active(active, [&](int lane) {
    const float x = (i.flags & kRelu) && a[lane] <= 0 ? 0.0f : a[lane];
    // A NaN keeps its place among the NaNs of f32: all ones.
    d[lane] = x != x ? kCanonicalNan : encode<8, 10>(x, static_cast<Rounding>(i.immediate)) << 13;
  });
}

template <class D, class S, class DRegister>
Handler pick_source_register(int bytes) {
  if constexpr (sizeof(S) <= 2)
    if (bytes == 2) return convert_handler<D, S, DRegister, uint16_t>;
  if constexpr (sizeof(S) <= 4)
    if (bytes == 4) return convert_handler<D, S, DRegister, uint32_t>;
  return convert_handler<D, S, DRegister, uint64_t>;
}
template <class D, class S>
Handler pick_registers(int to, int from) {
  if constexpr (sizeof(D) <= 2)
    if (to == 2) return pick_source_register<D, S, uint16_t>(from);
  if constexpr (sizeof(D) <= 4)
    if (to == 4) return pick_source_register<D, S, uint32_t>(from);
  return pick_source_register<D, S, uint64_t>(from);
}
template <class D>
Handler pick_source(Type from, int to_bytes, int from_bytes) {
  switch (from) {
    case Type::U8:
      return pick_registers<D, uint8_t>(to_bytes, from_bytes);
    case Type::S8:
      return pick_registers<D, int8_t>(to_bytes, from_bytes);
    case Type::U16:
      return pick_registers<D, uint16_t>(to_bytes, from_bytes);
    case Type::S16:
      return pick_registers<D, int16_t>(to_bytes, from_bytes);
    case Type::U32:
      return pick_registers<D, uint32_t>(to_bytes, from_bytes);
    case Type::S32:
      return pick_registers<D, int32_t>(to_bytes, from_bytes);
    case Type::U64:
      return pick_registers<D, uint64_t>(to_bytes, from_bytes);
    case Type::S64:
      return pick_registers<D, int64_t>(to_bytes, from_bytes);
    case Type::F16:
      return pick_registers<D, HalfTag>(to_bytes, from_bytes);
    case Type::BF16:
      return pick_registers<D, BfloatTag>(to_bytes, from_bytes);
    case Type::F32:
      return pick_registers<D, float>(to_bytes, from_bytes);
    case Type::F64:
      return pick_registers<D, double>(to_bytes, from_bytes);
    default:
      return nullptr;
  }
}
Handler pick(Type to, Type from, int to_bytes, int from_bytes) {
  switch (to) {
    case Type::U8:
      return pick_source<uint8_t>(from, to_bytes, from_bytes);
    case Type::S8:
      return pick_source<int8_t>(from, to_bytes, from_bytes);
    case Type::U16:
      return pick_source<uint16_t>(from, to_bytes, from_bytes);
    case Type::S16:
      return pick_source<int16_t>(from, to_bytes, from_bytes);
    case Type::U32:
      return pick_source<uint32_t>(from, to_bytes, from_bytes);
    case Type::S32:
      return pick_source<int32_t>(from, to_bytes, from_bytes);
    case Type::U64:
      return pick_source<uint64_t>(from, to_bytes, from_bytes);
    case Type::S64:
      return pick_source<int64_t>(from, to_bytes, from_bytes);
    case Type::F16:
      return pick_source<HalfTag>(from, to_bytes, from_bytes);
    case Type::BF16:
      return pick_source<BfloatTag>(from, to_bytes, from_bytes);
    case Type::F32:
      return pick_source<float>(from, to_bytes, from_bytes);
    case Type::F64:
      return pick_source<double>(from, to_bytes, from_bytes);
    default:
      return nullptr;
  }
}

Handler pick_fast(Type to, Type from) {
  if (to == Type::F32 && from == Type::F16) return half_to_float;
  if (to == Type::F32 && from == Type::BF16) return bfloat_to_float;
  if (to == Type::F16 && from == Type::F32) return float_to_half;
  if (to == Type::BF16 && from == Type::F32) return float_to_bfloat;
  if (to == Type::F64 && from == Type::F32) return float_to_double;
  if (to == Type::F32 && from == Type::U32) return integer_to_float<uint32_t>;
  if (to == Type::F32 && from == Type::S32) return integer_to_float<int32_t>;
  return nullptr;
}

bool is_whole(Type type) {
  return is_integer(type) || type == Type::U8 || type == Type::S8;
}
bool is_half(Type type) {
  return type == Type::F16 || type == Type::BF16;
}

// Two f32 into a packed pair, the first into the high half.
void decode_pair(Decoder& d, Form& form, Instruction& out, Type to) {
  const int mode = form.take_one({"rn", "rz"});
  if (form.take("relu")) out.flags |= kRelu;
  if (mode < 0 || form.take_type() != Type::F32) form.unsupported();
  out.immediate = static_cast<int64_t>(mode ? Rounding::Zero : Rounding::NearestEven);
  const bool plain = out.flags == 0 && mode == 0;
  if (to == Type::F16X2) {
    out.handler = plain ? pair_nearest<half_nearest> : pair_general<HalfTag>;
  } else {
    out.handler = plain ? pair_nearest<bfloat_nearest> : pair_general<BfloatTag>;
  }
  out.dst = d.destination(d.operand(0), Type::B32);
  out.a = d.source(d.operand(1), Type::F32);
  out.b = d.source(d.operand(2), Type::F32);
}

void decode_tf32(Decoder& d, Form& form, Instruction& out) {
  const int mode = form.take_one({"rna", "rn", "rz"});
  constexpr Rounding kModes[] = {Rounding::NearestAway, Rounding::NearestEven, Rounding::Zero};
  if (mode > 0 && form.take("relu")) out.flags |= kRelu;
  if (mode < 0 || form.take_type() != Type::F32) form.unsupported();
  out.immediate = static_cast<int64_t>(kModes[mode]);
  out.handler = float_to_tf32;
  out.dst = d.destination(d.operand(0), Type::B32);
  out.a = d.source(d.operand(1), Type::F32);
}

// The rounding that the pair of types needs: to whole numbers, to a shorter format, or none.
Rounding take_rounding(Form& form, Instruction& out, Type to, Type from) {
  constexpr Rounding kModes[] = {Rounding::NearestEven, Rounding::Zero, Rounding::Down,
                                 Rounding::Up};
  const bool to_whole = is_whole(to), from_whole = is_whole(from);
  if (to_whole && from_whole) return Rounding::NearestEven;
  const bool same = to == from;
  int mode = -1;
  if (to_whole || same) {
    mode = form.take_one({"rni", "rzi", "rmi", "rpi"});
    if (mode >= 0 && same) out.flags |= kToWhole;
    if (mode < 0 && to_whole) form.unsupported("without a rounding");
  } else if (from_whole || byte_size(to) < byte_size(from)) {
    mode = form.take_one({"rn", "rz", "rm", "rp"});
    if (mode < 0) form.unsupported("without a rounding");
  } else if (is_half(to) && is_half(from)) {
    mode = form.take_one({"rn", "rz"});
    if (mode < 0) form.unsupported("without a rounding");
  }
  return mode < 0 ? Rounding::NearestEven : kModes[mode];
}

void decode_cvt(Decoder& d, Form& form, Instruction& out) {
  if (form.take("tf32")) return decode_tf32(d, form, out);
  const Type to = form.take_type();
  if (to == Type::F16X2 || to == Type::BF16X2) return decode_pair(d, form, out, to);
  const Type from = form.take_type();
  auto known = [](Type type) {
    return is_whole(type) || is_half(type) || type == Type::F32 || type == Type::F64;
  };
  if (!known(to) || !known(from)) form.unsupported();
  const Rounding rounding = take_rounding(form, out, to, from);
  const bool is_f32 = to == Type::F32 || from == Type::F32, wholes = is_whole(to) && is_whole(from);
  if (form.take("sat")) out.flags |= kSaturate;
  if (is_f32 && !wholes && form.take("ftz")) out.flags |= kFlush;
  if (is_half(to) && from == Type::F32 && rounding != Rounding::Down && rounding != Rounding::Up &&
      !(out.flags & (kSaturate | kFlush)) && form.take("relu"))
    out.flags |= kRelu;
  out.immediate = static_cast<int64_t>(rounding);
  if (!form.all_taken()) form.unsupported("this combination of modifiers");
  const bool plain = out.flags == 0 && rounding == Rounding::NearestEven;
  int to_bytes = 0, from_bytes = 0;
  out.dst = d.destination_any(d.operand(0), to_bytes, byte_size(to) == 1 ? 2 : byte_size(to));
  out.a = d.source_any(d.operand(1), from_bytes, byte_size(from) == 1 ? Type::B16 : from);
  const bool exact_registers = to_bytes == byte_size(to) && from_bytes == byte_size(from);
  if (plain && exact_registers) out.handler = pick_fast(to, from);
  if (!out.handler) out.handler = pick(to, from, to_bytes, from_bytes);
}

}  // namespace

void add_convert_opcodes(OpcodeTable& table) {
  table["cvt"] = decode_cvt;
}

}  // namespace fusednorm::emulator
