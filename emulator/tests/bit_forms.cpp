// SPDX-License-Identifier: Apache-2.0
// Logic, shifts, fields, permutations and counts of bits: against loops over single bits.
#include "forms.h"

namespace {

bool bit(Bits value, int at) {
  return value >> at & 1;
}

void add_logic(std::vector<Form>& forms) {
  for (const int n : {2, 4, 8}) {
    const std::string type = ".b" + std::to_string(8 * n);
    forms.push_back(
        {"and" + type + " %d, %a, %b;", n, {n, n}, [](Bits a, Bits b, Bits) { return a & b; }});
    forms.push_back(
        {"or" + type + " %d, %a, %b;", n, {n, n}, [](Bits a, Bits b, Bits) { return a | b; }});
    forms.push_back(
        {"xor" + type + " %d, %a, %b;", n, {n, n}, [](Bits a, Bits b, Bits) { return a ^ b; }});
    forms.push_back({"not" + type + " %d, %a;", n, {n}, [](Bits a, Bits, Bits) { return ~a; }});
    forms.push_back(
        {"cnot" + type + " %d, %a;", n, {n}, [](Bits a, Bits, Bits) { return Bits(a == 0); }});
  }
  forms.push_back({"and.pred %d, %a, %b;", 0, {0, 0}, [](Bits a, Bits b, Bits) { return a & b; }});
  forms.push_back(
      {"or.pred %d, !%a, %b;", 0, {0, 0}, [](Bits a, Bits b, Bits) { return (1 - a) | b; }});
  forms.push_back(
      {"xor.pred %d, %a, !%b;", 0, {0, 0}, [](Bits a, Bits b, Bits) { return a ^ (1 - b); }});
  forms.push_back({"not.pred %d, %a;", 0, {0}, [](Bits a, Bits, Bits) { return 1 - a; }});
  for (const int table : {0x00, 0x96, 0xe8, 0xca, 0x1b, 0xff})
    forms.push_back({"lop3.b32 %d, %a, %b, %c, " + std::to_string(table) + ";",
                     4,
                     {4, 4, 4},
                     [=](Bits a, Bits b, Bits c) {
                       Bits out = 0;
                       for (int k = 0; k < 32; ++k)
                         out |= Bits(table >> (bit(a, k) * 4 + bit(b, k) * 2 + bit(c, k)) & 1) << k;
                       return out;
                     }});
}

void add_shifts(std::vector<Form>& forms) {
  for (const int n : {2, 4, 8}) {
    const int width = 8 * n;
    forms.push_back(
        {"shl.b" + std::to_string(width) + " %d, %a, %b;", n, {n, 4}, [=](Bits a, Bits b, Bits) {
           return b >= Bits(width) ? 0 : a << b;
         }});
    for (const char kind : {'b', 'u', 's'})
      forms.push_back({std::string("shr.") + kind + std::to_string(width) + " %d, %a, %b;",
                       n,
                       {n, 4},
                       [=](Bits a, Bits b, Bits) {
                         const IntegerType type{"", n, kind == 's'};
                         return Bits(whole(a, type) >> std::min<Bits>(b, 127));
                       }});
  }
  for (const bool right : {false, true})
    for (const bool clamp : {false, true})
      forms.push_back({std::string("shf.") + (right ? "r." : "l.") + (clamp ? "clamp" : "wrap") +
                           ".b32 %d, %a, %b, %c;",
                       4,
                       {4, 4, 4},
                       [=](Bits a, Bits b, Bits c) {
                         const Bits by = clamp ? std::min<Bits>(c, 32) : c & 31, both = b << 32 | a;
                         return right ? both >> by : (both << by) >> 32;
                       }});
}

// The selector of each named mode of prmt, as the table of the PTX manual gives it, by c & 3.
Bits permute(Bits a, Bits b, Bits selector) {
  const Bits both = b << 32 | a;
  Bits out = 0;
  for (int k = 0; k < 4; ++k) {
    const Bits pick = selector >> (4 * k) & 15;
    Bits byte = both >> (8 * (pick & 7)) & 255;
    if (pick & 8) byte = byte & 128 ? 255 : 0;
    out |= byte << (8 * k);
  }
  return out;
}

void add_permutations(std::vector<Form>& forms) {
  forms.push_back({"prmt.b32 %d, %a, %b, %c;", 4, {4, 4, 4}, [](Bits a, Bits b, Bits c) {
                     return permute(a, b, c);
                   }});
  const struct {
    const char* mode;
    Bits selectors[4];
  } modes[] = {
      {"f4e", {0x3210, 0x4321, 0x5432, 0x6543}}, {"b4e", {0x5670, 0x6701, 0x7012, 0x0123}},
      {"rc8", {0x0000, 0x1111, 0x2222, 0x3333}}, {"ecl", {0x3210, 0x3211, 0x3222, 0x3333}},
      {"ecr", {0x0000, 0x1110, 0x2210, 0x3210}}, {"rc16", {0x1010, 0x3232, 0x1010, 0x3232}}};
  for (const auto& mode : modes)
    forms.push_back({std::string("prmt.b32.") + mode.mode + " %d, %a, %b, %c;",
                     4,
                     {4, 4, 4},
                     [=](Bits a, Bits b, Bits c) { return permute(a, b, mode.selectors[c & 3]); }});
}

void add_fields(std::vector<Form>& forms) {
  for (const int n : {4, 8}) {
    const int top = 8 * n - 1;
    for (const bool is_signed : {false, true}) {
      auto extract = [=](Bits a, Bits b, Bits c) {
        const int position = int(b & 255), length = int(c & 255);
        const bool sign = is_signed && length && bit(a, std::min(position + length - 1, top));
        Bits out = 0;
        for (int k = 0; k <= top; ++k)
          out |= Bits(k < length && position + k <= top ? bit(a, position + k) : sign) << k;
        return out;
      };
      const std::string opcode =
          std::string("bfe.") + (is_signed ? "s" : "u") + std::to_string(8 * n);
      forms.push_back({opcode + " %d, %a, %b, %c;", n, {n, 4, 4}, extract});
      forms.push_back({opcode + " %d, %a, 5, 9;", n, {n}, [=](Bits a, Bits, Bits) {
                         return extract(a, 5, 9);
                       }});
    }
    auto insert = [=](Bits a, Bits b, int position, int length) {
      for (int k = 0; k < length && position + k <= top; ++k)
        b = (b & ~(Bits(1) << (position + k))) | Bits(bit(a, k)) << (position + k);
      return b;
    };
    const std::string opcode = "bfi.b" + std::to_string(8 * n);
    forms.push_back({opcode + " %d, %a, %b, %c, 9;", n, {n, n, 4}, [=](Bits a, Bits b, Bits c) {
                       return insert(a, b, int(c & 255), 9);
                     }});
    forms.push_back({opcode + " %d, %a, %b, 7, %c;", n, {n, n, 4}, [=](Bits a, Bits b, Bits c) {
                       return insert(a, b, 7, int(c & 255));
                     }});
  }
  for (const bool wrap : {false, true})
    forms.push_back({std::string("bmsk.") + (wrap ? "wrap" : "clamp") + ".b32 %d, %a, %b;",
                     4,
                     {4, 4},
                     [=](Bits a, Bits b, Bits) {
                       const Bits first = wrap ? a & 31 : a, count = wrap ? b & 31 : b;
                       Bits out = 0;
                       for (Bits k = 0; k < 32; ++k)
                         out |= Bits(k >= first && k - first < count) << k;
                       return out;
                     }});
}

void add_counts(std::vector<Form>& forms) {
  for (const int n : {4, 8}) {
    const std::string type = ".b" + std::to_string(8 * n);
    const int width = 8 * n;
    auto top_bit = [=](Bits a) {  // -1: none
      int at = width - 1;
      while (at >= 0 && !bit(a, at)) --at;
      return at;
    };
    forms.push_back({"popc" + type + " %d, %a;", 4, {n}, [=](Bits a, Bits, Bits) {
                       Bits count = 0;
                       for (int k = 0; k < width; ++k) count += bit(a, k);
                       return count;
                     }});
    forms.push_back({"clz" + type + " %d, %a;", 4, {n}, [=](Bits a, Bits, Bits) {
                       return Bits(width - 1 - top_bit(a));
                     }});
    forms.push_back({"brev" + type + " %d, %a;", n, {n}, [=](Bits a, Bits, Bits) {
                       Bits out = 0;
                       for (int k = 0; k < width; ++k) out |= Bits(bit(a, k)) << (width - 1 - k);
                       return out;
                     }});
    for (const bool is_signed : {false, true})
      for (const bool shift : {false, true})
        forms.push_back({std::string("bfind") + (shift ? ".shiftamt" : "") +
                             (is_signed ? ".s" : ".u") + std::to_string(width) + " %d, %a;",
                         4,
                         {n},
                         [=](Bits a, Bits, Bits) {
                           if (is_signed && bit(a, width - 1)) a = ~a;
                           const int at = top_bit(a);
                           return at < 0 ? ~0ull : Bits(shift ? width - 1 - at : at);
                         }});
  }
}

}  // namespace

std::vector<Form> bit_forms() {
  std::vector<Form> forms;
  add_logic(forms);
  add_shifts(forms);
  add_permutations(forms);
  add_fields(forms);
  add_counts(forms);
  return forms;
}
