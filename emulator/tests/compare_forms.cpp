// SPDX-License-Identifier: Apache-2.0
// setp, set, selp, slct: every comparison on every type, with NaNs.
#include "forms.h"

namespace {

// -1 less, 0 equal, 1 greater, 2 unordered
using Order = int (*)(Bits, Bits);
template <class T>
int order_of(T a, T b) {
  return a < b ? -1 : a > b ? 1 : a == b ? 0 : 2;
}
struct Compared {
  const char* name;
  int bytes;
  char kind;  // b, u, s, f; h: half, p: pair of halves
  Order order;
};
const Compared kCompared[] = {
    {"b16", 2, 'b', [](Bits a, Bits b) { return order_of(a, b); }},
    {"b32", 4, 'b', [](Bits a, Bits b) { return order_of(a, b); }},
    {"b64", 8, 'b', [](Bits a, Bits b) { return order_of(a, b); }},
    {"u16", 2, 'u', [](Bits a, Bits b) { return order_of(a, b); }},
    {"u32", 4, 'u', [](Bits a, Bits b) { return order_of(a, b); }},
    {"u64", 8, 'u', [](Bits a, Bits b) { return order_of(a, b); }},
    {"s16", 2, 's', [](Bits a, Bits b) { return order_of(int16_t(a), int16_t(b)); }},
    {"s32", 4, 's', [](Bits a, Bits b) { return order_of(int32_t(a), int32_t(b)); }},
    {"s64", 8, 's', [](Bits a, Bits b) { return order_of(int64_t(a), int64_t(b)); }},
    {"f32", 4, 'f', [](Bits a, Bits b) { return order_of(f(a), f(b)); }},
    {"f64", 8, 'f', [](Bits a, Bits b) { return order_of(g(a), g(b)); }},
    {"f16", 2, 'h', [](Bits a, Bits b) { return order_of(half(a), half(b)); }},
    {"bf16", 2, 'h', [](Bits a, Bits b) { return order_of(bfloat(a), bfloat(b)); }},
    {"f16x2", 4, 'p', [](Bits a, Bits b) { return order_of(half(a), half(b)); }},
    {"bf16x2", 4, 'p', [](Bits a, Bits b) { return order_of(bfloat(a), bfloat(b)); }}};

struct Comparison {
  const char* name;
  const char* kinds;
  bool less, equal, greater, unordered;  // in which cases it holds
};
const Comparison kComparisons[] = {
    {"eq", "busfhp", false, true, false, false}, {"ne", "busfhp", true, false, true, false},
    {"lt", "usfhp", true, false, false, false},  {"le", "usfhp", true, true, false, false},
    {"gt", "usfhp", false, false, true, false},  {"ge", "usfhp", false, true, true, false},
    {"lo", "u", true, false, false, false},      {"ls", "u", true, true, false, false},
    {"hi", "u", false, false, true, false},      {"hs", "u", false, true, true, false},
    {"equ", "fhp", false, true, false, true},    {"neu", "fhp", true, false, true, true},
    {"ltu", "fhp", true, false, false, true},    {"leu", "fhp", true, true, false, true},
    {"gtu", "fhp", false, false, true, true},    {"geu", "fhp", false, true, true, true},
    {"num", "fhp", true, true, true, false},     {"nan", "fhp", false, false, false, true}};

using Test = std::function<bool(Bits, Bits)>;

Test test_of(const Comparison& comparison, const Compared& type, bool flush) {
  return [=](Bits a, Bits b) {
    if (flush) a = bits(flushed(f(a))), b = bits(flushed(f(b)));
    const int order = type.order(a, b);
    return order < 0    ? comparison.less
           : order == 0 ? comparison.equal
           : order == 1 ? comparison.greater
                        : comparison.unordered;
  };
}

void add_setp(std::vector<Form>& forms, const std::string& head, const Compared& type,
              const Test& test) {
  const int n = type.bytes;
  if (type.kind == 'p') {  // the first predicate is of the low halves
    const std::string tail = "." + std::string(type.name);
    forms.push_back({head + tail + " %d|%q1, %a, %b;", 0, {4, 4}, [=](Bits a, Bits b, Bits) {
                       return Bits(test(a & 0xffff, b & 0xffff));
                     }});
    forms.push_back({head + tail + " %q1|%d, %a, %b;", 0, {4, 4}, [=](Bits a, Bits b, Bits) {
                       return Bits(test(a >> 16, b >> 16));
                     }});
    return;
  }
  forms.push_back({head + "." + type.name + " %d, %a, %b;", 0, {n, n}, [=](Bits a, Bits b, Bits) {
                     return Bits(test(a, b));
                   }});
  const struct {
    const char* name;
    bool (*op)(bool, bool);
  } logic[] = {{".and", [](bool x, bool y) { return x && y; }},
               {".or", [](bool x, bool y) { return x || y; }},
               {".xor", [](bool x, bool y) { return x != y; }}};
  for (const auto& [name, op] : logic) {
    const auto with = op;
    forms.push_back({head + name + "." + type.name + " %d|%q1, %a, %b, %c;",
                     0,
                     {n, n, 0},
                     [=](Bits a, Bits b, Bits c) { return Bits(with(test(a, b), c)); }});
    // The second predicate is of the opposite comparison.
    forms.push_back({head + name + "." + type.name + " %q1|%d, %a, %b, !%c;",
                     0,
                     {n, n, 0},
                     [=](Bits a, Bits b, Bits c) { return Bits(with(!test(a, b), !c)); }});
  }
}

void add_set(std::vector<Form>& forms, const std::string& head, const Compared& type,
             const Test& test) {
  const struct {
    const char* name;
    int bytes;
    Bits yes;
    const char* kinds;  // of the numbers compared
  } results[] = {{"u32", 4, 0xffffffff, "busfh"}, {"s32", 4, 0xffffffff, "busfh"},
                 {"f32", 4, 0x3f800000, "busfh"}, {"f16", 2, 0x3c00, "busfh"},
                 {"bf16", 2, 0x3f80, "busfh"},    {"u16", 2, 0xffff, "h"},
                 {"s16", 2, 0xffff, "h"}};
  const int n = type.bytes;
  auto name = [&](const char* result) {
    return head + "." + result + "." + type.name + " %d, %a, %b;";
  };
  if (type.kind == 'p') {
    auto pair = [&](const char* result, Bits yes) {
      forms.push_back({name(result), 4, {4, 4}, [=](Bits a, Bits b, Bits) {
                         return (test(a & 0xffff, b & 0xffff) ? yes : 0) |
                                (test(a >> 16, b >> 16) ? yes << 16 : 0);
                       }});
    };
    pair("u32", 0xffff);
    pair("s32", 0xffff);
    pair(type.name, type.name[0] == 'b' ? 0x3f80 : 0x3c00);
    return;
  }
  for (const auto& result : results)
    if (std::strchr(result.kinds, type.kind))
      forms.push_back(
          {name(result.name), result.bytes, {n, n}, [=, yes = result.yes](Bits a, Bits b, Bits) {
             return test(a, b) ? yes : 0;
           }});
}

}  // namespace

std::vector<Form> compare_forms() {
  std::vector<Form> forms;
  for (const Compared& type : kCompared)
    for (const Comparison& comparison : kComparisons)
      for (const bool flush : {false, true}) {
        if (!std::strchr(comparison.kinds, type.kind)) continue;
        if (flush && std::string(type.name) != "f32") continue;
        const Test test = test_of(comparison, type, flush);
        const std::string tail = std::string(".") + comparison.name + (flush ? ".ftz" : "");
        add_setp(forms, "setp" + tail, type, test);
        add_set(forms, "set" + tail, type, test);
      }
  for (const Compared& type : kCompared) {
    if (type.kind == 'h' || type.kind == 'p') continue;
    const int n = type.bytes;
    const std::string name = type.name;
    forms.push_back({"selp." + name + " %d, %a, %b, %c;", n, {n, n, 0}, [](Bits a, Bits b, Bits c) {
                       return c ? a : b;
                     }});
    forms.push_back(
        {"selp." + name + " %d, %a, %b, !%c;", n, {n, n, 0}, [](Bits a, Bits b, Bits c) {
           return c ? b : a;
         }});
    forms.push_back(
        {"slct." + name + ".s32 %d, %a, %b, %c;", n, {n, n, 4}, [](Bits a, Bits b, Bits c) {
           return int32_t(c) >= 0 ? a : b;
         }});
    for (const bool flush : {false, true})
      forms.push_back(
          {std::string("slct") + (flush ? ".ftz." : ".") + name + ".f32 %d, %a, %b, %c;",
           n,
           {n, n, 4},
           [=](Bits a, Bits b, Bits c) { return (flush ? flushed(f(c)) : f(c)) >= 0 ? a : b; }});
  }
  return forms;
}
