// SPDX-License-Identifier: Apache-2.0
// Integer arithmetic: add, sub, mul, mad, div, rem, min, max, abs, neg, sad, carries and dot
// products of bytes.
#include <limits>
#include <type_traits>

#include "integer_operations.h"
#include "lanes.h"

namespace fusednorm::emulator {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;
template <class T>
using Wide = std::conditional_t<
    sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                       std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;
template <class T>
struct Subtract {
  static T apply(T a, T b) { return T(Safe<T>(a) - Safe<T>(b)); }
};
template <class T>
struct MultiplyLow {
  static T apply(T a, T b) { return T(Safe<T>(a) * Safe<T>(b)); }
};
template <class T>
struct MultiplyHigh {
  static T apply(T a, T b) { return T((Wide<T>(a) * Wide<T>(b)) >> (8 * sizeof(T))); }
};
template <class T>
struct MadLow {
  static T apply(T a, T b, T c) { return T(Safe<T>(a) * Safe<T>(b) + Safe<T>(c)); }
};
template <class T>
struct MadHigh {
  static T apply(T a, T b, T c) { return T(Safe<T>(MultiplyHigh<T>::apply(a, b)) + Safe<T>(c)); }
};
// Division by zero gives all ones and the remainder the dividend, as the device's own routine does.
template <class T>
struct Divide {
  static T apply(T a, T b) {
    if (b == 0) return T(-1);
    if (std::is_signed_v<T> && b == T(-1)) return T(Safe<T>(0) - Safe<T>(a));
    return T(a / b);
  }
};
template <class T>
struct Remainder {
  static T apply(T a, T b) {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == T(-1)) return 0;
    return T(a % b);
  }
};
template <class T>
struct Absolute {
  static T apply(T a) { return a < 0 ? T(Safe<T>(0) - Safe<T>(a)) : a; }
};
template <class T>
struct Negate {
  static T apply(T a) { return T(Safe<T>(0) - Safe<T>(a)); }
};
template <class T>
struct SumOfDifference {
  static T apply(T a, T b, T c) {
    return T(Safe<T>(c) + (a < b ? Safe<T>(b) - Safe<T>(a) : Safe<T>(a) - Safe<T>(b)));
  }
};
struct AddSaturated {
  static int32_t apply(int32_t a, int32_t b) {
    const int64_t sum = int64_t{a} + b;
    return sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : int32_t(sum);
  }
};
struct SubtractSaturated {
  static int32_t apply(int32_t a, int32_t b) {
    const int64_t sum = int64_t{a} - b;
    return sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : int32_t(sum);
  }
};
// Products of the low 24 bits: bits 0 to 31 of the 48, or 16 to 47.
template <class T, bool kHigh>
struct Multiply24 {
  static T low_bits(T x) { return T(uint32_t(x) << 8) >> 8; }
  static T apply(T a, T b) {
    return T((Wide<T>(low_bits(a)) * Wide<T>(low_bits(b))) >> (kHigh ? 16 : 0));
  }
  static T apply(T a, T b, T c) { return T(Unsigned<T>(apply(a, b)) + Unsigned<T>(c)); }
};
template <class T>
Handler pick_24(bool high, bool add) {
  if (add)
    return high ? ternary_handler<T, Multiply24<T, true>>
                : ternary_handler<T, Multiply24<T, false>>;
  return high ? binary_handler<T, Multiply24<T, true>> : binary_handler<T, Multiply24<T, false>>;
}

template <class T>
void multiply_wide(Warp& w, const Instruction& i, uint32_t active) {
  const T* a = w.reg<T>(i.a);
  const T* b = w.reg<T>(i.b);
  for_lanes(w.reg<Wide<T>>(i.dst), active,
            [=](int lane) { return Wide<T>(Wide<T>(a[lane]) * Wide<T>(b[lane])); });
}

template <class T>
void mad_wide(Warp& w, const Instruction& i, uint32_t active) {
  const T* a = w.reg<T>(i.a);
  const T* b = w.reg<T>(i.b);
  using Result = Unsigned<Wide<T>>;
  const Result* c = w.reg<Result>(i.c);
  for_lanes(w.reg<Result>(i.dst), active, [=](int lane) {
    return Result(Result(Wide<T>(a[lane]) * Wide<T>(b[lane])) + c[lane]);
  });
}

// flags: 1 subtract, 2 take the carry, 4 give the carry; the carry of a lane is in predicate d.
template <class T>
void add_with_carry(Warp& w, const Instruction& i, uint32_t active) {
  const T* a = w.reg<T>(i.a);
  const T* b = w.reg<T>(i.b);
  T* out = w.reg<T>(i.dst);
  const uint32_t carry_in = (i.flags & 2) ? w.predicate(i.d) : 0;
  uint32_t carry_out = 0;
  for_each_active(active, [&](int lane) {
    const T carry = carry_in >> lane & 1;
    T result;
    bool overflow;
    if (i.flags & 1) {
      overflow = __builtin_sub_overflow(a[lane], b[lane], &result);
      overflow |= __builtin_sub_overflow(result, carry, &result);
    } else {
      overflow = __builtin_add_overflow(a[lane], b[lane], &result);
      overflow |= __builtin_add_overflow(result, carry, &result);
    }
    out[lane] = result;
    carry_out |= uint32_t{overflow} << lane;
  });
  if (i.flags & 4) write_predicate(w, i.d, active, carry_out);
}

template <class A, class B>
void dot_product(Warp& w, const Instruction& i, uint32_t active) {
  const uint32_t* a = w.reg<uint32_t>(i.a);
  const uint32_t* b = w.reg<uint32_t>(i.b);
  const uint32_t* c = w.reg<uint32_t>(i.c);
  for_lanes(w.reg<uint32_t>(i.dst), active, [=](int lane) {
    uint32_t sum = c[lane];
    for (int k = 0; k < 4; ++k)
      sum += uint32_t(int32_t(A(a[lane] >> (8 * k))) * int32_t(B(b[lane] >> (8 * k))));
    return sum;
  });
}

// Two 16-bit numbers a lane, 64 in a row.
template <class T, class Op>
void pair_handler(Warp& w, const Instruction& i, uint32_t active) {
  const T *a = w.reg<T>(i.a), *b = w.reg<T>(i.b);
  T* d = w.reg<T>(i.dst);
  for_each_active(active, [&](int lane) {
    for (int k = 2 * lane; k < 2 * lane + 2; ++k) d[k] = Op::apply(a[k], b[k]);
  });
}

bool decode_pair(Decoder& d, Form& form, Instruction& out) {
  const bool is_unsigned = form.take("u16x2");
  if (!is_unsigned && !form.take("s16x2")) return false;
  const std::string& name = form.opcode();
  if (name == "add") out.handler = pair_handler<uint16_t, AddIntegers<uint16_t>>;
  if (name == "min")
    out.handler = is_unsigned ? pair_handler<uint16_t, SmallerInteger<uint16_t>>
                              : pair_handler<int16_t, SmallerInteger<int16_t>>;
  if (name == "max")
    out.handler = is_unsigned ? pair_handler<uint16_t, LargerInteger<uint16_t>>
                              : pair_handler<int16_t, LargerInteger<int16_t>>;
  if (!out.handler) form.unsupported();
  decode_binary(d, out, Type::B32);
  return true;
}

Type integer_type(Form& form) {
  const Type type = form.take_type();
  if (!is_integer(type)) form.unsupported();
  return type;
}

template <class Picker>
void decode_simple(Decoder& d, Form& form, Instruction& out, Picker pick) {
  const Type type = integer_type(form);
  out.handler = pick(type);
  decode_binary(d, out, type);
}

void decode_carry(Decoder& d, Form& form, Instruction& out) {
  const std::string& name = form.opcode();
  const bool gives = form.take("cc");
  const Type type = integer_type(form);
  if (byte_size(type) < 4) form.unsupported();
  const bool takes = name == "addc" || name == "subc";
  out.flags = static_cast<uint8_t>((name[0] == 's' ? 1 : 0) | (takes ? 2 : 0) | (gives ? 4 : 0));
  out.handler = byte_size(type) == 4 ? add_with_carry<uint32_t> : add_with_carry<uint64_t>;
  decode_binary(d, out, type);
  out.d = d.carry_predicate();
}

}  // namespace

// add, sub and mul, min, max, abs, neg also have floating-point forms: see decode_arithmetic in
// execute_float.cpp.
bool decode_integer_arithmetic(Decoder& d, Form& form, Instruction& out) {
  const std::string& name = form.opcode();
  if (decode_pair(d, form, out)) return true;
  if (name == "add" || name == "sub") {
    if (form.has("cc")) {
      decode_carry(d, form, out);
      return true;
    }
    if (form.take("sat")) {
      if (integer_type(form) != Type::S32) form.unsupported();
      out.handler = name == "add" ? binary_handler<int32_t, AddSaturated>
                                  : binary_handler<int32_t, SubtractSaturated>;
      decode_binary(d, out, Type::S32);
    } else if (name == "add") {
      decode_simple(d, form, out, [](Type t) {
        return FUSEDNORM_SELECT_UNSIGNED(binary_handler, t, AddIntegers);
      });
    } else {
      decode_simple(d, form, out,
                    [](Type t) { return FUSEDNORM_SELECT_UNSIGNED(binary_handler, t, Subtract); });
    }
  } else if (name == "mul") {
    const int part = form.take_one({"lo", "hi", "wide"});
    const bool low = part == 0, high = part == 1, wide = part == 2;
    if (low) {
      decode_simple(d, form, out, [](Type t) {
        return FUSEDNORM_SELECT_UNSIGNED(binary_handler, t, MultiplyLow);
      });
    } else if (high) {
      decode_simple(d, form, out, [](Type t) {
        return FUSEDNORM_SELECT_INTEGER(binary_handler, t, MultiplyHigh);
      });
    } else if (wide) {
      const Type type = integer_type(form);
      out.handler = type == Type::S16   ? multiply_wide<int16_t>
                    : type == Type::U16 ? multiply_wide<uint16_t>
                    : type == Type::S32 ? multiply_wide<int32_t>
                    : type == Type::U32 ? multiply_wide<uint32_t>
                                        : nullptr;
      if (!out.handler) form.unsupported();
      out.dst = d.destination(d.operand(0), byte_size(type) == 2 ? Type::B32 : Type::B64);
      out.a = d.source(d.operand(1), type);
      out.b = d.source(d.operand(2), type);
    } else {
      form.unsupported();
    }
  } else if (name == "div") {
    decode_simple(d, form, out,
                  [](Type t) { return FUSEDNORM_SELECT_INTEGER(binary_handler, t, Divide); });
  } else if (name == "min") {
    decode_simple(d, form, out, [](Type t) {
      return FUSEDNORM_SELECT_INTEGER(binary_handler, t, SmallerInteger);
    });
  } else if (name == "max") {
    decode_simple(d, form, out, [](Type t) {
      return FUSEDNORM_SELECT_INTEGER(binary_handler, t, LargerInteger);
    });
  } else if (name == "abs" || name == "neg") {
    const Type type = integer_type(form);
    if (!is_signed(type)) form.unsupported();
    const Handler absolute = FUSEDNORM_SELECT_INTEGER(unary_handler, type, Absolute);
    const Handler negate = FUSEDNORM_SELECT_INTEGER(unary_handler, type, Negate);
    out.handler = name == "abs" ? absolute : negate;
    decode_unary(d, out, type);
  } else {
    return false;
  }
  return true;
}

void add_integer_opcodes(OpcodeTable& table) {
  table["addc"] = table["subc"] = decode_carry;
  table["rem"] = [](Decoder& d, Form& form, Instruction& out) {
    decode_simple(d, form, out,
                  [](Type t) { return FUSEDNORM_SELECT_INTEGER(binary_handler, t, Remainder); });
  };
  table["mad"] = [](Decoder& d, Form& form, Instruction& out) {
    const int part = form.take_one({"lo", "hi", "wide"});
    const bool low = part == 0, high = part == 1, wide = part == 2;
    const Type type = integer_type(form);
    if (low) {
      out.handler = FUSEDNORM_SELECT_UNSIGNED(ternary_handler, type, MadLow);
      decode_ternary(d, out, type);
    } else if (high) {
      out.handler = FUSEDNORM_SELECT_INTEGER(ternary_handler, type, MadHigh);
      decode_ternary(d, out, type);
    } else if (wide && byte_size(type) <= 4) {
      out.handler = type == Type::S16   ? mad_wide<int16_t>
                    : type == Type::U16 ? mad_wide<uint16_t>
                    : type == Type::S32 ? mad_wide<int32_t>
                                        : mad_wide<uint32_t>;
      const Type result = byte_size(type) == 2 ? Type::B32 : Type::B64;
      out.dst = d.destination(d.operand(0), result);
      out.a = d.source(d.operand(1), type);
      out.b = d.source(d.operand(2), type);
      out.c = d.source(d.operand(3), result);
    } else {
      form.unsupported();
    }
  };
  table["mul24"] = table["mad24"] = [](Decoder& d, Form& form, Instruction& out) {
    const int part = form.take_one({"lo", "hi"});
    const Type type = integer_type(form);
    if (part < 0 || byte_size(type) != 4) form.unsupported();
    const bool high = part == 1, add = form.opcode() == "mad24";
    out.handler = is_signed(type) ? pick_24<int32_t>(high, add) : pick_24<uint32_t>(high, add);
    if (add) {
      decode_ternary(d, out, type);
    } else {
      decode_binary(d, out, type);
    }
  };
  table["sad"] = [](Decoder& d, Form& form, Instruction& out) {
    const Type type = integer_type(form);
    out.handler = FUSEDNORM_SELECT_INTEGER(ternary_handler, type, SumOfDifference);
    decode_ternary(d, out, type);
  };
  table["dp4a"] = [](Decoder& d, Form& form, Instruction& out) {
    const Type a = form.take_type(), b = form.take_type();
    if (a == Type::U32 && b == Type::U32) {
      out.handler = dot_product<uint8_t, uint8_t>;
    } else if (a == Type::S32 && b == Type::S32) {
      out.handler = dot_product<int8_t, int8_t>;
    } else if (a == Type::S32 && b == Type::U32) {
      out.handler = dot_product<int8_t, uint8_t>;
    } else if (a == Type::U32 && b == Type::S32) {
      out.handler = dot_product<uint8_t, int8_t>;
    } else {
      form.unsupported();
    }
    decode_ternary(d, out, Type::B32);
  };
}

}  // namespace fusednorm::emulator
