// SPDX-License-Identifier: Apache-2.0
// What .ftz and .sat do around an operation on floats, and the handlers of operations so wrapped.
#pragma once

#include <cmath>

#include "float_formats.h"
#include "lanes.h"

namespace fusednorm::emulator {

// .ftz and .sat around an operation on f32.
template <class Op, bool kFlush, bool kSaturate>
struct Around {
  static float in(float x) { return kFlush ? flush(x) : x; }
  static float out(float x) {
    if (kFlush) x = flush(x);
    if (kSaturate) x = x > 0 ? (x < 1 ? x : 1.0f) : 0.0f;  // NaN becomes 0
    return x;
  }
  static float apply(float a) { return out(Op::apply(in(a))); }
  static float apply(float a, float b) { return out(Op::apply(in(a), in(b))); }
  static float apply(float a, float b, float c) { return out(Op::apply(in(a), in(b), in(c))); }
};

template <class Op>
Handler pick_unary(bool ftz, bool sat) {
  if (ftz)
    return sat ? unary_handler<float, Around<Op, true, true>>
               : unary_handler<float, Around<Op, true, false>>;
  return sat ? unary_handler<float, Around<Op, false, true>> : unary_handler<float, Op>;
}
template <class Op>
Handler pick_binary(bool ftz, bool sat) {
  if (ftz)
    return sat ? binary_handler<float, Around<Op, true, true>>
               : binary_handler<float, Around<Op, true, false>>;
  return sat ? binary_handler<float, Around<Op, false, true>> : binary_handler<float, Op>;
}
template <class Op>
Handler pick_ternary(bool ftz, bool sat) {
  if (ftz)
    return sat ? ternary_handler<float, Around<Op, true, true>>
               : ternary_handler<float, Around<Op, true, false>>;
  return sat ? ternary_handler<float, Around<Op, false, true>> : ternary_handler<float, Op>;
}

// The f64 forms give 32 good bits: the low word is cut off.
inline double cut(double x) {
  return bit_cast<double>(bit_cast<uint64_t>(x) & ~0xffffffffull);
}
inline double flush_wide(double x) {
  return std::fabs(x) < 0x1p-1022 ? std::copysign(0.0, x) : x;
}

}  // namespace fusednorm::emulator
