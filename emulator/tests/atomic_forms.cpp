// SPDX-License-Identifier: Apache-2.0
// atom and red: every operation on every type, space and memory order, each lane on its own word;
// and all lanes on one.
#include "forms.h"

namespace {

using Wide = __int128;
struct Operation {
  const char* name;
  const char* type;
  int bytes;
  bool only_atom;
  Bits (*apply)(Bits old, Bits b, Bits c);
};

template <class T>
Bits add_floats(Bits a, Bits b, Bits) {
  return bits(T(as<T>(a) + as<T>(b)));
}
template <class T>
Bits least(Bits a, Bits b, Bits) {
  return bits(std::min(as<T>(a), as<T>(b)));
}
template <class T>
Bits most(Bits a, Bits b, Bits) {
  return bits(std::max(as<T>(a), as<T>(b)));
}
Bits sum(Bits a, Bits b, Bits) {
  return a + b;
}
Bits add_halves(Bits a, Bits b, Bits) {
  return to_half(half(a) + half(b));
}
Bits add_bfloats(Bits a, Bits b, Bits) {
  return to_bfloat(bfloat(a) + bfloat(b));
}
const Operation kOperations[] = {
    {"add", "u32", 4, false, sum},
    {"add", "s32", 4, false, sum},
    {"add", "u64", 8, false, sum},
    {"add", "f32", 4, false, add_floats<float>},
    {"add", "f64", 8, false, add_floats<double>},
    {"add.noftz", "f16", 2, false, add_halves},
    {"add.noftz", "bf16", 2, false, add_bfloats},
    {"add.noftz", "f16x2", 4, false,
     [](Bits a, Bits b, Bits) {
       return add_halves(a, b, 0) | add_halves(a >> 16, b >> 16, 0) << 16;
     }},
    {"add.noftz", "bf16x2", 4, false,
     [](Bits a, Bits b, Bits) {
       return add_bfloats(a, b, 0) | add_bfloats(a >> 16, b >> 16, 0) << 16;
     }},
    {"min", "u32", 4, false, least<uint32_t>},
    {"min", "s32", 4, false, least<int32_t>},
    {"min", "u64", 8, false, least<uint64_t>},
    {"min", "s64", 8, false, least<int64_t>},
    {"max", "u32", 4, false, most<uint32_t>},
    {"max", "s32", 4, false, most<int32_t>},
    {"max", "u64", 8, false, most<uint64_t>},
    {"max", "s64", 8, false, most<int64_t>},
    {"inc", "u32", 4, false, [](Bits a, Bits b, Bits) { return a >= b ? 0 : a + 1; }},
    {"dec", "u32", 4, false, [](Bits a, Bits b, Bits) { return a == 0 || a > b ? b : a - 1; }},
    {"and", "b32", 4, false, [](Bits a, Bits b, Bits) { return a & b; }},
    {"and", "b64", 8, false, [](Bits a, Bits b, Bits) { return a & b; }},
    {"or", "b32", 4, false, [](Bits a, Bits b, Bits) { return a | b; }},
    {"or", "b64", 8, false, [](Bits a, Bits b, Bits) { return a | b; }},
    {"xor", "b32", 4, false, [](Bits a, Bits b, Bits) { return a ^ b; }},
    {"xor", "b64", 8, false, [](Bits a, Bits b, Bits) { return a ^ b; }},
    {"exch", "b32", 4, true, [](Bits, Bits b, Bits) { return b; }},
    {"exch", "b64", 8, true, [](Bits, Bits b, Bits) { return b; }},
    {"cas", "b16", 2, true, [](Bits a, Bits b, Bits c) { return a == b ? c : a; }},
    {"cas", "b32", 4, true, [](Bits a, Bits b, Bits c) { return a == b ? c : a; }},
    {"cas", "b64", 8, true, [](Bits a, Bits b, Bits c) { return a == b ? c : a; }}};

// A lane's old value and operands, from its words of `in`. Floating-point ones lose their top
// exponent bit (and halves of words theirs), so that none is infinite or NaN and sums are finite;
// even lanes compare with what is there.
Bits finite(Bits x, const std::string& type) {
  const Bits mask = type == "f64"                                        ? 0xbfffffffffffffffull
                    : type == "f32"                                      ? 0xbfffffffull
                    : type[0] == 'f' || type[0] == 'b' && type[1] == 'f' ? 0xbfffbfffull
                                                                         : ~0ull;
  return x & mask;
}

std::string prepared(const Operation& op) {
  const std::string type = op.type, b = op.bytes == 8 ? "64" : op.bytes == 4 ? "32" : "16";
  const bool is_float = type[0] == 'f' || type.substr(0, 2) == "bf";
  const std::string mask = op.bytes == 8                    ? "0xbfffffffffffffff"
                           : op.bytes == 4 && type == "f32" ? "0xbfffffff"
                           : op.bytes == 4                  ? "0xbfffbfff"
                                                            : "0xbfff";
  const std::string prefix = op.bytes == 8 ? "%w" : op.bytes == 4 ? "%r" : "%h";
  std::string out;
  for (int k = 1; k <= 3; ++k) {
    const std::string r = prefix + std::to_string(k);
    out += "ld.global.b" + b + " " + r + ", [%w16+" + std::to_string(8 * (k - 1)) + "]; ";
    if (is_float) out += "and.b" + b + " " + r + ", " + r + ", " + mask + "; ";
  }
  // Even lanes: b is what is there.
  return out + "and.b32 %r17, %t, 1; setp.eq.s32 %p1, %r17, 0; @%p1 mov.b" + b + " " + prefix +
         "2, " + prefix + "1; ";
}

void add(std::vector<WarpForm>& forms, bool returns, const Operation& op, const std::string& order,
         const std::string& space) {
  const int n = op.bytes;
  const std::string b = n == 8   ? "64"
                        : n == 4 ? "32"
                                 : "16",
                    prefix = n == 8   ? "%w"
                             : n == 4 ? "%r"
                                      : "%h";
  const bool shared = space.find("shared") != std::string::npos;
  const std::string text =
      std::string(returns ? "atom" : "red") + order + space + "." + op.name + "." + op.type;
  std::string body =
      "shl.b32 %r18, %t, 5; cvt.u64.u32 %w17, %r18; add.s64 %w16, %in, %w17; mov.u64 %w18, " +
      std::string(shared ? "tile" : "variable") + "; add.s64 %w18, %w18, %w17; " + prepared(op);
  const std::string direct = shared ? ".shared" : ".global";
  body += "st" + direct + ".b" + b + " [%w18], " + prefix + "1; ";
  body += text + (returns ? " " + prefix + "4," : "") + " [%w18], " + prefix + "2" +
          (std::string(op.name) == "cas" ? ", " + prefix + "3" : "") + "; ";
  body += "ld" + direct + ".b" + b + " " + prefix + "5, [%w18]; mov.u32 %r9, 1; ";
  for (const char* k : {"4", "5"}) {
    if (k[0] == '4' && !returns) continue;
    const std::string r = prefix + k;
    if (n == 2) body += "cvt.u32.u16 %r18, " + r + "; mad.lo.s32 %r9, %r9, 31, %r18; ";
    if (n == 4) body += "mad.lo.s32 %r9, %r9, 31, " + r + "; ";
    if (n == 8)
      body += "mov.b64 {%r18, %r19}, " + r +
              "; mad.lo.s32 %r9, %r9, 31, %r18; mad.lo.s32 %r9, %r9, 31, %r19; ";
  }
  forms.push_back({text, body, [=](const Words& in, int lane) {
                     Bits x[3];
                     for (int k = 0; k < 3; ++k) {
                       x[k] = 0;
                       std::memcpy(&x[k], &in[static_cast<size_t>(8 * lane + 2 * k)],
                                   static_cast<size_t>(n));
                       x[k] = finite(x[k], op.type);
                     }
                     if (lane % 2 == 0) x[1] = x[0];
                     uint32_t out = 1;
                     auto fold = [&](Bits value) {
                       if (n == 2) value &= 0xffff;
                       out = out * 31 + uint32_t(value);
                       if (n == 8) out = out * 31 + uint32_t(value >> 32);
                     };
                     if (returns) fold(x[0]);
                     fold(op.apply(x[0], x[1], x[2]));
                     return out;
                   }});
}

}  // namespace

std::vector<WarpForm> atomic_forms() {
  std::vector<WarpForm> forms;
  for (const Operation& op : kOperations)
    for (const std::string space : {"", ".global", ".shared", ".shared::cta", ".shared::cluster"}) {
      for (const char* order : {"", ".relaxed.gpu", ".acquire.gpu", ".release.cta", ".acq_rel.sys"})
        add(forms, true, op, order, space);
      if (op.only_atom) continue;
      for (const char* order : {"", ".relaxed.gpu", ".release.cta"})
        add(forms, false, op, order, space);
    }
  for (const char* opcode : {"atom", "red"})
    for (const char* advice : {".cta", ".cluster", ".gpu", ".sys", ".L2::cache_hint"}) {
      const bool returns = opcode[0] == 'a';
      add(forms, returns, kOperations[0], std::string(".relaxed") + advice, ".global");
    }
  auto all_lanes = [&](const char* name, const char* body, uint32_t result) {
    forms.push_back({name, body, [=](const Words&, int) { return result; }});
  };
  all_lanes("shared_sum",
            "mov.u32 %r1, tile; setp.eq.s32 %p1, %t, 0; @%p1 st.shared.u32 [%r1], 100; bar.sync 0; "
            "atom.shared.add.u32 %r2, [%r1], 1; bar.sync 0; ld.shared.u32 %r9, [%r1];",
            132);
  all_lanes("generic_shared_sum",
            "mov.u64 %w1, tile; cvta.shared.u64 %w1, %w1; setp.eq.s32 %p1, %t, 0; @%p1 st.u32 "
            "[%w1], 7; bar.sync 0; red.add.u32 [%w1], 2; bar.sync 0; ld.u32 %r9, [%w1];",
            71);
  all_lanes(
      "global_max_and_sum",
      "atom.global.max.u32 %r1, [variable], %t; red.global.add.u32 [variable+4], 2; bar.sync 0; "
      "ld.global.u32 %r1, [variable]; ld.global.u32 %r2, [variable+4]; add.s32 %r9, %r1, %r2;",
      31 + 64);
  all_lanes("one_swaps",
            "mov.u64 %w1, 0; atom.global.cas.b64 %w2, [variable+8], %w1, 5; atom.global.inc.u32 "
            "%r2, [variable+20], 3; bar.sync 0; ld.global.u32 %r3, [variable+8]; ld.global.u32 "
            "%r4, [variable+20]; mad.lo.s32 %r9, %r3, 10, %r4;",
            50);
  return forms;
}
