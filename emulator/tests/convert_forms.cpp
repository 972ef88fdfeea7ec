// SPDX-License-Identifier: Apache-2.0
// cvt between all types, with every rounding: exact in long double, rounded by the host or by
// looking the result up.
#include "forms.h"

namespace {

using Real = long double;  // holds every number of every type exactly

struct Number {
  const char* name;
  int bytes;  // of the number
  char kind;  // i: integer, h: f16, b: bf16, f: f32, d: f64
  bool is_signed;
  int register_bytes() const { return bytes == 1 ? 4 : bytes; }
  bool is_whole() const { return kind == 'i'; }
  bool is_half() const { return kind == 'h' || kind == 'b'; }
};
constexpr Number kNumbers[] = {
    {"u8", 1, 'i', false},  {"s8", 1, 'i', true},   {"u16", 2, 'i', false}, {"s16", 2, 'i', true},
    {"u32", 4, 'i', false}, {"s32", 4, 'i', true},  {"u64", 8, 'i', false}, {"s64", 8, 'i', true},
    {"f16", 2, 'h', true},  {"bf16", 2, 'b', true}, {"f32", 4, 'f', true},  {"f64", 8, 'd', true}};

Real value_of(Bits a, const Number& type) {
  switch (type.kind) {
    case 'h':
      return half(a);
    case 'b':
      return bfloat(a);
    case 'f':
      return f(a);
    case 'd':
      return g(a);
    default:
      return static_cast<Real>(whole(a, {"", type.bytes, type.is_signed}));
  }
}

Bits rounded_to(Real x, const Number& type, Mode mode) {
  if (type.kind == 'h') return to_half(x, mode);
  if (type.kind == 'b') return to_bfloat(x, mode);
  const auto convert = [=] {
    volatile Real from = x;
    return from;
  };
  if (type.kind == 'f') return single(rounded(mode, [=] { return static_cast<float>(convert()); }));
  return bits(rounded(mode, [=] { return static_cast<double>(convert()); }));
}

Real whole_part(Real x, Mode mode) {
  return mode == Mode::Zero   ? std::trunc(x)
         : mode == Mode::Down ? std::floor(x)
         : mode == Mode::Up   ? std::ceil(x)
                              : std::nearbyint(x);
}

// Integers are clamped to their type, into a register that may be wider.
Bits to_whole(Real x, const Number& type) {
  if (x != x) return 0;
  const int width = 8 * type.bytes;
  const Real low = type.is_signed ? -std::ldexp(1.0L, width - 1) : 0;
  const Real high = std::ldexp(1.0L, type.is_signed ? width - 1 : width) - 1;
  return Bits(static_cast<__int128>(std::clamp(x, low, high)));
}

struct Options {
  Mode mode = Mode::Nearest;
  bool to_whole = false, saturate = false, flush = false, relu = false;
};

Bits convert(Bits a, const Number& to, const Number& from, const Options& options) {
  if (to.is_whole() && from.is_whole()) {
    const __int128 x = whole(a, {"", from.bytes, from.is_signed});
    if (options.saturate) return to_whole(static_cast<Real>(x), to);
    return Bits(whole(Bits(x), {"", to.bytes, to.is_signed}));
  }
  Real x = value_of(a, from);
  if (options.flush && from.kind == 'f') x = flushed(f(a));
  if (to.is_whole()) return to_whole(whole_part(x, options.mode), to);
  // A widened bf16 keeps its bits, NaNs too.
  if (to.kind == 'f' && from.kind == 'b' && !options.saturate && !options.flush) return a << 16;
  if (options.to_whole) x = whole_part(x, options.mode);
  if (options.saturate) x = x > 0 ? std::min(x, Real(1)) : 0;
  if (options.relu && x <= 0) x = 0;
  const Bits out = rounded_to(x, to, options.mode);
  return options.flush && to.kind == 'f' ? bits(flushed(f(out))) : out;
}

void add(std::vector<Form>& forms, const Number& to, const Number& from,
         const std::string& rounding, Options options) {
  for (const bool saturate : {false, true})
    for (const bool flush : {false, true})
      for (const bool relu : {false, true}) {
        if (flush && ((to.is_whole() && from.is_whole()) || (to.kind != 'f' && from.kind != 'f')))
          continue;
        const bool nearer = options.mode == Mode::Nearest || options.mode == Mode::Zero;
        if (relu && !(to.is_half() && from.kind == 'f' && nearer && !saturate && !flush)) continue;
        options.saturate = saturate, options.flush = flush, options.relu = relu;
        Form form{"cvt" + rounding + (saturate ? ".sat" : "") + (flush ? ".ftz" : "") +
                      (relu ? ".relu" : "") + "." + to.name + "." + from.name + " %d, %a;",
                  to.register_bytes(),
                  {from.register_bytes()},
                  [=](Bits a, Bits, Bits) { return convert(a, to, from, options); }};
        form.is_f64 = to.kind == 'd';
        forms.push_back(form);
      }
}

void add_all_roundings(std::vector<Form>& forms, const Number& to, const Number& from) {
  const char* const plain[] = {".rn", ".rz", ".rm", ".rp"};
  const char* const whole_names[] = {".rni", ".rzi", ".rmi", ".rpi"};
  const bool same = to.kind == from.kind && !to.is_whole();
  Options options;
  if (to.is_whole() && from.is_whole()) {
    add(forms, to, from, "", options);
  } else if (to.is_whole() || same) {
    if (same) add(forms, to, from, "", options);
    options.to_whole = same;
    for (int m = 0; m < 4; ++m) {
      options.mode = kModes[m];
      add(forms, to, from, whole_names[m], options);
    }
  } else if (from.is_whole() || to.bytes < from.bytes || (to.is_half() && from.is_half())) {
    for (int m = 0; m < (to.is_half() && from.is_half() ? 2 : 4); ++m) {
      options.mode = kModes[m];
      add(forms, to, from, plain[m], options);
    }
  } else {
    add(forms, to, from, "", options);
  }
}

// tf32 is f32 with 13 bits fewer; the bits say how to round.
Bits to_tf32(Bits a, int mode, bool relu) {  // 0 rna, 1 rn, 2 rz
  if (f(a) != f(a)) return 0x7fffffff;
  if (relu && f(a) <= 0) return 0;
  const Bits low = a & ~0x1fffull, rest = a & 0x1fff, half_way = 0x1000;
  const bool up = mode == 0   ? rest >= half_way
                  : mode == 1 ? rest > half_way || (rest == half_way && (low >> 13 & 1))
                              : false;
  return up ? low + 0x2000 : low;
}

}  // namespace

std::vector<Form> convert_forms() {
  std::vector<Form> forms;
  for (const Number& to : kNumbers)
    for (const Number& from : kNumbers) add_all_roundings(forms, to, from);
  const char* const names[] = {".rna", ".rn", ".rz"};
  for (int mode = 0; mode < 3; ++mode)
    for (const bool relu : {false, true}) {
      if (relu && mode == 0) continue;
      const std::string head = std::string("cvt") + names[mode] + (relu ? ".relu" : "");
      forms.push_back({head + ".tf32.f32 %d, %a;", 4, {4}, [=](Bits a, Bits, Bits) {
                         return to_tf32(a, mode, relu);
                       }});
      if (mode == 0) continue;
      for (const bool brain : {false, true})  // the first operand is the high half
        forms.push_back({head + (brain ? ".bf16x2" : ".f16x2") + ".f32 %d, %a, %b;",
                         4,
                         {4, 4},
                         [=](Bits a, Bits b, Bits) {
                           auto one = [=](Bits x) {
                             if (relu && f(x) <= 0) x = 0;
                             return nearest_16(f(x), brain, mode == 1 ? Mode::Nearest : Mode::Zero);
                           };
                           return one(a) << 16 | one(b);
                         }});
    }
  return forms;
}
