// SPDX-License-Identifier: Apache-2.0
// Bit operations: and, or, xor, not, shifts, lop3, prmt, bfe, bfi, bmsk, popc, clz, brev, bfind.
#include "integer_operations.h"
#include "lanes.h"

namespace fusednorm::emulator {
namespace {

template <class T>
struct Not {
  static T apply(T a) { return T(~a); }
};
template <class T>
struct LogicalNot {
  static T apply(T a) { return a == 0; }
};

// Shifts clamp their amount at the width of the value.
template <class T>
void shift_left(Warp& w, const Instruction& i, uint32_t active) {
  const T* a = w.reg<T>(i.a);
  const uint32_t* b = w.reg<uint32_t>(i.b);
  constexpr uint32_t kBits = 8 * sizeof(T);
  for_lanes(w.reg<T>(i.dst), active, [=](int lane) {
    return b[lane] >= kBits ? T(0) : T(a[lane] << (b[lane] & (kBits - 1)));
  });
}

template <class T>
void shift_right(Warp& w, const Instruction& i, uint32_t active) {
  const T* a = w.reg<T>(i.a);
  const uint32_t* b = w.reg<uint32_t>(i.b);
  constexpr uint32_t kBits = 8 * sizeof(T);
  for_lanes(w.reg<T>(i.dst), active, [=](int lane) {
    const T rest = a[lane] < 0 ? T(-1) : T(0);
    return b[lane] >= kBits ? rest : T(a[lane] >> (b[lane] & (kBits - 1)));
  });
}

// flags: 1 right, 2 clamp
void funnel_shift(Warp& w, const Instruction& i, uint32_t active) {
  const uint32_t* a = w.reg<uint32_t>(i.a);
  const uint32_t* b = w.reg<uint32_t>(i.b);
  const uint32_t* c = w.reg<uint32_t>(i.c);
  for_lanes(w.reg<uint32_t>(i.dst), active, [=, flags = i.flags](int lane) {
    const uint64_t both = uint64_t{b[lane]} << 32 | a[lane];
    const uint32_t amount = (flags & 2) ? (c[lane] > 32 ? 32 : c[lane]) : (c[lane] & 31);
    return (flags & 1) ? uint32_t(both >> amount) : uint32_t((both << amount) >> 32);
  });
}

void three_input_logic(Warp& w, const Instruction& i, uint32_t active) {
  const uint32_t* a = w.reg<uint32_t>(i.a);
  const uint32_t* b = w.reg<uint32_t>(i.b);
  const uint32_t* c = w.reg<uint32_t>(i.c);
  uint32_t term[8];
  for (int k = 0; k < 8; ++k) term[k] = (i.immediate >> k & 1) ? ~0u : 0u;
  for_lanes(w.reg<uint32_t>(i.dst), active, [=](int lane) {
    const uint32_t x = a[lane], y = b[lane], z = c[lane];
    return (term[0] & ~x & ~y & ~z) | (term[1] & ~x & ~y & z) | (term[2] & ~x & y & ~z) |
           (term[3] & ~x & y & z) | (term[4] & x & ~y & ~z) | (term[5] & x & ~y & z) |
           (term[6] & x & y & ~z) | (term[7] & x & y & z);
  });
}

// mode: 0 the default, else the place in the list of modes in add_bit_opcodes, from 1
uint32_t permute_selector(int mode, uint32_t c) {
  const uint32_t s = c & 3;
  auto pack = [](uint32_t b3, uint32_t b2, uint32_t b1, uint32_t b0) {
    return b3 << 12 | b2 << 8 | b1 << 4 | b0;
  };
  switch (mode) {
    case 1:
      return pack(s + 3, s + 2, s + 1, s);
    case 2:
      return pack((s + 5) & 7, (s + 6) & 7, (s + 7) & 7, s);
    case 3:
      return pack(s, s, s, s);
    case 4:
      return pack(3, s > 2 ? s : 2, s > 1 ? s : 1, s);
    case 5:
      return pack(s, s < 2 ? s : 2, s < 1 ? s : 1, 0);
    case 6:
      return s & 1 ? pack(3, 2, 3, 2) : pack(1, 0, 1, 0);
    default:
      return c;
  }
}

void permute_bytes(Warp& w, const Instruction& i, uint32_t active) {
  const uint32_t* a = w.reg<uint32_t>(i.a);
  const uint32_t* b = w.reg<uint32_t>(i.b);
  const uint32_t* c = w.reg<uint32_t>(i.c);
  for_lanes(w.reg<uint32_t>(i.dst), active, [=, mode = i.flags](int lane) {
    const uint64_t both = uint64_t{b[lane]} << 32 | a[lane];
    const uint32_t selector = permute_selector(mode, c[lane]);
    uint32_t out = 0;
    for (int k = 0; k < 4; ++k) {
      const uint32_t pick = selector >> (4 * k) & 15;
      uint32_t byte = uint32_t(both >> (8 * (pick & 7))) & 255;
      if (pick & 8) byte = byte & 128 ? 255 : 0;
      out |= byte << (8 * k);
    }
    return out;
  });
}

template <class T>  // signed: the field's sign is extended
void extract_field(Warp& w, const Instruction& i, uint32_t active) {
  const T* a = w.reg<T>(i.a);
  const uint32_t* b = w.reg<uint32_t>(i.b);
  const uint32_t* c = w.reg<uint32_t>(i.c);
  constexpr uint32_t kBits = 8 * sizeof(T);
  using U = std::make_unsigned_t<T>;
  for_lanes(w.reg<T>(i.dst), active, [=](int lane) {
    const uint32_t position = b[lane] & 255, length = c[lane] & 255;
    if (length == 0) return T(0);
    const bool is_signed_value = T(-1) < T(0);
    const uint32_t last = position + length - 1 < kBits - 1 ? position + length - 1 : kBits - 1;
    const bool sign = is_signed_value && (U(a[lane]) >> last & 1);
    U field = position >= kBits ? 0 : U(a[lane]) >> position;
    const uint32_t kept = position >= kBits ? 0 : last - position + 1;
    const U mask = kept >= kBits ? ~U(0) : U((U(1) << kept) - 1);
    field &= mask;
    if (sign) field |= ~mask;
    return T(field);
  });
}

template <class T>
void insert_field(Warp& w, const Instruction& i, uint32_t active) {
  const T* a = w.reg<T>(i.a);
  const T* b = w.reg<T>(i.b);
  const uint32_t* c = w.reg<uint32_t>(i.c);
  const uint32_t* d = w.reg<uint32_t>(i.d);
  constexpr uint32_t kBits = 8 * sizeof(T);
  for_lanes(w.reg<T>(i.dst), active, [=](int lane) {
    const uint32_t position = c[lane] & 255, length = d[lane] & 255;
    if (length == 0 || position >= kBits) return b[lane];
    const T field = length >= kBits ? ~T(0) : T((T(1) << length) - 1);
    return T((b[lane] & ~(field << position)) | ((a[lane] & field) << position));
  });
}

void bit_mask(Warp& w, const Instruction& i, uint32_t active) {
  const uint32_t* a = w.reg<uint32_t>(i.a);
  const uint32_t* b = w.reg<uint32_t>(i.b);
  for_lanes(w.reg<uint32_t>(i.dst), active, [=, wrap = i.flags](int lane) {
    const uint32_t position = wrap ? a[lane] & 31 : a[lane], length = wrap ? b[lane] & 31 : b[lane];
    if (position >= 32) return 0u;
    const uint32_t field = length >= 32 ? ~0u : (1u << length) - 1;
    return field << position;
  });
}

template <class T>
void population_count(Warp& w, const Instruction& i, uint32_t active) {
  const T* a = w.reg<T>(i.a);
  for_lanes(w.reg<uint32_t>(i.dst), active,
            [=](int lane) { return uint32_t(__builtin_popcountll(a[lane])); });
}

template <class T>
void leading_zeros(Warp& w, const Instruction& i, uint32_t active) {
  const T* a = w.reg<T>(i.a);
  for_lanes(w.reg<uint32_t>(i.dst), active, [=](int lane) {
    return a[lane] == 0 ? uint32_t(8 * sizeof(T))
                        : uint32_t(__builtin_clzll(a[lane]) - (64 - 8 * int(sizeof(T))));
  });
}

template <class T>
void find_top_bit(Warp& w, const Instruction& i, uint32_t active) {
  using U = std::make_unsigned_t<T>;
  const T* a = w.reg<T>(i.a);
  for_lanes(w.reg<uint32_t>(i.dst), active, [=, shift = i.flags](int lane) {
    const U value = a[lane] < 0 ? U(~a[lane]) : U(a[lane]);
    if (value == 0) return 0xffffffffu;
    const uint32_t top = 63 - uint32_t(__builtin_clzll(value));
    return shift ? uint32_t(8 * sizeof(T)) - 1 - top : top;
  });
}

template <class T>
void reverse_bits(Warp& w, const Instruction& i, uint32_t active) {
  const T* a = w.reg<T>(i.a);
  for_lanes(w.reg<T>(i.dst), active, [=](int lane) {
    T out = 0;
    for (unsigned bit = 0; bit < 8 * sizeof(T); ++bit)
      out |= T(a[lane] >> bit & 1) << (8 * sizeof(T) - 1 - bit);
    return out;
  });
}

// Predicates are masks of 32 lanes: one word operation does them all. flags: 1 not a, 2 not b;
// immediate: the operation.
void predicate_logic(Warp& w, const Instruction& i, uint32_t active) {
  uint32_t a = w.predicate(i.a), b = i.b == kNone ? 0 : w.predicate(i.b);
  if (i.flags & 1) a = ~a;
  if (i.flags & 2) b = ~b;
  const uint32_t value = i.immediate == 0   ? a & b
                         : i.immediate == 1 ? a | b
                         : i.immediate == 2 ? a ^ b
                                            : ~a;
  write_predicate(w, i.dst, active, value);
}

void decode_logic(Decoder& d, Form& form, Instruction& out) {
  const std::string& name = form.opcode();
  const Type type = form.take_type();
  if (type == Type::Pred && name != "cnot") {
    out.handler = predicate_logic;
    out.immediate = name == "and" ? 0 : name == "or" ? 1 : name == "xor" ? 2 : 3;
    out.dst = d.predicate_destination(d.operand(0));
    bool negated = false;
    out.a = d.predicate_source(d.operand(1), negated);
    out.flags = negated ? 1 : 0;
    if (name != "not") {
      out.b = d.predicate_source(d.operand(2), negated);
      out.flags = static_cast<uint8_t>(out.flags | (negated ? 2 : 0));
    }
    return;
  }
  if (!is_bits(type)) form.unsupported();
  if (name == "and") out.handler = FUSEDNORM_SELECT_UNSIGNED(binary_handler, type, And);
  if (name == "or") out.handler = FUSEDNORM_SELECT_UNSIGNED(binary_handler, type, Or);
  if (name == "xor") out.handler = FUSEDNORM_SELECT_UNSIGNED(binary_handler, type, Xor);
  if (name == "not") out.handler = FUSEDNORM_SELECT_UNSIGNED(unary_handler, type, Not);
  if (name == "cnot") out.handler = FUSEDNORM_SELECT_UNSIGNED(unary_handler, type, LogicalNot);
  if (name == "not" || name == "cnot") {
    decode_unary(d, out, type);
  } else {
    decode_binary(d, out, type);
  }
}

void decode_shift(Decoder& d, Form& form, Instruction& out) {
  const bool left = form.opcode() == "shl";
  const Type type = form.take_type();
  if (!is_bits(type) && (left || !is_integer(type))) form.unsupported();
  if (left) {
    out.handler = byte_size(type) == 2   ? shift_left<uint16_t>
                  : byte_size(type) == 4 ? shift_left<uint32_t>
                                         : shift_left<uint64_t>;
  } else {
    out.handler = type == Type::S16      ? shift_right<int16_t>
                  : type == Type::S32    ? shift_right<int32_t>
                  : type == Type::S64    ? shift_right<int64_t>
                  : byte_size(type) == 2 ? shift_right<uint16_t>
                  : byte_size(type) == 4 ? shift_right<uint32_t>
                                         : shift_right<uint64_t>;
  }
  decode_unary(d, out, type);
  out.b = d.source(d.operand(2), Type::U32);
}

// An opcode on 32 or 64 bits whose result is 32 bits.
void decode_count(Decoder& d, Form& form, Instruction& out) {
  const std::string& name = form.opcode();
  const bool shift = name == "bfind" && form.take("shiftamt");
  const Type type = form.take_type();
  const bool wide = byte_size(type) == 8;
  const bool known = name == "bfind" ? is_integer(type) : is_bits(type);
  if (!known || byte_size(type) < 4) form.unsupported();
  if (name == "popc") out.handler = wide ? population_count<uint64_t> : population_count<uint32_t>;
  if (name == "clz") out.handler = wide ? leading_zeros<uint64_t> : leading_zeros<uint32_t>;
  if (name == "bfind") {
    out.flags = shift;
    out.handler = is_signed(type) ? (wide ? find_top_bit<int64_t> : find_top_bit<int32_t>)
                                  : (wide ? find_top_bit<uint64_t> : find_top_bit<uint32_t>);
  }
  out.dst = d.destination(d.operand(0), Type::U32);
  out.a = d.source(d.operand(1), type);
}

}  // namespace

void add_bit_opcodes(OpcodeTable& table) {
  for (const char* name : {"and", "or", "xor", "not", "cnot"}) table[name] = decode_logic;
  for (const char* name : {"shl", "shr"}) table[name] = decode_shift;
  for (const char* name : {"popc", "clz", "bfind"}) table[name] = decode_count;
  table["shf"] = [](Decoder& d, Form& form, Instruction& out) {
    const int direction = form.take_one({"l", "r"}), mode = form.take_one({"wrap", "clamp"});
    if (direction < 0 || mode < 0 || form.take_type() != Type::B32) form.unsupported();
    out.flags = static_cast<uint8_t>(direction | mode << 1);
    out.handler = funnel_shift;
    decode_ternary(d, out, Type::B32);
  };
  table["lop3"] = [](Decoder& d, Form& form, Instruction& out) {
    if (form.take_type() != Type::B32) form.unsupported();
    out.handler = three_input_logic;
    decode_ternary(d, out, Type::B32);
    out.immediate = d.operand(4).value;
  };
  table["prmt"] = [](Decoder& d, Form& form, Instruction& out) {
    if (form.take_type() != Type::B32) form.unsupported();
    out.flags =
        static_cast<uint8_t>(1 + form.take_one({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}));
    out.handler = permute_bytes;
    decode_ternary(d, out, Type::B32);
  };
  table["bfe"] = [](Decoder& d, Form& form, Instruction& out) {
    const Type type = form.take_type();
    out.handler = type == Type::U32   ? extract_field<uint32_t>
                  : type == Type::S32 ? extract_field<int32_t>
                  : type == Type::U64 ? extract_field<uint64_t>
                  : type == Type::S64 ? extract_field<int64_t>
                                      : nullptr;
    if (!out.handler) form.unsupported();
    decode_unary(d, out, type);
    out.b = d.source(d.operand(2), Type::U32);
    out.c = d.source(d.operand(3), Type::U32);
  };
  table["bfi"] = [](Decoder& d, Form& form, Instruction& out) {
    const Type type = form.take_type();
    if (type != Type::B32 && type != Type::B64) form.unsupported();
    out.handler = type == Type::B32 ? insert_field<uint32_t> : insert_field<uint64_t>;
    decode_binary(d, out, type);
    out.c = d.source(d.operand(3), Type::U32);
    out.d = d.source(d.operand(4), Type::U32);
  };
  table["bmsk"] = [](Decoder& d, Form& form, Instruction& out) {
    const int mode = form.take_one({"clamp", "wrap"});
    if (mode < 0 || form.take_type() != Type::B32) form.unsupported();
    out.flags = static_cast<uint8_t>(mode);
    out.handler = bit_mask;
    decode_binary(d, out, Type::B32);
  };
  table["brev"] = [](Decoder& d, Form& form, Instruction& out) {
    const Type type = form.take_type();
    if (type != Type::B32 && type != Type::B64) form.unsupported();
    out.handler = type == Type::B32 ? reverse_bits<uint32_t> : reverse_bits<uint64_t>;
    decode_unary(d, out, type);
  };
}

}  // namespace fusednorm::emulator
