// SPDX-License-Identifier: Apache-2.0
// f32, f64 and packed f32x2 arithmetic: add, sub, mul, fma, div, rcp, sqrt, min, max, abs, neg.
#include "execute_float.h"

#include <cmath>

#include "float_around.h"

namespace fusednorm::emulator {
namespace {

// f32 results are canonical NaNs; f64 keeps the host's.
inline float finish(float x) {
  return canonical(x);
}
inline double finish(double x) {
  return x;
}
inline float fused(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
inline double fused(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}

template <class T>
struct Add {
  static T apply(T a, T b) { return finish(a + b); }
};
template <class T>
struct Subtract {
  static T apply(T a, T b) { return finish(a - b); }
};
template <class T>
struct Multiply {
  static T apply(T a, T b) { return finish(a * b); }
};
template <class T>
struct Divide {
  static T apply(T a, T b) { return finish(a / b); }
};
template <class T>
struct Fma {
  static T apply(T a, T b, T c) { return finish(fused(a, b, c)); }
};
template <class T>
struct Minimum {
  static T apply(T a, T b) {
    if (a != a) return finish(b);
    if (b != b) return a;
    return a < b || (a == b && std::signbit(a)) ? a : b;
  }
};
template <class T>
struct Maximum {
  static T apply(T a, T b) {
    if (a != a) return finish(b);
    if (b != b) return a;
    return a > b || (a == b && !std::signbit(a)) ? a : b;
  }
};
template <class T>
struct MinimumNan {
  static T apply(T a, T b) { return a != a || b != b ? finish(a + b) : Minimum<T>::apply(a, b); }
};
template <class T>
struct MaximumNan {
  static T apply(T a, T b) { return a != a || b != b ? finish(a + b) : Maximum<T>::apply(a, b); }
};
template <class T>
struct Absolute {
  static T apply(T a) { return std::fabs(a); }
};
template <class T>
struct Negate {
  static T apply(T a) { return -a; }
};
template <class T>
struct SquareRoot {
  static T apply(T a) { return finish(std::sqrt(a)); }
};
template <class T>
struct Reciprocal {
  static T apply(T a) { return finish(T(1) / a); }
};

struct ReciprocalWide {  // there is only an .ftz form
  static double apply(double a) { return flush_wide(cut(1.0 / flush_wide(a))); }
};
template <class Op>
struct Three {
  static float apply(float a, float b, float c) { return Op::apply(Op::apply(a, b), c); }
};

// Packed f32x2: a 64-bit register is two floats a lane, 64 floats in a row.
template <class Op, int kSources>
void packed_handler(Warp& w, const Instruction& i, uint32_t active) {
  float* d = w.reg<float>(i.dst);
  const float* a = w.reg<float>(i.a);
  const float* b = w.reg<float>(i.b);
  const float* c = kSources == 3 ? w.reg<float>(i.c) : nullptr;
  auto value = [=](int k) {
    if constexpr (kSources == 3) {
      return Op::apply(a[k], b[k], c[k]);
    } else {
      return Op::apply(a[k], b[k]);
    }
  };
  if (active == kFullMask) {
#pragma GCC ivdep
    for (int k = 0; k < 64; ++k) d[k] = value(k);
  } else {
    for_each_active(active, [&](int lane) {
      const float low = value(2 * lane), high = value(2 * lane + 1);
      d[2 * lane] = low;
      d[2 * lane + 1] = high;
    });
  }
}

bool decode_packed(Decoder& d, Form& form, Instruction& out, const std::string& name, bool ftz) {
  using A = Add<float>;
  using S = Subtract<float>;
  using M = Multiply<float>;
  using F = Fma<float>;
  if (name == "add")
    out.handler = ftz ? packed_handler<Around<A, true, false>, 2> : packed_handler<A, 2>;
  if (name == "sub")
    out.handler = ftz ? packed_handler<Around<S, true, false>, 2> : packed_handler<S, 2>;
  if (name == "mul")
    out.handler = ftz ? packed_handler<Around<M, true, false>, 2> : packed_handler<M, 2>;
  if (name == "fma")
    out.handler = ftz ? packed_handler<Around<F, true, false>, 3> : packed_handler<F, 3>;
  if (!out.handler) form.unsupported();
  if (name == "fma") {
    decode_ternary(d, out, Type::F32X2);
  } else {
    decode_binary(d, out, Type::F32X2);
  }
  return true;
}

Handler pick_double(const std::string& name) {
  if (name == "add") return binary_handler<double, Add<double>>;
  if (name == "sub") return binary_handler<double, Subtract<double>>;
  if (name == "mul") return binary_handler<double, Multiply<double>>;
  if (name == "div") return binary_handler<double, Divide<double>>;
  if (name == "min") return binary_handler<double, Minimum<double>>;
  if (name == "max") return binary_handler<double, Maximum<double>>;
  if (name == "abs") return unary_handler<double, Absolute<double>>;
  if (name == "neg") return unary_handler<double, Negate<double>>;
  if (name == "sqrt") return unary_handler<double, SquareRoot<double>>;
  if (name == "rcp") return unary_handler<double, Reciprocal<double>>;
  if (name == "fma" || name == "mad") return ternary_handler<double, Fma<double>>;
  return nullptr;
}

Handler pick_single(const std::string& name, bool ftz, bool sat, bool nan) {
  if (name == "add") return pick_binary<Add<float>>(ftz, sat);
  if (name == "sub") return pick_binary<Subtract<float>>(ftz, sat);
  if (name == "mul") return pick_binary<Multiply<float>>(ftz, sat);
  if (name == "div") return pick_binary<Divide<float>>(ftz, sat);
  if (name == "min")
    return nan ? pick_binary<MinimumNan<float>>(ftz, sat) : pick_binary<Minimum<float>>(ftz, sat);
  if (name == "max")
    return nan ? pick_binary<MaximumNan<float>>(ftz, sat) : pick_binary<Maximum<float>>(ftz, sat);
  if (name == "abs") return pick_unary<Absolute<float>>(ftz, sat);
  if (name == "neg") return pick_unary<Negate<float>>(ftz, sat);
  if (name == "sqrt") return pick_unary<SquareRoot<float>>(ftz, sat);
  if (name == "rcp") return pick_unary<Reciprocal<float>>(ftz, sat);
  if (name == "fma" || name == "mad") return pick_ternary<Fma<float>>(ftz, sat);
  return nullptr;
}

int source_count(const std::string& name) {
  if (name == "abs" || name == "neg" || name == "sqrt" || name == "rcp") return 1;
  return name == "fma" || name == "mad" ? 3 : 2;
}

void decode_float(Decoder& d, Form& form, Instruction& out) {
  const std::string& name = form.opcode();
  const bool smallest = name == "min" || name == "max", sign_only = name == "abs" || name == "neg";
  const bool iterative = name == "div" || name == "rcp" || name == "sqrt";
  const bool fused = name == "fma" || name == "mad";
  const bool ftz = form.take("ftz");
  const bool sat = !smallest && !sign_only && !iterative && form.take("sat");
  const bool nan = smallest && form.take("NaN");
  const bool approximate =
      iterative && (form.take("approx") || (name == "div" && form.take("full")));
  int mode = -1;  // -1: none given
  if (!smallest && !sign_only && !approximate) mode = form.take_one({"rn", "rz", "rm", "rp"});
  constexpr Rounding kModes[] = {Rounding::NearestEven, Rounding::Zero, Rounding::Down,
                                 Rounding::Up};
  const Rounding rounding = mode < 0 ? Rounding::NearestEven : kModes[mode];
  const Type type = form.take_type();
  if (mode < 0 && (fused || (iterative && !approximate))) form.unsupported("without a rounding");
  if (type == Type::F32X2) {
    if (rounding != Rounding::NearestEven || sat) form.unsupported();
    decode_packed(d, form, out, name, ftz);
    return;
  }
  if (type == Type::F64) {
    const bool short_reciprocal = name == "rcp" && approximate;
    if (ftz != short_reciprocal || sat || nan || (approximate && !short_reciprocal))
      form.unsupported();
  } else if (type != Type::F32) {
    form.unsupported();
  }
  if (iterative && !approximate) out.cost = 10;  // IEEE: a routine of about ten instructions
  const int sources = source_count(name);
  if (rounding != Rounding::NearestEven) {
    out.handler = pick_directed_rounding(name, type, ftz, sat);
    out.immediate = static_cast<int64_t>(rounding);
  } else if (type == Type::F64 && approximate) {
    out.handler = unary_handler<double, ReciprocalWide>;
  } else {
    out.handler = type == Type::F64 ? pick_double(name) : pick_single(name, ftz, sat, nan);
  }
  if (!out.handler) form.unsupported();
  if (smallest && d.operand_count() == 4) {
    if (type != Type::F32 || ftz || nan) form.unsupported("three operands");
    out.handler = name == "min" ? ternary_handler<float, Three<Minimum<float>>>
                                : ternary_handler<float, Three<Maximum<float>>>;
    decode_ternary(d, out, type);
  } else if (sources == 1) {
    decode_unary(d, out, type);
  } else if (sources == 2) {
    decode_binary(d, out, type);
  } else {
    decode_ternary(d, out, type);
  }
}

// add, sub, mul, div, min, max, abs, neg, fma: integer, floating-point or half by their type.
void decode_arithmetic(Decoder& d, Form& form, Instruction& out) {
  switch (form.type()) {
    case Type::F16:
    case Type::F16X2:
    case Type::BF16:
    case Type::BF16X2:
      decode_half_arithmetic(d, form, out);
      return;
    case Type::F32:
    case Type::F32X2:
    case Type::F64:
      decode_float(d, form, out);
      return;
    default:
      if (!decode_integer_arithmetic(d, form, out)) form.unsupported();
  }
}

template <class T>
void copy_sign(Warp& w, const Instruction& i, uint32_t active) {
  const T* a = w.reg<T>(i.a);
  const T* b = w.reg<T>(i.b);
  for_lanes(w.reg<T>(i.dst), active, [=](int lane) { return std::copysign(b[lane], a[lane]); });
}

// immediate: 0 finite, 1 infinite, 2 number, 3 notanumber, 4 normal, 5 subnormal
template <class T>
void test_property(Warp& w, const Instruction& i, uint32_t active) {
  const T* a = w.reg<T>(i.a);
  uint32_t value = 0;
  for (int lane = 0; lane < 32; ++lane) {
    const int kind = std::fpclassify(a[lane]);
    const bool property[] = {kind != FP_NAN && kind != FP_INFINITE,
                             kind == FP_INFINITE,
                             kind != FP_NAN,
                             kind == FP_NAN,
                             kind == FP_NORMAL,
                             kind == FP_SUBNORMAL};
    value |= uint32_t{property[i.immediate]} << lane;
  }
  write_predicate(w, i.dst, active, value);
}

}  // namespace

void add_float_opcodes(OpcodeTable& table) {
  for (const char* name : {"add", "sub", "mul", "div", "min", "max", "abs", "neg", "fma"})
    table[name] = decode_arithmetic;
  for (const char* name : {"sqrt", "rcp"}) table[name] = decode_float;
  const DecodeFunction integer_mad = table["mad"];
  static DecodeFunction kept_integer_mad;
  kept_integer_mad = integer_mad;
  table["mad"] = [](Decoder& d, Form& form, Instruction& out) {
    const Type type = form.type();
    (type == Type::F32 || type == Type::F64 ? decode_float : kept_integer_mad)(d, form, out);
  };
  table["copysign"] = [](Decoder& d, Form& form, Instruction& out) {
    const Type type = form.take_type();
    if (type != Type::F32 && type != Type::F64) form.unsupported();
    out.handler = type == Type::F32 ? copy_sign<float> : copy_sign<double>;
    decode_binary(d, out, type);
  };
  table["testp"] = [](Decoder& d, Form& form, Instruction& out) {
    out.immediate =
        form.take_one({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
    const Type type = form.take_type();
    if (out.immediate < 0 || (type != Type::F32 && type != Type::F64)) form.unsupported();
    out.handler = type == Type::F32 ? test_property<float> : test_property<double>;
    out.dst = d.predicate_destination(d.operand(0));
    out.a = d.source(d.operand(1), type);
  };
}

}  // namespace fusednorm::emulator
