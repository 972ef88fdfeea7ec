// SPDX-License-Identifier: Apache-2.0
// ld, ldu and st: every space, memory order, vector shape and type, through a lane's own 32 bytes.
#include "forms.h"

namespace {

struct Element {
  const char* name;
  int bytes;
  bool is_signed;
  // 8-bit numbers live in 16-bit registers.
  int register_bytes() const { return bytes == 1 ? 2 : bytes; }
};
constexpr Element kElements[] = {{"b8", 1, false},  {"u8", 1, false},  {"s8", 1, true},
                                 {"b16", 2, false}, {"u16", 2, false}, {"s16", 2, true},
                                 {"b32", 4, false}, {"u32", 4, false}, {"s32", 4, true},
                                 {"f32", 4, false}, {"b64", 8, false}, {"u64", 8, false},
                                 {"s64", 8, true},  {"f64", 8, false}, {"b128", 16, false}};

std::string register_of(const Element& type, int index) {
  const int n = type.register_bytes();
  return (n == 2 ? "%h" : n == 4 ? "%r" : n == 8 ? "%w" : "%b") + std::to_string(index);
}

// "{%r1, %r2}" or "%r1"
std::string list_of(const Element& type, int count) {
  std::string out;
  for (int k = 1; k <= count; ++k) out += (k > 1 ? ", " : "") + register_of(type, k);
  return count > 1 ? "{" + out + "}" : out;
}

// Folds 32-bit words into one, so that each word and its place matter.
uint32_t fold(uint32_t sum, uint32_t word) {
  return sum * 31 + word;
}
const std::string kFold = "mad.lo.s32 %r9, %r9, 31, ";

// The value in each register of the list, folded into %r9.
std::string fold_registers(const Element& type, int count) {
  std::string out = "mov.u32 %r9, 1; ";
  for (int k = 1; k <= count; ++k) {
    const std::string from = register_of(type, k);
    if (type.register_bytes() == 2) out += "cvt.u32.u16 %r18, " + from + "; " + kFold + "%r18; ";
    if (type.register_bytes() == 4) out += kFold + from + "; ";
    if (type.register_bytes() == 8)
      out += "mov.b64 {%r18, %r19}, " + from + "; " + kFold + "%r18; " + kFold + "%r19; ";
    if (type.register_bytes() == 16)
      out += "mov.b128 {%w9, %w10}, " + from + "; mov.b64 {%r18, %r19}, %w9; " + kFold + "%r18; " +
             kFold + "%r19; mov.b64 {%r18, %r19}, %w10; " + kFold + "%r18; " + kFold + "%r19; ";
  }
  return out;
}

uint32_t folded(const uint8_t* bytes, const Element& type, int count) {
  uint32_t sum = 1;
  for (int k = 0; k < count; ++k) {
    const uint8_t* at = bytes + k * type.bytes;
    if (type.bytes >= 4) {
      for (int word = 0; word < type.bytes / 4; ++word) {
        uint32_t value;
        std::memcpy(&value, at + 4 * word, 4);
        sum = fold(sum, value);
      }
    } else if (type.bytes == 2) {
      sum = fold(sum, uint32_t(at[0] | at[1] << 8));
    } else {
      sum = fold(sum, type.is_signed ? uint16_t(int16_t(int8_t(at[0]))) : at[0]);
    }
  }
  return sum;
}

using Memory = std::vector<uint8_t>;
Memory lane_bytes(const Words& in, int lane) {
  Memory out(32);
  std::memcpy(out.data(), &in[static_cast<size_t>(8 * lane)], 32);
  return out;
}

// How a lane's 32 bytes of a space are found: %w18 is their address, `fill` puts its part of `in`
// there.
struct Place {
  const char* space;
  std::string address;  // statements that leave the address in %w18; empty: the parameter
  bool fill, ordered;
  int most;  // bytes at once
};
const std::string kSlot = "shl.b32 %r18, %t, 5; cvt.u64.u32 %w17, %r18; ";
const std::string kTile = kSlot + "mov.u64 %w18, tile; add.s64 %w18, %w18, %w17; ";
const std::string kGlobal = kSlot + "add.s64 %w18, %in, %w17; ";
const std::string kDepot = "mov.u64 %w18, depot; ";
const std::string kVariable = kSlot + "mov.u64 %w18, variable; add.s64 %w18, %w18, %w17; ";

std::string filled(const std::string& space) {
  std::string out = kSlot + "add.s64 %w16, %in, %w17; ";
  for (int k = 0; k < 32; k += 8)
    out += "ld.global.b64 %w15, [%w16+" + std::to_string(k) + "]; st" + space + ".b64 [%w18+" +
           std::to_string(k) + "], %w15; ";
  return out;
}

bool exists(const Element& type, int count, int most) {
  if (type.bytes * count > most) return false;
  if (type.bytes == 16) return count == 1;
  return count < 8 || type.bytes == 4;
}

void add_loads(std::vector<WarpForm>& forms, const std::string& opcode, const Place& place) {
  const std::string space = *place.space ? std::string(".") + place.space : "";
  for (const char* order : {"", ".volatile", ".relaxed.gpu", ".acquire.sys"})
    for (const int count : {1, 2, 4, 8})
      for (const Element& type : kElements) {
        if ((*order && !place.ordered) || !exists(type, count, place.most)) continue;
        const std::string vector = count > 1 ? ".v" + std::to_string(count) : "";
        const std::string text = opcode + order + space + vector + "." + type.name;
        const bool parameter = place.address.empty(), constant = *place.space == 'c';
        forms.push_back({text,
                         place.address + (place.fill ? filled(space) : "") + text + " " +
                             list_of(type, count) + ", [" + (parameter ? "pair" : "%w18") + "]; " +
                             fold_registers(type, count),
                         [=](const Words& in, int lane) {
                           if (constant || parameter)
                             return folded(constant ? kTable : kParameter, type, count);
                           return folded(lane_bytes(in, lane).data(), type, count);
                         }});
      }
}

void add_stores(std::vector<WarpForm>& forms, const Place& place) {
  const std::string space = *place.space ? std::string(".") + place.space : "";
  for (const char* order : {"", ".volatile", ".relaxed.gpu", ".release.cta"})
    for (const int count : {1, 2, 4, 8})
      for (const Element& type : kElements) {
        if ((*order && !place.ordered) || !exists(type, count, place.most)) continue;
        const std::string vector = count > 1 ? ".v" + std::to_string(count) : "";
        const std::string text = std::string("st") + order + space + vector + "." + type.name;
        // The first bytes are overwritten with those of the lane, shifted by one word.
        std::string body = place.address + filled(space);
        for (int k = 0; k < count; ++k) {
          const std::string from = "[%w16+" + std::to_string((4 + 4 * k) % 32) + "]";
          const std::string into = register_of(type, k + 1);
          if (type.register_bytes() == 2) body += "ld.global.b16 " + into + ", " + from + "; ";
          if (type.register_bytes() == 4) body += "ld.global.b32 " + into + ", " + from + "; ";
          if (type.register_bytes() == 8)
            body += "ld.global.b32 %r18, " + from + "; not.b32 %r19, %r18; mov.b64 " + into +
                    ", {%r18, %r19}; ";
          if (type.register_bytes() == 16)
            body += "ld.global.b32 %r18, " + from +
                    "; not.b32 %r19, %r18; mov.b64 %w9, {%r18, %r19}; mov.b128 " + into +
                    ", {%w9, %w9}; ";
        }
        body += text + " [%w18], " + list_of(type, count) + "; mov.u32 %r9, 1; ";
        for (int k = 0; k < 32; k += 4)
          body += "ld" + space + ".b32 %r18, [%w18+" + std::to_string(k) + "]; " + kFold + "%r18; ";
        forms.push_back({text, body, [=](const Words& in, int lane) {
                           Memory memory = lane_bytes(in, lane);
                           for (int k = 0; k < count; ++k) {
                             const uint32_t word = in[static_cast<size_t>(8 * lane + (1 + k) % 8)];
                             const uint32_t words[4] = {word, ~word, word, ~word};
                             std::memcpy(memory.data() + k * type.bytes, words,
                                         static_cast<size_t>(type.bytes));
                           }
                           return folded(memory.data(), kElements[6], 8);
                         }});
      }
}

// Parameters of a call: stored, handed to a function that gives them back folded.
void add_parameter_stores(std::vector<WarpForm>& forms) {
  for (const char* space : {"param", "param::func", "param::entry"})
    for (const int count : {1, 2, 4})
      for (const Element& type : kElements) {
        if (!exists(type, count, 16)) continue;
        const std::string vector = count > 1 ? ".v" + std::to_string(count) : "";
        const std::string text = std::string("st.") + space + vector + "." + type.name;
        std::string body = kGlobal + "{ .param .align 16 .b8 x[32]; .param .b32 y; ";
        for (int k = 0; k < 32; k += 8)
          body += "ld.global.b64 %w15, [%w18+" + std::to_string(k) + "]; st.param.b64 [x+" +
                  std::to_string(k) + "], %w15; ";
        body += std::string("ld.global") + vector + "." + type.name + " " + list_of(type, count) +
                ", [%w18+16]; " + text + " [x], " + list_of(type, count) +
                "; call.uni (y), words, (x); ld.param.b32 %r9, [y]; }";
        forms.push_back({text, body, [=](const Words& in, int lane) {
                           Memory memory = lane_bytes(in, lane);
                           std::memcpy(memory.data(), memory.data() + 16,
                                       static_cast<size_t>(type.bytes * count));
                           return folded(memory.data(), kElements[6], 8);
                         }});
      }
}

// Advice about caches: the value is loaded or stored all the same.
void add_advice(std::vector<WarpForm>& forms) {
  auto load = [&](const std::string& text) {
    forms.push_back({text, text + " %r9, [%mine];",
                     [](const Words& in, int lane) { return in[static_cast<size_t>(4 * lane)]; }});
  };
  auto store = [&](const std::string& text) {
    forms.push_back({text, kVariable + text + " [%w18], %t; ld.global.b32 %r9, [%w18];",
                     [](const Words&, int lane) { return uint32_t(lane); }});
  };
  for (const char* hint : {"ca",
                           "cg",
                           "cs",
                           "lu",
                           "cv",
                           "wb",
                           "wt",
                           "L2::cache_hint",
                           "L2::64B",
                           "L2::128B",
                           "L2::256B",
                           "L1::evict_normal",
                           "L1::evict_unchanged",
                           "L1::evict_first",
                           "L1::evict_last",
                           "L1::no_allocate",
                           "L2::evict_normal",
                           "L2::evict_first",
                           "L2::evict_last",
                           "weak"}) {
    load(std::string("ld.global.") + hint + ".b32");
    load(std::string("ldu.global.") + hint + ".b32");
    store(std::string("st.global.") + hint + ".b32");
  }
  load("ld.global.nc.b32");
  load("ldu.global.nc.b32");
  for (const char* scope : {"cta", "cluster", "gpu", "sys"}) {
    load(std::string("ld.relaxed.") + scope + ".global.b32");
    store(std::string("st.relaxed.") + scope + ".global.b32");
  }
  load("ld.mmio.relaxed.sys.global.b32");
  store("st.mmio.relaxed.sys.global.b32");
}

}  // namespace

std::vector<WarpForm> load_forms() {
  std::vector<WarpForm> forms;
  for (const char* space : {"shared", "shared::cta", "shared::cluster"})
    add_loads(forms, "ld", {space, kTile, true, true, 16});
  add_loads(forms, "ld", {"global", kGlobal, false, true, 32});
  add_loads(forms, "ldu", {"global", kGlobal, false, false, 32});
  add_loads(forms, "ld", {"", kGlobal, false, true, 32});
  add_loads(forms, "ld", {"local", kDepot, true, false, 16});
  add_loads(forms, "ld", {"const", "mov.u64 %w18, table; ", false, false, 16});
  for (const char* space : {"param", "param::entry", "param::func"})
    add_loads(forms, "ld", {space, "", false, false, 16});
  auto word = [](const Words& in, int lane) { return in[static_cast<size_t>(8 * lane)]; };
  // Generic addresses of every space, registers wider than the number, lanes apart.
  const std::string first = "ld.b32 %r9, [%w18];";
  forms.push_back(
      {"generic_shared", kTile + filled(".shared") + "cvta.shared.u64 %w18, %w18; " + first, word});
  forms.push_back(
      {"generic_local", kDepot + filled(".local") + "cvta.local.u64 %w18, %w18; " + first, word});
  forms.push_back({"generic_const", "mov.u64 %w18, table; cvta.const.u64 %w18, %w18; " + first,
                   [](const Words&, int) { return 0x04030201u; }});
  forms.push_back({"generic_param", "mov.b64 %w18, pair; cvta.param.u64 %w18, %w18; " + first,
                   [](const Words&, int) { return 11u; }});
  forms.push_back({"param_by_register",
                   "mov.b64 %w18, pair; and.b32 %r1, %t, 1; mul.wide.u32 %w2, %r1, 4; add.s64 "
                   "%w18, %w18, %w2; ld.param.u32 %r9, [%w18];",
                   [](const Words&, int lane) { return lane & 1 ? 22u : 11u; }});
  forms.push_back({"wide_register", "ld.global.s8 %r9, [%mine+3];", [](const Words& in, int lane) {
                     return uint32_t(int8_t(in[static_cast<size_t>(4 * lane)] >> 24));
                   }});
  forms.push_back(
      {"scattered",
       "xor.b32 %r1, %t, 21; mul.wide.u32 %w1, %r1, 12; add.s64 %w1, %w1, %in; ld.global.u32 %r9, "
       "[%w1];",
       [](const Words& in, int lane) { return in[static_cast<size_t>(3 * (lane ^ 21))]; }});
  forms.push_back(
      {"predicated", "mov.u32 %r9, 3; setp.lt.u32 %p1, %t, 9; @%p1 ld.global.u32 %r9, [%mine];",
       [](const Words& in, int lane) { return lane < 9 ? in[static_cast<size_t>(4 * lane)] : 3; }});
  add_advice(forms);
  return forms;
}

std::vector<WarpForm> store_forms() {
  std::vector<WarpForm> forms;
  for (const char* space : {"shared", "shared::cta", "shared::cluster"})
    add_stores(forms, {space, kTile, true, true, 16});
  add_stores(forms, {"global", kVariable, true, true, 32});
  add_stores(forms, {"", kVariable, true, true, 32});
  add_stores(forms, {"local", kDepot, true, false, 16});
  add_parameter_stores(forms);
  return forms;
}
