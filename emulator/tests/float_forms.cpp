// SPDX-License-Identifier: Apache-2.0
// f32, f64 and f32x2 arithmetic with every rounding, .ftz and .sat: against the host's own
// arithmetic under the same rounding.
#include "forms.h"

namespace {

constexpr const char* kModeNames[] = {".rn", ".rz", ".rm", ".rp"};

// Around an operation on f32: what .ftz and .sat do to its inputs and its result.
struct Around {
  bool flush, saturate;
  float in(Bits b) const { return flush ? flushed(f(b)) : f(b); }
  Bits out(float x) const {
    if (flush) x = flushed(x);
    if (saturate) return x > 0 ? bits(std::min(x, 1.0f)) : 0;  // NaN becomes 0
    return single(x);
  }
  std::string name() const { return std::string(flush ? ".ftz" : "") + (saturate ? ".sat" : ""); }
};

enum class Op { Add, Subtract, Multiply, Divide, Fma, Root, Reciprocal };

template <class T>
T compute(Op op, Mode mode, T a, T b, T c) {
  return rounded(mode, [=] {
    volatile T x = a, y = b, z = c;
    switch (op) {
      case Op::Add:
        return T(x + y);
      case Op::Subtract:
        return T(x - y);
      case Op::Multiply:
        return T(x * y);
      case Op::Divide:
        return T(x / y);
      case Op::Fma:
        return T(std::fma(T(x), T(y), T(z)));
      case Op::Root:
        return T(std::sqrt(T(x)));
      default:
        return T(T(1) / x);
    }
  });
}

const struct {
  const char* name;
  Op op;
  int sources;
  bool needs_mode, has_saturation;
} kOps[] = {{"add", Op::Add, 2, false, true},      {"sub", Op::Subtract, 2, false, true},
            {"mul", Op::Multiply, 2, false, true}, {"fma", Op::Fma, 3, true, true},
            {"mad", Op::Fma, 3, true, true},       {"div", Op::Divide, 2, true, false},
            {"sqrt", Op::Root, 1, true, false},    {"rcp", Op::Reciprocal, 1, true, false}};

std::string operands(int sources) {
  return sources == 1 ? " %d, %a;" : sources == 2 ? " %d, %a, %b;" : " %d, %a, %b, %c;";
}

void add_arithmetic(std::vector<Form>& forms) {
  for (const auto& entry : kOps)
    for (int m = entry.needs_mode ? 0 : -1; m < 4; ++m) {
      const Mode mode = kModes[std::max(m, 0)];
      const std::string head = entry.name + std::string(m < 0 ? "" : kModeNames[m]);
      const std::vector<int> singles(static_cast<size_t>(entry.sources), 4);
      const std::vector<int> doubles(static_cast<size_t>(entry.sources), 8);
      const Op op = entry.op;
      for (const bool flush : {false, true})
        for (const bool saturate : {false, true}) {
          if (saturate && !entry.has_saturation) continue;
          const Around around{flush, saturate};
          forms.push_back({head + around.name() + ".f32" + operands(entry.sources), 4, singles,
                           [=](Bits a, Bits b, Bits c) {
                             return around.out(compute<float>(op, mode, around.in(a), around.in(b),
                                                              around.in(c)));
                           }});
          const bool packed = entry.has_saturation && std::string(entry.name) != "mad";
          if (saturate || m > 0 || !packed) continue;
          forms.push_back({head + around.name() + ".f32x2" + operands(entry.sources), 8, doubles,
                           [=](Bits a, Bits b, Bits c) {
                             auto part = [=](int shift) {
                               return around.out(compute<float>(op, mode, around.in(a >> shift),
                                                                around.in(b >> shift),
                                                                around.in(c >> shift)));
                             };
                             return part(0) | part(32) << 32;
                           }});
        }
      Form wide{head + ".f64" + operands(entry.sources), 8, doubles, [=](Bits a, Bits b, Bits c) {
                  return bits(compute<double>(op, mode, g(a), g(b), g(c)));
                }};
      wide.is_f64 = true;
      forms.push_back(wide);
    }
}

// Within two ulp of the exact value, or as wide as the PTX manual allows.
void add_approximate(std::vector<Form>& forms) {
  const struct {
    const char* name;
    int sources;
    double tolerance;
    double (*exact)(double, double);
    bool can_flush;
  } functions[] = {
      {"div.approx", 2, 3e-7, [](double a, double b) { return a / b; }, true},
      {"div.full", 2, 3e-7, [](double a, double b) { return a / b; }, true},
      {"rcp.approx", 1, 2e-7, [](double a, double) { return 1 / a; }, true},
      {"sqrt.approx", 1, 2e-7, [](double a, double) { return std::sqrt(a); }, true},
      {"rsqrt.approx", 1, 3e-7, [](double a, double) { return 1 / std::sqrt(a); }, true},
      {"ex2.approx", 1, 3e-7, [](double a, double) { return std::exp2(a); }, true},
      {"lg2.approx", 1, 3e-7, [](double a, double) { return std::log2(a); }, true},
      {"sin.approx", 1, 3e-6, [](double a, double) { return std::sin(a); }, true},
      {"cos.approx", 1, 3e-6, [](double a, double) { return std::cos(a); }, true},
      {"tanh.approx", 1, 1e-6, [](double a, double) { return std::tanh(a); }, false}};
  for (const auto& function : functions)
    for (const bool flush : {false, true}) {
      if (flush && !function.can_flush) continue;
      const Around around{flush, false};
      const auto exact = function.exact;
      forms.push_back({function.name + around.name() + ".f32" + operands(function.sources), 4,
                       std::vector<int>(static_cast<size_t>(function.sources), 4),
                       [=](Bits a, Bits b, Bits) {
                         return around.out(static_cast<float>(exact(around.in(a), around.in(b))));
                       },
                       function.tolerance});
    }
  // The f64 forms: 20 bits are good for any use of them; here the low word is zero.
  auto wide = [&](const std::string& text, bool flush, double (*exact)(double)) {
    Form form{text, 8, {8}, [=](Bits a, Bits, Bits) {
                auto zero = [=](double x) {
                  return flush && std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0, x) : x;
                };
                return bits(zero(g(bits(exact(zero(g(a)))) >> 32 << 32)));
              }};
    form.is_f64 = true;
    forms.push_back(form);
  };
  wide("rcp.approx.ftz.f64 %d, %a;", true, [](double x) { return 1 / x; });
  wide("rsqrt.approx.f64 %d, %a;", false, [](double x) { return 1 / std::sqrt(x); });
  wide("rsqrt.approx.ftz.f64 %d, %a;", true, [](double x) { return 1 / std::sqrt(x); });
}

void add_smallest(std::vector<Form>& forms) {
  for (const bool high : {false, true}) {
    const std::string name = high ? "max" : "min";
    auto pick = [=](float x, float y) { return high ? device_max(x, y) : device_min(x, y); };
    for (const bool flush : {false, true})
      for (const bool nan : {false, true}) {
        const Around around{flush, false};
        forms.push_back({name + around.name() + (nan ? ".NaN" : "") + ".f32 %d, %a, %b;",
                         4,
                         {4, 4},
                         [=](Bits a, Bits b, Bits) {
                           const float x = around.in(a), y = around.in(b);
                           return nan && (x != x || y != y) ? Bits(0x7fffffff)
                                                            : around.out(pick(x, y));
                         }});
      }
    forms.push_back({name + ".f32 %d, %a, %b, %c;", 4, {4, 4, 4}, [=](Bits a, Bits b, Bits c) {
                       return single(pick(pick(f(a), f(b)), f(c)));
                     }});
    Form wide{name + ".f64 %d, %a, %b;", 8, {8, 8}, [=](Bits a, Bits b, Bits) {
                return bits(high ? device_max(g(a), g(b)) : device_min(g(a), g(b)));
              }};
    wide.is_f64 = true;
    forms.push_back(wide);
  }
}

void add_signs(std::vector<Form>& forms) {
  const Bits top = 1ull << 63;
  for (const bool flush : {false, true}) {
    const std::string suffix = flush ? ".ftz.f32 %d, %a;" : ".f32 %d, %a;";
    auto in = [=](Bits a) { return flush && (a & 0x7f800000) == 0 ? a & 0x80000000 : a; };
    forms.push_back({"abs" + suffix, 4, {4}, [=](Bits a, Bits, Bits) { return in(a)&0x7fffffff; }});
    forms.push_back(
        {"neg" + suffix, 4, {4}, [=](Bits a, Bits, Bits) { return in(a) ^ 0x80000000; }});
  }
  forms.push_back({"abs.f64 %d, %a;", 8, {8}, [=](Bits a, Bits, Bits) { return a & ~top; }});
  forms.push_back({"neg.f64 %d, %a;", 8, {8}, [=](Bits a, Bits, Bits) { return a ^ top; }});
  forms.push_back({"copysign.f32 %d, %a, %b;", 4, {4, 4}, [](Bits a, Bits b, Bits) {
                     return (b & 0x7fffffff) | (a & 0x80000000);
                   }});
  forms.push_back({"copysign.f64 %d, %a, %b;", 8, {8, 8}, [=](Bits a, Bits b, Bits) {
                     return (b & ~top) | (a & top);
                   }});
  const struct {
    const char* name;
    bool (*holds)(int);
  } properties[] = {{"finite", [](int k) { return k != FP_NAN && k != FP_INFINITE; }},
                    {"infinite", [](int k) { return k == FP_INFINITE; }},
                    {"number", [](int k) { return k != FP_NAN; }},
                    {"notanumber", [](int k) { return k == FP_NAN; }},
                    {"normal", [](int k) { return k == FP_NORMAL; }},
                    {"subnormal", [](int k) { return k == FP_SUBNORMAL; }}};
  for (const auto& property : properties) {
    const auto holds = property.holds;
    const std::string head = std::string("testp.") + property.name;
    forms.push_back({head + ".f32 %d, %a;", 0, {4}, [=](Bits a, Bits, Bits) {
                       return Bits(holds(std::fpclassify(f(a))));
                     }});
    forms.push_back({head + ".f64 %d, %a;", 0, {8}, [=](Bits a, Bits, Bits) {
                       return Bits(holds(std::fpclassify(g(a))));
                     }});
  }
}

}  // namespace

std::vector<Form> float_forms() {
  std::vector<Form> forms;
  add_arithmetic(forms);
  add_approximate(forms);
  add_smallest(forms);
  add_signs(forms);
  return forms;
}
