// SPDX-License-Identifier: Apache-2.0
// Approximate functions: rsqrt, ex2, lg2, sin, cos, tanh.
#include "execute_float.h"
#include "float_around.h"

namespace fusednorm::emulator {
namespace {

// Approximate functions: the device's are within an ulp or two; here they are the rounded exact
// value.
struct ReciprocalRoot {
  static float apply(float a) { return canonical(float(1.0 / std::sqrt(double(a)))); }
};
struct Exp2 {
  static float apply(float a) { return canonical(std::exp2(a)); }
};
struct Log2 {
  static float apply(float a) { return canonical(std::log2(a)); }
};
struct Sine {
  static float apply(float a) { return canonical(std::sin(a)); }
};
struct Cosine {
  static float apply(float a) { return canonical(std::cos(a)); }
};
struct Tanh {
  static float apply(float a) { return canonical(std::tanh(a)); }
};
template <class Op>
struct FlushedWide {
  static double apply(double a) { return flush_wide(Op::apply(flush_wide(a))); }
};
struct ReciprocalRootWide {
  static double apply(double a) { return cut(1.0 / std::sqrt(a)); }
};

// .approx, f32 or half; rsqrt in f64 too.
template <class Op>
void decode_approximate(Decoder& d, Form& form, Instruction& out) {
  const Type type = form.type();
  const bool has_halves = form.opcode() == "ex2" || form.opcode() == "tanh";
  if (has_halves && (byte_size(type) == 2 || type == Type::F16X2 || type == Type::BF16X2)) {
    decode_half_arithmetic(d, form, out);
    return;
  }
  const bool ftz = form.opcode() != "tanh" && form.take("ftz");
  if (!form.take("approx")) form.unsupported();
  form.take_type();
  if (type == Type::F64 && form.opcode() == "rsqrt") {
    out.handler = ftz ? unary_handler<double, FlushedWide<ReciprocalRootWide>>
                      : unary_handler<double, ReciprocalRootWide>;
  } else if (type == Type::F32) {
    out.handler = pick_unary<Op>(ftz, false);
  } else {
    form.unsupported();
  }
  decode_unary(d, out, type);
}

}  // namespace

void add_approximate_opcodes(OpcodeTable& table) {
  table["rsqrt"] = decode_approximate<ReciprocalRoot>;
  table["ex2"] = decode_approximate<Exp2>;
  table["lg2"] = decode_approximate<Log2>;
  table["sin"] = decode_approximate<Sine>;
  table["cos"] = decode_approximate<Cosine>;
  table["tanh"] = decode_approximate<Tanh>;
}

}  // namespace fusednorm::emulator
