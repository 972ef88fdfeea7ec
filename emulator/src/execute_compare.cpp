// SPDX-License-Identifier: Apache-2.0
// Comparison and selection: setp, set, selp, slct.
#include "float_formats.h"
#include "lanes.h"

namespace fusednorm::emulator {
namespace {

enum Comparison {
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kEqu,
  kNeu,
  kLtu,
  kLeu,
  kGtu,
  kGeu,
  kNum,
  kNan,
  kComparisons
};

template <int kComparison, class T>
inline bool compare(T a, T b) {
  switch (kComparison) {
    case kEq:
      return a == b;
    case kNe:
      return a < b || a > b;  // false for NaN, unlike !=
    case kLt:
      return a < b;
    case kLe:
      return a <= b;
    case kGt:
      return a > b;
    case kGe:
      return a >= b;
    case kEqu:
      return !(a < b || a > b);
    case kNeu:
      return a != b;
    case kLtu:
      return !(a >= b);
    case kLeu:
      return !(a > b);
    case kGtu:
      return !(a <= b);
    case kGeu:
      return !(a < b);
    case kNum:
      return a == a && b == b;
    default:
      return a != a || b != b;
  }
}

template <class T>
struct Plain {
  using Storage = T;
  static T load(T x) { return x; }
};
struct Flushed {
  using Storage = float;
  static float load(float x) { return flush(x); }
};
struct FromHalf {
  using Storage = uint16_t;
  static float load(uint16_t x) { return decode_half(x); }
};
struct FromBfloat {
  using Storage = uint16_t;
  static float load(uint16_t x) { return decode_bfloat(x); }
};

// Bit lane of the result: a OP b.
template <class Source, int kComparison>
inline uint32_t compare_lanes(Warp& w, const Instruction& i) {
  using S = typename Source::Storage;
  const S* a = w.reg<S>(i.a);
  const S* b = w.reg<S>(i.b);
  uint32_t bits = 0;
  for (int lane = 0; lane < 32; ++lane)
    bits |= uint32_t{compare<kComparison>(Source::load(a[lane]), Source::load(b[lane]))} << lane;
  return bits;
}

// flags: 1 c is negated; immediate: 0 none, 1 and, 2 or, 3 xor with predicate c
template <class Source, int kComparison>
void set_predicate(Warp& w, const Instruction& i, uint32_t active) {
  const uint32_t first = compare_lanes<Source, kComparison>(w, i);
  uint32_t value = first, other = ~first;
  if (i.immediate) {
    const uint32_t c = (i.flags & 1) ? ~w.predicate(i.c) : w.predicate(i.c);
    value = i.immediate == 1 ? first & c : i.immediate == 2 ? first | c : first ^ c;
    other = i.immediate == 1 ? ~first & c : i.immediate == 2 ? ~first | c : ~first ^ c;
  }
  write_predicate(w, i.dst, active, value);
  if (i.dst2 != kNone) write_predicate(w, i.dst2, active, other);
}

// Two comparisons a lane (f16x2, bf16x2): predicate dst for the low half, dst2 for the high one.
template <class Source, int kComparison>
void set_predicate_pair(Warp& w, const Instruction& i, uint32_t active) {
  const uint16_t* a = w.reg<uint16_t>(i.a);
  const uint16_t* b = w.reg<uint16_t>(i.b);
  uint32_t low = 0, high = 0;
  for (int lane = 0; lane < 32; ++lane) {
    low |= uint32_t{compare<kComparison>(Source::load(a[2 * lane]), Source::load(b[2 * lane]))}
           << lane;
    high |=
        uint32_t{compare<kComparison>(Source::load(a[2 * lane + 1]), Source::load(b[2 * lane + 1]))}
        << lane;
  }
  write_predicate(w, i.dst, active, low);
  if (i.dst2 != kNone) write_predicate(w, i.dst2, active, high);
}

// set: all ones or zero; flags: 2 gives 1.0 of the destination type instead (immediate holds its
// bits).
template <class Source, int kComparison>
void set_value(Warp& w, const Instruction& i, uint32_t active) {
  const uint32_t bits = compare_lanes<Source, kComparison>(w, i);
  const uint32_t one = static_cast<uint32_t>(i.immediate);
  if (i.width == 2) {
    for_lanes(w.reg<uint16_t>(i.dst), active,
              [=](int lane) { return uint16_t((bits >> lane & 1) ? one : 0); });
  } else {
    for_lanes(w.reg<uint32_t>(i.dst), active,
              [=](int lane) { return (bits >> lane & 1) ? one : 0; });
  }
}

template <class Source, int kComparison>
void set_value_pair(Warp& w, const Instruction& i, uint32_t active) {
  const uint16_t* a = w.reg<uint16_t>(i.a);
  const uint16_t* b = w.reg<uint16_t>(i.b);
  uint16_t* d = w.reg<uint16_t>(i.dst);
  for_each_active(active, [&](int lane) {
    for (int k = 2 * lane; k < 2 * lane + 2; ++k)
      d[k] = compare<kComparison>(Source::load(a[k]), Source::load(b[k]))
                 ? static_cast<uint16_t>(i.immediate)
                 : 0;
  });
}

enum class Form4 { Predicate, PredicatePair, Value, ValuePair };

template <class Source, int... k>
Handler pick_from(Form4 form, int comparison, std::integer_sequence<int, k...>) {
  static const Handler predicate[] = {set_predicate<Source, k>...};
  static const Handler value[] = {set_value<Source, k>...};
  if constexpr (sizeof(typename Source::Storage) == 2 &&
                !std::is_same_v<decltype(Source::load(0)), uint16_t> &&
                !std::is_same_v<decltype(Source::load(0)), int16_t>) {
    static const Handler predicate_pair[] = {set_predicate_pair<Source, k>...};
    static const Handler value_pair[] = {set_value_pair<Source, k>...};
    if (form == Form4::PredicatePair) return predicate_pair[comparison];
    if (form == Form4::ValuePair) return value_pair[comparison];
  }
  return form == Form4::Predicate ? predicate[comparison] : value[comparison];
}

template <class Source>
Handler pick(Form4 form, int comparison) {
  return pick_from<Source>(form, comparison, std::make_integer_sequence<int, kComparisons>());
}

Handler pick_by_type(Form4 form, int comparison, Type type, bool ftz) {
  switch (type) {
    case Type::B16:
    case Type::U16:
      return pick<Plain<uint16_t>>(form, comparison);
    case Type::B32:
    case Type::U32:
      return pick<Plain<uint32_t>>(form, comparison);
    case Type::B64:
    case Type::U64:
      return pick<Plain<uint64_t>>(form, comparison);
    case Type::S16:
      return pick<Plain<int16_t>>(form, comparison);
    case Type::S32:
      return pick<Plain<int32_t>>(form, comparison);
    case Type::S64:
      return pick<Plain<int64_t>>(form, comparison);
    case Type::F32:
      return ftz ? pick<Flushed>(form, comparison) : pick<Plain<float>>(form, comparison);
    case Type::F64:
      return pick<Plain<double>>(form, comparison);
    case Type::F16:
    case Type::F16X2:
      return pick<FromHalf>(form, comparison);
    case Type::BF16:
    case Type::BF16X2:
      return pick<FromBfloat>(form, comparison);
    default:
      return nullptr;
  }
}

bool is_pair(Type type) {
  return type == Type::F16X2 || type == Type::BF16X2;
}
bool is_half(Type type) {
  return type == Type::F16 || type == Type::BF16;
}

// Bits are equal or not; integers are ordered; only floating-point numbers can be unordered.
int take_comparison(Form& form, Type type) {
  if (is_bits(type)) return form.take_one({"eq", "ne"});
  if (is_integer(type)) {
    const int comparison = form.take_one({"eq", "ne", "lt", "le", "gt", "ge"});
    if (comparison >= 0 || is_signed(type)) return comparison;
    // The unsigned names of lt, le, gt, ge.
    const int alias = form.take_one({"lo", "ls", "hi", "hs"});
    return alias < 0 ? -1 : kLt + alias;
  }
  return form.take_one(
      {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"});
}

void decode_setp(Decoder& d, Form& form, Instruction& out) {
  const Type type = form.take_type();
  const int comparison = take_comparison(form, type);
  const bool ftz = type == Type::F32 && form.take("ftz");
  if (!is_pair(type)) out.immediate = 1 + form.take_one({"and", "or", "xor"});
  if (comparison < 0) form.unsupported();
  out.handler =
      pick_by_type(is_pair(type) ? Form4::PredicatePair : Form4::Predicate, comparison, type, ftz);
  if (!out.handler) form.unsupported();
  const Operand& destination = d.operand(0);
  out.dst = d.predicate_destination(destination);
  if (destination.second_reg >= 0) out.dst2 = d.register_offset(destination.second_reg);
  out.a = d.source(d.operand(1), type);
  out.b = d.source(d.operand(2), type);
  if (out.immediate) {
    bool negated = false;
    out.c = d.predicate_source(d.operand(3), negated);
    out.flags = negated;
  }
}

// What `set` gives for true; 0 if there is no such form.
int64_t true_value(Type to, Type from) {
  switch (to) {
    case Type::U32:
    case Type::S32:
      return is_pair(from) ? 0xffff : 0xffffffff;
    case Type::F32:
      return is_pair(from) ? 0 : 0x3f800000;
    case Type::U16:
    case Type::S16:
      return is_half(from) ? 0xffff : 0;
    case Type::F16:
      return is_pair(from) ? 0 : 0x3c00;
    case Type::BF16:
      return is_pair(from) ? 0 : 0x3f80;
    case Type::F16X2:
      return from == to ? 0x3c00 : 0;
    case Type::BF16X2:
      return from == to ? 0x3f80 : 0;
    default:
      return 0;
  }
}

void decode_set(Decoder& d, Form& form, Instruction& out) {
  const Type to = form.take_type(), from = form.take_type();
  const int comparison = take_comparison(form, from);
  const bool ftz = from == Type::F32 && form.take("ftz");
  out.width = static_cast<uint8_t>(byte_size(to));
  out.immediate = true_value(to, from);
  if (comparison < 0 || out.immediate == 0) form.unsupported();
  out.handler =
      pick_by_type(is_pair(from) ? Form4::ValuePair : Form4::Value, comparison, from, ftz);
  if (!out.handler) form.unsupported();
  out.dst = d.destination(d.operand(0), to);
  out.a = d.source(d.operand(1), from);
  out.b = d.source(d.operand(2), from);
}

template <class T>
void select(Warp& w, const Instruction& i, uint32_t active) {
  const T* a = w.reg<T>(i.a);
  const T* b = w.reg<T>(i.b);
  const uint32_t p = w.predicate(i.c);
  for_lanes(w.reg<T>(i.dst), active, [=](int lane) { return (p >> lane & 1) ? a[lane] : b[lane]; });
}

// -0 and, with .ftz, subnormal numbers count as zero; NaN as negative.
template <class T, class Source>
void select_by_sign(Warp& w, const Instruction& i, uint32_t active) {
  const T* a = w.reg<T>(i.a);
  const T* b = w.reg<T>(i.b);
  const auto* c = w.reg<typename Source::Storage>(i.c);
  for_lanes(w.reg<T>(i.dst), active,
            [=](int lane) { return Source::load(c[lane]) >= 0 ? a[lane] : b[lane]; });
}

template <class Source>
Handler pick_select_by_sign(int bytes) {
  return bytes == 2   ? select_by_sign<uint16_t, Source>
         : bytes == 4 ? select_by_sign<uint32_t, Source>
                      : select_by_sign<uint64_t, Source>;
}

bool is_selectable(Type type) {
  return is_bits(type) || is_integer(type) || type == Type::F32 || type == Type::F64;
}

}  // namespace

void add_compare_opcodes(OpcodeTable& table) {
  table["setp"] = decode_setp;
  table["set"] = decode_set;
  table["selp"] = [](Decoder& d, Form& form, Instruction& out) {
    const Type type = form.take_type();
    if (!is_selectable(type)) form.unsupported();
    const int bytes = byte_size(type);
    out.handler = bytes == 2 ? select<uint16_t> : bytes == 4 ? select<uint32_t> : select<uint64_t>;
    decode_binary(d, out, type);
    bool negated = false;
    out.c = d.predicate_source(d.operand(3), negated);
    if (negated) std::swap(out.a, out.b);
  };
  table["slct"] = [](Decoder& d, Form& form, Instruction& out) {
    const Type type = form.take_type(), sign = form.take_type();
    const bool ftz = sign == Type::F32 && form.take("ftz");
    if (!is_selectable(type) || (sign != Type::S32 && sign != Type::F32)) form.unsupported();
    const int bytes = byte_size(type);
    out.handler = sign == Type::S32 ? pick_select_by_sign<Plain<int32_t>>(bytes)
                  : ftz             ? pick_select_by_sign<Flushed>(bytes)
                                    : pick_select_by_sign<Plain<float>>(bytes);
    decode_binary(d, out, type);
    out.c = d.source(d.operand(3), sign);
  };
}

}  // namespace fusednorm::emulator
