// SPDX-License-Identifier: Apache-2.0
// add, sub, mul, mad, div, rem, min, max, abs, neg, sad, carries, 24-bit products, dot products:
// against __int128.
#include "forms.h"

namespace {

using Wide = __int128;

void add_simple(std::vector<Form>& forms, const IntegerType& type) {
  const std::string name = type.name;
  const int n = type.bytes;
  auto binary = [&](const std::string& opcode, Wide (*op)(Wide, Wide)) {
    forms.push_back({opcode + "." + name + " %d, %a, %b;", n, {n, n}, [=](Bits a, Bits b, Bits) {
                       return Bits(op(whole(a, type), whole(b, type)));
                     }});
  };
  binary("add", [](Wide a, Wide b) { return a + b; });
  binary("sub", [](Wide a, Wide b) { return a - b; });
  binary("min", [](Wide a, Wide b) { return std::min(a, b); });
  binary("max", [](Wide a, Wide b) { return std::max(a, b); });
  // By zero: all ones and the dividend, as the device's own routine gives.
  binary("div", [](Wide a, Wide b) { return b == 0 ? Wide(-1) : a / b; });
  binary("rem", [](Wide a, Wide b) { return b == 0 ? a : a % b; });
  forms.push_back({"sad." + name + " %d, %a, %b, %c;", n, {n, n, n}, [=](Bits a, Bits b, Bits c) {
                     const Wide x = whole(a, type), y = whole(b, type);
                     return c + Bits(x > y ? x - y : y - x);
                   }});
  if (!type.is_signed) return;
  forms.push_back({"abs." + name + " %d, %a;", n, {n}, [=](Bits a, Bits, Bits) {
                     return Bits(whole(a, type) < 0 ? -whole(a, type) : whole(a, type));
                   }});
  forms.push_back({"neg." + name + " %d, %a;", n, {n}, [=](Bits a, Bits, Bits) {
                     return Bits(-whole(a, type));
                   }});
}

void add_products(std::vector<Form>& forms, const IntegerType& type) {
  const std::string name = type.name;
  const int n = type.bytes;
  for (const int shift : {0, 8 * n}) {
    // The high half of a 128-bit product: unsigned it needs all 128 bits, and the shift is logical.
    auto product = [=](Bits a, Bits b) {
      const Wide value = whole(a, type) * whole(b, type);
      return type.is_signed ? Bits(value >> shift) : Bits((unsigned __int128)value >> shift);
    };
    const std::string part = shift ? ".hi." : ".lo.";
    forms.push_back({"mul" + part + name + " %d, %a, %b;", n, {n, n}, [=](Bits a, Bits b, Bits) {
                       return product(a, b);
                     }});
    forms.push_back(
        {"mad" + part + name + " %d, %a, %b, %c;", n, {n, n, n}, [=](Bits a, Bits b, Bits c) {
           return product(a, b) + c;
         }});
  }
  if (n == 8) return;
  auto wide = [=](Bits a, Bits b) { return Bits(whole(a, type) * whole(b, type)); };
  forms.push_back({"mul.wide." + name + " %d, %a, %b;", 2 * n, {n, n}, [=](Bits a, Bits b, Bits) {
                     return wide(a, b);
                   }});
  forms.push_back(
      {"mad.wide." + name + " %d, %a, %b, %c;", 2 * n, {n, n, 2 * n}, [=](Bits a, Bits b, Bits c) {
         return wide(a, b) + c;
       }});
}

// Three limbs: the carry of the first goes through the second into the third.
void add_carries(std::vector<Form>& forms, const IntegerType& type) {
  const std::string name = type.name, spare = type.bytes == 4 ? "%x1" : "%y1";
  const int n = type.bytes, width = 8 * n;
  using U = unsigned __int128;
  const U mask = (U(1) << width) - 1;
  for (const bool subtract : {false, true}) {
    const std::string op = subtract ? "sub" : "add";
    forms.push_back({"{ " + op + ".cc." + name + " " + spare + ", %a, %b; " + op + "c.cc." + name +
                         " " + spare + ", %b, %c; " + op + "c." + name + " %d, " + spare +
                         ", %a; }",
                     n,
                     {n, n, n},
                     [=](Bits a, Bits b, Bits c) {
                       if (!subtract) {
                         const U middle = U(b) + c + ((U(a) + b) >> width);
                         return Bits((middle & mask) + a + (middle >> width));
                       }
                       const bool first = a < b, second = U(b) < U(c) + first;
                       return Bits(((U(b) - c - first) & mask) - a - second);
                     }});
  }
}

void add_24(std::vector<Form>& forms, bool is_signed) {
  const std::string name = is_signed ? "s32" : "u32";
  auto product = [=](Bits a, Bits b) {
    auto low = [=](Bits x) {
      x &= 0xffffff;
      return is_signed && (x >> 23) ? int64_t(x) - (1 << 24) : int64_t(x);
    };
    return low(a) * low(b);
  };
  for (const int shift : {0, 16}) {
    const std::string part = shift ? ".hi." : ".lo.";
    forms.push_back({"mul24" + part + name + " %d, %a, %b;", 4, {4, 4}, [=](Bits a, Bits b, Bits) {
                       return Bits(product(a, b) >> shift);
                     }});
    forms.push_back(
        {"mad24" + part + name + " %d, %a, %b, %c;", 4, {4, 4, 4}, [=](Bits a, Bits b, Bits c) {
           return Bits(product(a, b) >> shift) + c;
         }});
  }
}

void add_bytes_and_pairs(std::vector<Form>& forms) {
  for (const bool first : {false, true})
    for (const bool second : {false, true})
      forms.push_back({std::string("dp4a.") + (first ? "s32" : "u32") + (second ? ".s32" : ".u32") +
                           " %d, %a, %b, %c;",
                       4,
                       {4, 4, 4},
                       [=](Bits a, Bits b, Bits c) {
                         Wide sum = Wide(c);
                         for (int k = 0; k < 32; k += 8)
                           sum += whole(a >> k, {"", 1, first}) * whole(b >> k, {"", 1, second});
                         return Bits(sum);
                       }});
  for (const bool is_signed : {false, true}) {
    const IntegerType part{"", 2, is_signed};
    auto pairs = [&](const char* opcode, Wide (*op)(Wide, Wide)) {
      forms.push_back({std::string(opcode) + (is_signed ? ".s16x2" : ".u16x2") + " %d, %a, %b;",
                       4,
                       {4, 4},
                       [=](Bits a, Bits b, Bits) {
                         const Bits low = Bits(op(whole(a, part), whole(b, part))) & 0xffff;
                         return low | Bits(op(whole(a >> 16, part), whole(b >> 16, part))) << 16;
                       }});
    };
    pairs("add", [](Wide a, Wide b) { return a + b; });
    pairs("min", [](Wide a, Wide b) { return std::min(a, b); });
    pairs("max", [](Wide a, Wide b) { return std::max(a, b); });
  }
}

}  // namespace

std::vector<Form> integer_forms() {
  std::vector<Form> forms;
  for (const IntegerType& type : kIntegers) {
    add_simple(forms, type);
    add_products(forms, type);
    if (type.bytes >= 4) add_carries(forms, type);
  }
  for (const bool is_signed : {false, true}) add_24(forms, is_signed);
  add_bytes_and_pairs(forms);
  auto saturated = [](Wide x) { return Bits(std::clamp<Wide>(x, INT32_MIN, INT32_MAX)); };
  const IntegerType s32 = kIntegers[3];
  forms.push_back({"add.sat.s32 %d, %a, %b;", 4, {4, 4}, [=](Bits a, Bits b, Bits) {
                     return saturated(whole(a, s32) + whole(b, s32));
                   }});
  forms.push_back({"sub.sat.s32 %d, %a, %b;", 4, {4, 4}, [=](Bits a, Bits b, Bits) {
                     return saturated(whole(a, s32) - whole(b, s32));
                   }});
  return forms;
}
