// SPDX-License-Identifier: Apache-2.0
// f16 and bf16 arithmetic, single and packed, rounded once.
#include <cmath>

#include "execute_float.h"
#include "float_formats.h"
#include "lanes.h"

namespace fusednorm::emulator {
namespace {

struct Half {
  static constexpr uint16_t kNan = 0x7fff;
  static double decode(uint16_t bits) { return decode_half(bits); }
  static uint16_t encode(double x) { return encode_half(x); }
  static bool is_nan(uint16_t bits) { return (bits & 0x7fff) > 0x7c00; }
  static constexpr uint16_t kOne = 0x3c00, kInfinity = 0x7c00;
};
struct Bfloat {
  static constexpr uint16_t kNan = 0x7fff;
  static double decode(uint16_t bits) { return decode_bfloat(bits); }
  static uint16_t encode(double x) { return encode_bfloat(x); }
  static bool is_nan(uint16_t bits) { return (bits & 0x7fff) > 0x7f80; }
  static constexpr uint16_t kOne = 0x3f80, kInfinity = 0x7f80;
};

// A double holds sums (bf16: to well past twice the bits) and products of two such numbers; fma
// rounds to odd first.
template <class F>
struct Add {
  static uint16_t apply(uint16_t a, uint16_t b) { return F::encode(F::decode(a) + F::decode(b)); }
};
template <class F>
struct Subtract {
  static uint16_t apply(uint16_t a, uint16_t b) { return F::encode(F::decode(a) - F::decode(b)); }
};
template <class F>
struct Multiply {
  static uint16_t apply(uint16_t a, uint16_t b) { return F::encode(F::decode(a) * F::decode(b)); }
};
template <class F>
struct Fma {
  static uint16_t apply(uint16_t a, uint16_t b, uint16_t c) {
    return F::encode(add_to_odd(F::decode(a) * F::decode(b), F::decode(c)));
  }
};
template <class F>
struct Minimum {
  static uint16_t apply(uint16_t a, uint16_t b) {
    if (F::is_nan(a)) return F::is_nan(b) ? F::kNan : b;
    if (F::is_nan(b)) return a;
    const double x = F::decode(a), y = F::decode(b);
    return x < y || (x == y && (a & 0x8000)) ? a : b;
  }
};
template <class F>
struct Maximum {
  static uint16_t apply(uint16_t a, uint16_t b) {
    if (F::is_nan(a)) return F::is_nan(b) ? F::kNan : b;
    if (F::is_nan(b)) return a;
    const double x = F::decode(a), y = F::decode(b);
    return x > y || (x == y && !(a & 0x8000)) ? a : b;
  }
};
template <class F>
struct MinimumNan {
  static uint16_t apply(uint16_t a, uint16_t b) {
    return F::is_nan(a) || F::is_nan(b) ? F::kNan : Minimum<F>::apply(a, b);
  }
};
template <class F>
struct MaximumNan {
  static uint16_t apply(uint16_t a, uint16_t b) {
    return F::is_nan(a) || F::is_nan(b) ? F::kNan : Maximum<F>::apply(a, b);
  }
};
template <class F>
struct Absolute {
  static uint16_t apply(uint16_t a) { return a & 0x7fff; }
};
template <class F>
struct Negate {
  static uint16_t apply(uint16_t a) { return a ^ 0x8000; }
};
template <class F>
struct Exp2 {
  static uint16_t apply(uint16_t a) { return F::encode(std::exp2(F::decode(a))); }
};
template <class F>
struct Tanh {
  static uint16_t apply(uint16_t a) { return F::encode(std::tanh(F::decode(a))); }
};

enum Flags : uint8_t { kRelu = 1, kSaturate = 2, kFlush = 4 };

// kPacked lanes hold two numbers, 64 in a row.
template <class F, class Op, int kSources, bool kPacked>
void half_handler(Warp& w, const Instruction& i, uint32_t active) {
  uint16_t* d = w.reg<uint16_t>(i.dst);
  const uint16_t* a = w.reg<uint16_t>(i.a);
  const uint16_t* b = kSources > 1 ? w.reg<uint16_t>(i.b) : nullptr;
  const uint16_t* c = kSources > 2 ? w.reg<uint16_t>(i.c) : nullptr;
  auto at = [&](int k) {
    uint16_t value;
    if constexpr (kSources == 1) value = Op::apply(a[k]);
    if constexpr (kSources == 2) value = Op::apply(a[k], b[k]);
    if constexpr (kSources == 3) value = Op::apply(a[k], b[k], c[k]);
    if ((i.flags & kFlush) && (value & F::kInfinity) == 0) value &= 0x8000;
    if ((i.flags & kRelu) && !F::is_nan(value) && (value & 0x8000)) value = 0;
    if (i.flags & kSaturate) {
      if (F::is_nan(value) || (value & 0x8000)) value = 0;
      if (value > F::kOne) value = F::kOne;
    }
    d[k] = value;
  };
  for_each_active(active, [&](int lane) {
    if constexpr (kPacked) {
      at(2 * lane);
      at(2 * lane + 1);
    } else {
      at(lane);
    }
  });
}

template <class F, bool kPacked>
Handler pick(const std::string& name, bool nan) {
  if (name == "add") return half_handler<F, Add<F>, 2, kPacked>;
  if (name == "sub") return half_handler<F, Subtract<F>, 2, kPacked>;
  if (name == "mul") return half_handler<F, Multiply<F>, 2, kPacked>;
  if (name == "fma") return half_handler<F, Fma<F>, 3, kPacked>;
  if (name == "min")
    return nan ? half_handler<F, MinimumNan<F>, 2, kPacked>
               : half_handler<F, Minimum<F>, 2, kPacked>;
  if (name == "max")
    return nan ? half_handler<F, MaximumNan<F>, 2, kPacked>
               : half_handler<F, Maximum<F>, 2, kPacked>;
  if (name == "abs") return half_handler<F, Absolute<F>, 1, kPacked>;
  if (name == "neg") return half_handler<F, Negate<F>, 1, kPacked>;
  if (name == "ex2") return half_handler<F, Exp2<F>, 1, kPacked>;
  if (name == "tanh") return half_handler<F, Tanh<F>, 1, kPacked>;
  return nullptr;
}

}  // namespace

void decode_half_arithmetic(Decoder& d, Form& form, Instruction& out) {
  const std::string& name = form.opcode();
  const Type type = form.take_type();
  const bool bfloat = type == Type::BF16 || type == Type::BF16X2;
  const bool approximate = name == "ex2" || name == "tanh",
             smallest = name == "min" || name == "max";
  const bool sums = name == "add" || name == "sub" || name == "mul";
  const bool nan = smallest && form.take("NaN");
  if (approximate && !form.take("approx")) form.unsupported();
  if (sums) form.take("rn");  // the only rounding
  if (name == "fma" && !form.take("rn")) form.unsupported("without a rounding");
  if (!bfloat && (sums || name == "fma") && form.take("sat")) {
    out.flags = kSaturate;
  } else if (name == "fma" && form.take("relu")) {
    out.flags = kRelu;
  } else if (name == "ex2" && bfloat) {  // there is only an .ftz form
    if (!form.take("ftz")) form.unsupported("without .ftz");
    out.flags = kFlush;
  }
  out.handler = type == Type::F16      ? pick<Half, false>(name, nan)
                : type == Type::F16X2  ? pick<Half, true>(name, nan)
                : type == Type::BF16   ? pick<Bfloat, false>(name, nan)
                : type == Type::BF16X2 ? pick<Bfloat, true>(name, nan)
                                       : nullptr;
  if (!out.handler) form.unsupported();
  if (name == "fma") {
    decode_ternary(d, out, type);
  } else if (sums || smallest) {
    decode_binary(d, out, type);
  } else {
    decode_unary(d, out, type);
  }
}

}  // namespace fusednorm::emulator
