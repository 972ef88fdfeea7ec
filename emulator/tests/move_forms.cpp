// SPDX-License-Identifier: Apache-2.0
// mov in all its uses, and addresses to and from the generic space.
#include "forms.h"

std::vector<Form> move_forms() {
  std::vector<Form> forms;
  const struct {
    const char* name;
    int bytes;
  } types[] = {{"b16", 2}, {"u16", 2}, {"s16", 2}, {"b32", 4}, {"u32", 4}, {"s32", 4},
               {"f32", 4}, {"b64", 8}, {"u64", 8}, {"s64", 8}, {"f64", 8}, {"pred", 0}};
  for (const auto& type : types)
    forms.push_back({std::string("mov.") + type.name + " %d, %a;",
                     type.bytes,
                     {type.bytes},
                     [](Bits a, Bits, Bits) { return a; }});
  auto constant = [&](const char* text, int bytes, Bits value) {
    forms.push_back({text, bytes, {4}, [=](Bits, Bits, Bits) { return value; }});
  };
  constant("mov.f32 %d, 0f3FC00000;", 4, 0x3fc00000);
  constant("mov.f64 %d, 0dBFF0000000000000;", 8, bits(-1.0));
  constant("mov.u32 %d, -7;", 4, ~6ull);
  forms.push_back(
      {"mov.b64 %d, {%a, %b};", 8, {4, 4}, [](Bits a, Bits b, Bits) { return a | b << 32; }});
  forms.push_back(
      {"mov.b32 %d, {%a, %b};", 4, {2, 2}, [](Bits a, Bits b, Bits) { return a | b << 16; }});
  forms.push_back({"mov.b64 %d, {%a, %b, %c, %a};", 8, {2, 2, 2}, [](Bits a, Bits b, Bits c) {
                     return a | b << 16 | c << 32 | a << 48;
                   }});
  forms.push_back(
      {"{ mov.b64 {%x1, %x2}, %a; xor.b32 %d, %x1, %x2; }", 4, {8}, [](Bits a, Bits, Bits) {
         return a ^ a >> 32;
       }});
  forms.push_back(
      {"{ mov.b32 {%hx1, %hx2}, %a; sub.s16 %d, %hx2, %hx1; }", 2, {4}, [](Bits a, Bits, Bits) {
         return (a >> 16) - a;
       }});
  forms.push_back({"{ mov.b64 {%hx1, _, _, %hx2}, %a; sub.s16 %d, %hx2, %hx1; }",
                   2,
                   {8},
                   [](Bits a, Bits, Bits) { return (a >> 48) - a; }});
  forms.push_back(
      {"{ .reg .b128 t; mov.b128 t, {%a, %b}; mov.b128 {%y1, %y2}, t; sub.s64 %d, %y2, %y1; }",
       8,
       {8, 8},
       [](Bits a, Bits b, Bits) { return b - a; }});
  forms.push_back(
      {"@%c mov.u32 %d, %a; @!%c mov.u32 %d, %b;", 4, {4, 4, 0}, [](Bits a, Bits b, Bits c) {
         return c ? a : b;
       }});
  forms.push_back(
      {"{ .reg .pred p; .reg .b32 t; setp.ne.s32 p, %a, 0; selp.u32 t, 1, 2, p; mov.u32 %d, t; }",
       4,
       {4},
       [](Bits a, Bits, Bits) { return Bits(a ? 1 : 2); }});
  for (const char* space : {"global", "shared", "shared::cta", "shared::cluster", "local", "const",
                            "param", "param::entry"}) {
    const std::string name = space;
    forms.push_back({"{ cvta." + name + ".u64 %y1, %a; cvta.to." + name + ".u64 %d, %y1; }",
                     8,
                     {8},
                     [](Bits a, Bits, Bits) { return a; }});
    forms.push_back({"{ cvta." + name + ".u32 %x1, %a; cvta.to." + name + ".u32 %d, %x1; }",
                     4,
                     {4},
                     [](Bits a, Bits, Bits) { return a; }});
  }
  return forms;
}
