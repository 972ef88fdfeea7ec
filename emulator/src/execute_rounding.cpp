// SPDX-License-Identifier: Apache-2.0
// Arithmetic with directed rounding (.rz, .rm, .rp), done by the host's own rounding modes;
// compiled with -frounding-math.
#include <cfenv>
#include <cmath>

#include "execute_float.h"
#include "float_formats.h"
#include "lanes.h"

namespace fusednorm::emulator {
namespace {

class RoundingScope {
 public:
  explicit RoundingScope(Rounding mode) : saved_(std::fegetround()) {
    std::fesetround(mode == Rounding::Zero   ? FE_TOWARDZERO
                    : mode == Rounding::Down ? FE_DOWNWARD
                                             : FE_UPWARD);
  }
  ~RoundingScope() { std::fesetround(saved_); }

 private:
  int saved_;
};

enum class Operation { Add, Subtract, Multiply, Divide, Fma, SquareRoot, Reciprocal };

template <class T, Operation kOperation, bool kFlush, bool kSaturate>
void directed(Warp& w, const Instruction& i, uint32_t active) {
  const RoundingScope scope(static_cast<Rounding>(i.immediate));
  constexpr int kSources =
      kOperation == Operation::Fma                                                 ? 3
      : kOperation == Operation::SquareRoot || kOperation == Operation::Reciprocal ? 1
                                                                                   : 2;
  auto in = [](T x) {
    if constexpr (kFlush) return flush(x);
    return x;
  };
  for_each_active(active, [&](int lane) {
    // volatile keeps each operation between the two changes of the mode
    volatile T a = in(w.reg<T>(i.a)[lane]);
    volatile T b = kSources > 1 ? in(w.reg<T>(i.b)[lane]) : T(0);
    volatile T c = kSources > 2 ? in(w.reg<T>(i.c)[lane]) : T(0);
    volatile T result = 0;
    if (kOperation == Operation::Add) result = a + b;
    if (kOperation == Operation::Subtract) result = a - b;
    if (kOperation == Operation::Multiply) result = a * b;
    if (kOperation == Operation::Divide) result = a / b;
    if (kOperation == Operation::Fma) result = std::fma(T(a), T(b), T(c));
    if (kOperation == Operation::SquareRoot) result = std::sqrt(T(a));
    if (kOperation == Operation::Reciprocal) result = T(1) / a;
    T value = result;
    if constexpr (sizeof(T) == 4) {
      value = canonical(value);
      if (kFlush) value = flush(value);
      if (kSaturate) value = value > 0 ? (value < 1 ? value : T(1)) : T(0);
    }
    w.reg<T>(i.dst)[lane] = value;
  });
}

template <Operation kOperation>
Handler pick(Type type, bool ftz, bool sat) {
  if (type == Type::F64) return directed<double, kOperation, false, false>;
  if (ftz)
    return sat ? directed<float, kOperation, true, true> : directed<float, kOperation, true, false>;
  return sat ? directed<float, kOperation, false, true> : directed<float, kOperation, false, false>;
}

}  // namespace

Handler pick_directed_rounding(const std::string& name, Type type, bool ftz, bool sat) {
  if (name == "add") return pick<Operation::Add>(type, ftz, sat);
  if (name == "sub") return pick<Operation::Subtract>(type, ftz, sat);
  if (name == "mul") return pick<Operation::Multiply>(type, ftz, sat);
  if (name == "div") return pick<Operation::Divide>(type, ftz, sat);
  if (name == "fma" || name == "mad") return pick<Operation::Fma>(type, ftz, sat);
  if (name == "sqrt") return pick<Operation::SquareRoot>(type, ftz, sat);
  if (name == "rcp") return pick<Operation::Reciprocal>(type, ftz, sat);
  return nullptr;
}

}  // namespace fusednorm::emulator
