// SPDX-License-Identifier: Apache-2.0
// f16 and bf16 arithmetic, single and packed: exact in long double, then looked up among all the
// numbers of the format.
#include "forms.h"

namespace {

using Real = long double;

struct Format {
  const char* name;
  bool brain;
  Real number(Bits b) const { return brain ? bfloat(b) : half(b); }
  Bits round(Real x) const { return nearest_16(x, brain, Mode::Nearest); }
  Bits one() const { return brain ? 0x3f80 : 0x3c00; }
};
constexpr Format kFormats[] = {{"f16", false}, {"bf16", true}};

// The form on one number and, twice, on a pair.
void add(std::vector<Form>& forms, const std::string& head, const Format& format, int sources,
         const std::function<Bits(Bits, Bits, Bits)>& one) {
  const std::string operands = sources == 1   ? " %d, %a;"
                               : sources == 2 ? " %d, %a, %b;"
                                              : " %d, %a, %b, %c;";
  const size_t count = static_cast<size_t>(sources);
  forms.push_back({head + "." + format.name + operands, 2, std::vector<int>(count, 2), one});
  forms.push_back({head + "." + format.name + "x2" + operands, 4, std::vector<int>(count, 4),
                   [=](Bits a, Bits b, Bits c) {
                     return one(a & 0xffff, b & 0xffff, c & 0xffff) | one(a >> 16, b >> 16, c >> 16)
                                                                          << 16;
                   }});
}

Bits saturated(Bits x, const Format& format) {
  const Real value = format.number(x);
  return value > 0 ? (value < 1 ? x : format.one()) : 0;
}
Bits relu(Bits x, const Format& format) {
  const Real value = format.number(x);
  return value != value || value > 0 ? x : 0;
}

// x * y + z with what a long double loses of it: such a loss must not decide a tie.
Bits fused(Real x, Real y, Real z, const Format& format) {
  const Real product = x * y, sum = product + z;  // the product is exact: 22 bits
  const Real back = sum - product, lost = (product - (sum - back)) + (z - back);
  if (lost == 0 || std::isinf(sum) || sum != sum) return format.round(sum);
  return format.round(std::nextafter(sum, lost > 0 ? HUGE_VALL : -HUGE_VALL));
}

void add_sums(std::vector<Form>& forms, const Format& format) {
  const struct {
    const char* name;
    Real (*op)(Real, Real);
  } sums[] = {{"add", [](Real a, Real b) { return a + b; }},
              {"sub", [](Real a, Real b) { return a - b; }},
              {"mul", [](Real a, Real b) { return a * b; }}};
  for (const auto& sum : sums)
    for (const char* mode : {"", ".rn"})
      for (const bool saturate : {false, true}) {
        if (saturate && format.brain) continue;
        const auto op = sum.op;
        add(forms, std::string(sum.name) + mode + (saturate ? ".sat" : ""), format, 2,
            [=](Bits a, Bits b, Bits) {
              const Bits value = format.round(op(format.number(a), format.number(b)));
              return saturate ? saturated(value, format) : value;
            });
      }
  for (const char* after : {"", ".sat", ".relu"}) {
    const bool saturate = std::string(after) == ".sat", clip = std::string(after) == ".relu";
    if (saturate && format.brain) continue;
    add(forms, std::string("fma.rn") + after, format, 3, [=](Bits a, Bits b, Bits c) {
      const Bits value = fused(format.number(a), format.number(b), format.number(c), format);
      return saturate ? saturated(value, format) : clip ? relu(value, format) : value;
    });
  }
}

void add_rest(std::vector<Form>& forms, const Format& format) {
  for (const bool high : {false, true})
    for (const bool nan : {false, true})
      add(forms, std::string(high ? "max" : "min") + (nan ? ".NaN" : ""), format, 2,
          [=](Bits a, Bits b, Bits) {
            const Real x = format.number(a), y = format.number(b);
            if (nan && (x != x || y != y)) return Bits(0x7fff);
            return format.round(high ? device_max(x, y) : device_min(x, y));
          });
  add(forms, "abs", format, 1, [](Bits a, Bits, Bits) { return a & 0x7fff; });
  add(forms, "neg", format, 1, [](Bits a, Bits, Bits) { return a ^ 0x8000; });
  add(forms, "tanh.approx", format, 1,
      [=](Bits a, Bits, Bits) { return format.round(std::tanh(format.number(a))); });
  add(forms, format.brain ? "ex2.approx.ftz" : "ex2.approx", format, 1, [=](Bits a, Bits, Bits) {
    const Real value = std::exp2(format.number(a));
    return format.brain && value < 0x1p-126L ? Bits(0) : format.round(value);
  });
}

}  // namespace

std::vector<Form> half_forms() {
  std::vector<Form> forms;
  for (const Format& format : kFormats) {
    add_sums(forms, format);
    add_rest(forms, format);
  }
  return forms;
}
