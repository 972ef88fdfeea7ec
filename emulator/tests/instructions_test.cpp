// Every instruction form, one at a time: a kernel of that one statement against the same thing done
// in host C++.
#include <cuda_runtime.h>

#include <cfenv>
#include <climits>
#include <cmath>
#include <functional>
#include <random>

#include "device_memory.h"
#include "fusednorm_emulator.h"
#include "ptx_module.h"

namespace {

using Bits = uint64_t;
template <class T>
T as(Bits bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T>
Bits bits(T value) {
  Bits out = 0;
  std::memcpy(&out, &value, sizeof value);
  return out;
}
float f(Bits b) {
  return as<float>(b);
}
double g(Bits b) {
  return as<double>(b);
}
// Device NaNs are canonical in f32.
Bits single(float value) {
  return value != value ? 0x7fffffffu : bits(value);
}
float half(Bits b) {
  return static_cast<float>(as<_Float16>(b & 0xffff));
}
Bits to_half(double value) {
  return value != value ? 0x7fff : bits(static_cast<_Float16>(value));
}
float bfloat(Bits b) {
  return f((b & 0xffff) << 16);
}
Bits to_bfloat(double value) {  // by search among the neighbours, nothing like the emulator's way
  if (value != value) return 0x7fff;
  const float cut = f(bits(static_cast<float>(value)) & 0xffff0000u);
  Bits best = bits(cut) >> 16;
  for (int step = -1; step <= 1; ++step) {
    const Bits candidate = (bits(cut) >> 16) + static_cast<Bits>(step);
    const double now = bfloat(candidate), before = bfloat(best);
    if (std::isinf(now) || std::isinf(before)) continue;
    const double a = std::fabs(now - value), b = std::fabs(before - value);
    if (a < b || (a == b && candidate % 2 == 0)) best = candidate;
  }
  return best & 0xffff;
}

struct Form {
  const char* text;     // %d, %a, %b, %c are the operands
  int out;              // bytes; 0: a predicate
  std::vector<int> in;  // bytes; 0: a predicate (odd inputs are true)
  std::function<Bits(Bits, Bits, Bits)> expected;
  double relative = 0;  // tolerance for approximate functions, on f32
};

std::string replace_all(std::string text, const std::string& what, const std::string& with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

std::string kernel_of(const Form& form) {
  std::string body, instruction = form.text;
  const char* names[] = {"%a", "%b", "%c"};
  for (size_t k = 0; k < form.in.size(); ++k) {
    const std::string index = std::to_string(k);
    body += "ld.param.u64 %rd1, [in" + index + "];\nadd.s64 %rd1, %rd1, %rd0;\nld.global.u64 %w" +
            index + ", [%rd1];\n";
    const int bytes = form.in[k];
    if (bytes == 0)
      body += "and.b64 %w" + index + ", %w" + index + ", 1;\nsetp.ne.s64 %p" + index + ", %w" +
              index + ", 0;\n";
    if (bytes == 2 || bytes == 4)
      body += "cvt.u" + std::to_string(8 * bytes) + ".u64 %" + (bytes == 2 ? "h" : "r") + index +
              ", %w" + index + ";\n";
    const std::string prefix = bytes == 0 ? "%p" : bytes == 2 ? "%h" : bytes == 4 ? "%r" : "%w";
    instruction = replace_all(instruction, names[k], prefix + index);
  }
  const std::string target = form.out == 0   ? "%p9"
                             : form.out == 2 ? "%h9"
                             : form.out == 4 ? "%r9"
                                             : "%w9";
  body += replace_all(instruction, "%d", target) + "\n";
  if (form.out == 0) body += "selp.u64 %w9, 1, 0, %p9;\n";
  if (form.out == 2 || form.out == 4)
    body += "cvt.u64.u" + std::to_string(8 * form.out) + " %w9, " + target + ";\n";
  return ".version 8.7\n.target sm_75\n.address_size 64\n.visible .entry form(.param .u64 in0, "
         ".param .u64 in1, .param .u64 in2, .param .u64 out)\n{\n"
         ".reg .pred %p<10>, %q<4>;\n.reg .b16 %h<10>, %hx<4>;\n.reg .b32 %r<10>, %x<4>;\n.reg "
         ".b64 %w<10>, %rd<3>, %y<4>;\n"
         "mov.u32 %x0, %tid.x;\nmul.wide.u32 %rd0, %x0, 8;\n" +
         body +
         "ld.param.u64 %rd1, [out];\nadd.s64 %rd1, %rd1, %rd0;\nst.global.u64 [%rd1], "
         "%w9;\nret;\n}\n";
}

std::vector<Bits> inputs(int which) {
  std::vector<Bits> values = {0,
                              1,
                              2,
                              3,
                              31,
                              32,
                              33,
                              63,
                              0x7f,
                              0x80,
                              0xff,
                              0x7fff,
                              0x8000,
                              0xffff,
                              0x7fffffff,
                              0x80000000,
                              0xffffffff,
                              0x3f800000,
                              0xbf800000,
                              0x7f800000,
                              0xff800000,
                              0x7fc00000,
                              0x00000001,
                              0x00800000,
                              0x40490fdb,
                              0x3c00,
                              0x7c00,
                              0x7e00,
                              0x0001,
                              0x0400,
                              0x3f80,
                              0x7f7fffff,
                              0x7fffffffffffffffull,
                              0x8000000000000000ull,
                              ~0ull,
                              bits(1.0),
                              bits(-2.5),
                              bits(1e300),
                              bits(0.5),
                              bits(65504.0),
                              bits(1e-310),
                              bits(65519.0f),
                              bits(65520.0f),
                              bits(0.5f),
                              bits(1.5f),
                              bits(2.5f),
                              bits(-0.5f),
                              bits(3e9f),
                              bits(-3e9f),
                              bits(5.96e-8f),
                              bits(2.98e-8f),
                              bits(1e-40f)};
  std::mt19937_64 random(static_cast<unsigned>(which) * 77 + 5);
  std::shuffle(values.begin(), values.end(), random);
  while (values.size() < 128) {
    const Bits any = random();
    values.push_back(values.size() % 3 == 0 ? any
                     : values.size() % 3 == 1
                         ? bits(static_cast<float>(static_cast<int>(any % 2000) - 1000) / 7)
                         : bits(static_cast<double>(static_cast<int64_t>(any) >> 30) / 3));
  }
  return values;
}

class Instructions : public testing::TestWithParam<Form> {};

TEST_P(Instructions, AgreesWithTheHost) {
  const Form& form = GetParam();
  fusednorm_emulator_reset_errors();
  PtxModule module(kernel_of(form));
  std::vector<std::vector<Bits>> in = {inputs(1), inputs(2), inputs(3)};
  DeviceArray<Bits> a(in[0]), b(in[1]), c(in[2]), out(128);
  Bits *pa = a.get(), *pb = b.get(), *pc = c.get(), *po = out.get();
  ASSERT_EQ(module.launch("form", 1, 128, {&pa, &pb, &pc, &po}), cudaSuccess)
      << fusednorm_emulator_last_report() << kernel_of(form);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << fusednorm_emulator_last_report();
  const std::vector<Bits> got = out.values();
  auto cut = [](Bits value, int bytes) {
    return bytes == 0 ? value & 1 : bytes == 8 ? value : value & ((1ull << (8 * bytes)) - 1);
  };
  for (int k = 0; k < 128; ++k) {
    Bits x[3] = {0, 0, 0};
    for (size_t j = 0; j < form.in.size(); ++j) x[j] = cut(in[j][k], form.in[j]);
    const Bits expected = cut(form.expected(x[0], x[1], x[2]), form.out);
    if (form.relative > 0) {
      const double want = f(expected), have = f(got[k]);
      if (want != want)
        EXPECT_NE(have, have);
      else if (std::isinf(want) || want == 0)
        EXPECT_EQ(have, want) << form.text << " of " << f(x[0]);
      else
        EXPECT_NEAR(have, want, std::fabs(want) * form.relative + 1e-37)
            << form.text << " of " << f(x[0]);
    } else {
      EXPECT_EQ(got[k], expected) << form.text << std::hex << " of " << x[0] << ", " << x[1] << ", "
                                  << x[2];
    }
  }
}

template <class T>
Bits ordered_min(Bits a, Bits b) {
  return bits(std::min(as<T>(a), as<T>(b)));
}
template <class T>
Bits ordered_max(Bits a, Bits b) {
  return bits(std::max(as<T>(a), as<T>(b)));
}
int32_t s(Bits b) {
  return static_cast<int32_t>(b);
}
int64_t sl(Bits b) {
  return static_cast<int64_t>(b);
}
uint32_t u(Bits b) {
  return static_cast<uint32_t>(b);
}
template <class F>
Bits rounded(int mode, F body) {
  std::fesetround(mode);
  volatile float result = body();
  std::fesetround(FE_TONEAREST);
  return single(result);
}
Bits to_integer(double value, double low, double high) {
  if (value != value) return 0;
  if (value <= low)
    return low < 0 ? static_cast<Bits>(static_cast<int64_t>(low)) : static_cast<Bits>(low);
  if (value >= high)
    return high > 9e18 ? (high > 1e19 ? ~0ull : INT64_MAX) : static_cast<Bits>(high);
  return low < 0 ? static_cast<Bits>(static_cast<int64_t>(value)) : static_cast<Bits>(value);
}
Bits pick_bytes(Bits a, Bits b, Bits selector) {
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
Bits half_pair(Bits a, Bits b, Bits c, double (*op)(double, double, double), bool brain) {
  Bits out = 0;
  for (int k = 0; k < 32; k += 16) {
    const double value = brain ? op(bfloat(a >> k), bfloat(b >> k), bfloat(c >> k))
                               : op(half(a >> k), half(b >> k), half(c >> k));
    out |= (brain ? to_bfloat(value) : to_half(value)) << k;
  }
  return out;
}
float device_min(float a, float b) {
  return a != a ? b : b != b ? a : a == b ? (std::signbit(a) ? a : b) : std::min(a, b);
}
float device_max(float a, float b) {
  return a != a ? b : b != b ? a : a == b ? (std::signbit(a) ? b : a) : std::max(a, b);
}
float flushed(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}

#define ABC [](Bits a, Bits b, Bits c) -> Bits { (void)a; (void)b; (void)c; return
#define END \
  ;         \
  }

const std::vector<Form> kForms = {
    // integers
    {"add.s32 %d, %a, %b;", 4, {4, 4}, ABC a + b END}, {"add.u64 %d, %a, %b;", 8, {8, 8}, ABC a + b END}, {"add.s16 %d, %a, %b;", 2, {2, 2}, ABC a + b END},
    {"add.sat.s32 %d, %a, %b;", 4, {4, 4}, ABC bits(int32_t(std::clamp<int64_t>(int64_t(s(a)) + s(b), INT_MIN, INT_MAX))) END},
    {"sub.s32 %d, %a, %b;", 4, {4, 4}, ABC a - b END}, {"sub.s64 %d, %a, %b;", 8, {8, 8}, ABC a - b END},
    {"mul.lo.s32 %d, %a, %b;", 4, {4, 4}, ABC a * b END}, {"mul.lo.u64 %d, %a, %b;", 8, {8, 8}, ABC a * b END},
    {"mul.hi.u32 %d, %a, %b;", 4, {4, 4}, ABC (a * b) >> 32 END}, {"mul.hi.s32 %d, %a, %b;", 4, {4, 4}, ABC Bits((int64_t(s(a)) * s(b)) >> 32) END},
    {"mul.hi.u64 %d, %a, %b;", 8, {8, 8}, ABC Bits((unsigned __int128)a * b >> 64) END}, {"mul.hi.s64 %d, %a, %b;", 8, {8, 8}, ABC Bits((__int128)sl(a) * sl(b) >> 64) END},
    {"mul.wide.s32 %d, %a, %b;", 8, {4, 4}, ABC Bits(int64_t(s(a)) * s(b)) END}, {"mul.wide.u32 %d, %a, %b;", 8, {4, 4}, ABC a * b END},
    {"mul.wide.u16 %d, %a, %b;", 4, {2, 2}, ABC a * b END}, {"mul.wide.s16 %d, %a, %b;", 4, {2, 2}, ABC bits(int(int16_t(a)) * int16_t(b)) END},
    {"mad.lo.s32 %d, %a, %b, %c;", 4, {4, 4, 4}, ABC a * b + c END}, {"mad.lo.s64 %d, %a, %b, %c;", 8, {8, 8, 8}, ABC a * b + c END},
    {"mad.wide.u32 %d, %a, %b, %c;", 8, {4, 4, 8}, ABC a * b + c END}, {"mad.wide.s32 %d, %a, %b, %c;", 8, {4, 4, 8}, ABC Bits(int64_t(s(a)) * s(b)) + c END},
    {"mad.hi.u32 %d, %a, %b, %c;", 4, {4, 4, 4}, ABC ((a * b) >> 32) + c END},
    {"div.u32 %d, %a, %b;", 4, {4, 4}, ABC b ? a / b : ~0ull END}, {"div.s32 %d, %a, %b;", 4, {4, 4}, ABC s(b) == 0 ? ~0ull : Bits(int64_t(s(a)) / s(b)) END},
    {"div.s64 %d, %a, %b;", 8, {8, 8}, ABC b == 0 ? ~0ull : sl(b) == -1 ? 0 - a : Bits(sl(a) / sl(b)) END}, {"div.u64 %d, %a, %b;", 8, {8, 8}, ABC b ? a / b : ~0ull END},
    {"rem.u32 %d, %a, %b;", 4, {4, 4}, ABC b ? a % b : a END}, {"rem.s32 %d, %a, %b;", 4, {4, 4}, ABC s(b) == 0 ? a : Bits(int64_t(s(a)) % s(b)) END},
    {"rem.s64 %d, %a, %b;", 8, {8, 8}, ABC b == 0 ? a : sl(b) == -1 ? 0 : Bits(sl(a) % sl(b)) END},
    {"min.s32 %d, %a, %b;", 4, {4, 4}, ABC ordered_min<int32_t>(a, b) END}, {"max.u32 %d, %a, %b;", 4, {4, 4}, ABC ordered_max<uint32_t>(a, b) END},
    {"min.u64 %d, %a, %b;", 8, {8, 8}, ABC std::min(a, b) END}, {"max.s64 %d, %a, %b;", 8, {8, 8}, ABC ordered_max<int64_t>(a, b) END}, {"max.s16 %d, %a, %b;", 2, {2, 2}, ABC ordered_max<int16_t>(a, b) END},
    {"abs.s32 %d, %a;", 4, {4}, ABC s(a) < 0 ? 0 - a : a END}, {"neg.s32 %d, %a;", 4, {4}, ABC 0 - a END}, {"neg.s64 %d, %a;", 8, {8}, ABC 0 - a END}, {"abs.s64 %d, %a;", 8, {8}, ABC sl(a) < 0 ? 0 - a : a END},
    {"sad.u32 %d, %a, %b, %c;", 4, {4, 4, 4}, ABC c + (a > b ? a - b : b - a) END},
    {"{ add.cc.u32 %x1, %a, %b; addc.u32 %d, %c, 0; }", 4, {4, 4, 4}, ABC c + ((a + b) >> 32) END},
    {"{ sub.cc.u32 %x1, %a, %b; subc.u32 %d, %c, 0; }", 4, {4, 4, 4}, ABC c - (a < b) END},
    {"dp4a.u32.u32 %d, %a, %b, %c;", 4, {4, 4, 4}, ABC c + (a & 255) * (b & 255) + (a >> 8 & 255) * (b >> 8 & 255) + (a >> 16 & 255) * (b >> 16 & 255) + (a >> 24) * (b >> 24) END},
    {"add.u16x2 %d, %a, %b;", 4, {4, 4}, ABC ((a + b) & 0xffff) | ((a >> 16) + (b >> 16)) << 16 END}, {"max.s16x2 %d, %a, %b;", 4, {4, 4}, ABC (ordered_max<int16_t>(a, b) & 0xffff) | ordered_max<int16_t>(a >> 16, b >> 16) << 16 END},
    // bits
    {"and.b32 %d, %a, %b;", 4, {4, 4}, ABC a & b END}, {"or.b64 %d, %a, %b;", 8, {8, 8}, ABC a | b END}, {"xor.b16 %d, %a, %b;", 2, {2, 2}, ABC a ^ b END},
    {"not.b32 %d, %a;", 4, {4}, ABC ~a END}, {"cnot.b32 %d, %a;", 4, {4}, ABC a == 0 END}, {"and.pred %d, %a, %b;", 0, {0, 0}, ABC a & b END},
    {"or.pred %d, !%a, %b;", 0, {0, 0}, ABC (1 - a) | b END}, {"xor.pred %d, %a, %b;", 0, {0, 0}, ABC a ^ b END}, {"not.pred %d, %a;", 0, {0}, ABC 1 - a END}, {"mov.pred %d, %a;", 0, {0}, ABC a END},
    {"shl.b32 %d, %a, %b;", 4, {4, 4}, ABC b > 31 ? 0 : a << b END}, {"shl.b64 %d, %a, %b;", 8, {8, 4}, ABC b > 63 ? 0 : a << b END},
    {"shr.u32 %d, %a, %b;", 4, {4, 4}, ABC b > 31 ? 0 : a >> b END}, {"shr.s32 %d, %a, %b;", 4, {4, 4}, ABC Bits(s(a) >> std::min<Bits>(b, 31)) END},
    {"shr.s64 %d, %a, %b;", 8, {8, 4}, ABC Bits(sl(a) >> std::min<Bits>(b, 63)) END}, {"shr.u16 %d, %a, %b;", 2, {2, 4}, ABC b > 15 ? 0 : a >> b END}, {"shl.b16 %d, %a, %b;", 2, {2, 4}, ABC b > 15 ? 0 : a << b END},
    {"shf.l.wrap.b32 %d, %a, %b, %c;", 4, {4, 4, 4}, ABC ((b << 32 | a) << (c & 31)) >> 32 END}, {"shf.r.wrap.b32 %d, %a, %b, %c;", 4, {4, 4, 4}, ABC (b << 32 | a) >> (c & 31) END},
    {"shf.r.clamp.b32 %d, %a, %b, %c;", 4, {4, 4, 4}, ABC (b << 32 | a) >> std::min<Bits>(c, 32) END},
    {"lop3.b32 %d, %a, %b, %c, 0x96;", 4, {4, 4, 4}, ABC a ^ b ^ c END}, {"lop3.b32 %d, %a, %b, %c, 0xe8;", 4, {4, 4, 4}, ABC (a & b) | (a & c) | (b & c) END},
    {"prmt.b32 %d, %a, %b, 0x5410;", 4, {4, 4}, ABC (a & 0xffff) | (b << 16) END}, {"prmt.b32 %d, %a, %b, %c;", 4, {4, 4, 4}, ABC pick_bytes(a, b, c) END},
    {"bfe.u32 %d, %a, 5, 9;", 4, {4}, ABC a >> 5 & 511 END}, {"bfe.s32 %d, %a, 5, 9;", 4, {4}, ABC bits(int32_t(u(a) << 18) >> 23) END}, {"bfe.u64 %d, %a, 7, 40;", 8, {8}, ABC a >> 7 & ((1ull << 40) - 1) END},
    {"bfi.b32 %d, %a, %b, 4, 8;", 4, {4, 4}, ABC (b & ~0xff0ull) | (a & 255) << 4 END}, {"bfi.b64 %d, %a, %b, 32, 32;", 8, {8, 8}, ABC (b & 0xffffffff) | a << 32 END},
    {"bmsk.clamp.b32 %d, 3, 5;", 4, {4}, ABC 0xf8 END},
    {"popc.b32 %d, %a;", 4, {4}, ABC __builtin_popcountll(a) END}, {"popc.b64 %d, %a;", 4, {8}, ABC __builtin_popcountll(a) END},
    {"clz.b32 %d, %a;", 4, {4}, ABC a ? __builtin_clz(u(a)) : 32 END}, {"clz.b64 %d, %a;", 4, {8}, ABC a ? __builtin_clzll(a) : 64 END},
    {"bfind.u32 %d, %a;", 4, {4}, ABC a ? 31 - __builtin_clz(u(a)) : ~0ull END}, {"bfind.s32 %d, %a;", 4, {4}, ABC (s(a) < 0 ? ~u(a) : u(a)) ? 31 - __builtin_clz(s(a) < 0 ? ~u(a) : u(a)) : ~0ull END},
    {"brev.b32 %d, %a;", 4, {4}, [](Bits a, Bits, Bits) { Bits out = 0; for (int k = 0; k < 32; ++k) out |= (a >> k & 1) << (31 - k); return out; }},
    // f32
    {"add.f32 %d, %a, %b;", 4, {4, 4}, ABC single(f(a) + f(b)) END}, {"sub.rn.f32 %d, %a, %b;", 4, {4, 4}, ABC single(f(a) - f(b)) END}, {"mul.f32 %d, %a, %b;", 4, {4, 4}, ABC single(f(a) * f(b)) END},
    {"fma.rn.f32 %d, %a, %b, %c;", 4, {4, 4, 4}, ABC single(std::fma(f(a), f(b), f(c))) END}, {"div.rn.f32 %d, %a, %b;", 4, {4, 4}, ABC single(f(a) / f(b)) END},
    {"add.rz.f32 %d, %a, %b;", 4, {4, 4}, ABC rounded(FE_TOWARDZERO, [=] { volatile float x = f(a), y = f(b); return x + y; }) END},
    {"mul.rp.f32 %d, %a, %b;", 4, {4, 4}, ABC rounded(FE_UPWARD, [=] { volatile float x = f(a), y = f(b); return x * y; }) END},
    {"add.rm.f32 %d, %a, %b;", 4, {4, 4}, ABC rounded(FE_DOWNWARD, [=] { volatile float x = f(a), y = f(b); return x + y; }) END},
    {"add.ftz.f32 %d, %a, %b;", 4, {4, 4}, ABC single(flushed(flushed(f(a)) + flushed(f(b)))) END}, {"mul.ftz.f32 %d, %a, %b;", 4, {4, 4}, ABC single(flushed(flushed(f(a)) * flushed(f(b)))) END},
    {"add.sat.f32 %d, %a, %b;", 4, {4, 4}, ABC bits(f(a) + f(b) > 0 ? std::min(f(a) + f(b), 1.0f) : 0.0f) END},
    {"min.f32 %d, %a, %b;", 4, {4, 4}, ABC single(device_min(f(a), f(b))) END}, {"max.f32 %d, %a, %b;", 4, {4, 4}, ABC single(device_max(f(a), f(b))) END},
    {"max.NaN.f32 %d, %a, %b;", 4, {4, 4}, ABC f(a) != f(a) || f(b) != f(b) ? 0x7fffffffu : single(device_max(f(a), f(b))) END},
    {"abs.f32 %d, %a;", 4, {4}, ABC a & 0x7fffffff END}, {"neg.f32 %d, %a;", 4, {4}, ABC a ^ 0x80000000 END}, {"copysign.f32 %d, %a, %b;", 4, {4, 4}, ABC (b & 0x7fffffff) | (a & 0x80000000) END},
    {"sqrt.rn.f32 %d, %a;", 4, {4}, ABC single(std::sqrt(f(a))) END}, {"rcp.rn.f32 %d, %a;", 4, {4}, ABC single(1.0f / f(a)) END},
    {"rcp.approx.f32 %d, %a;", 4, {4}, ABC single(1.0f / f(a)) END, 2e-7}, {"rsqrt.approx.f32 %d, %a;", 4, {4}, ABC single(float(1.0 / std::sqrt(double(f(a))))) END, 3e-7},
    {"sqrt.approx.f32 %d, %a;", 4, {4}, ABC single(std::sqrt(f(a))) END, 2e-7}, {"div.full.f32 %d, %a, %b;", 4, {4, 4}, ABC single(f(a) / f(b)) END, 3e-7}, {"div.approx.f32 %d, %a, %b;", 4, {4, 4}, ABC single(f(a) / f(b)) END, 3e-7},
    {"ex2.approx.f32 %d, %a;", 4, {4}, ABC single(float(std::exp2(double(f(a))))) END, 3e-7}, {"lg2.approx.f32 %d, %a;", 4, {4}, ABC single(float(std::log2(double(f(a))))) END, 3e-7},
    {"tanh.approx.f32 %d, %a;", 4, {4}, ABC single(float(std::tanh(double(f(a))))) END, 1e-6}, {"sin.approx.f32 %d, %a;", 4, {4}, ABC single(float(std::sin(double(f(a))))) END, 3e-6}, {"cos.approx.f32 %d, %a;", 4, {4}, ABC single(float(std::cos(double(f(a))))) END, 3e-6},
    {"testp.infinite.f32 %d, %a;", 0, {4}, ABC std::isinf(f(a)) END}, {"testp.subnormal.f32 %d, %a;", 0, {4}, ABC std::fpclassify(f(a)) == FP_SUBNORMAL END},
    // packed f32
    {"add.rn.f32x2 %d, %a, %b;", 8, {8, 8}, ABC single(f(a) + f(b)) | single(f(a >> 32) + f(b >> 32)) << 32 END}, {"mul.rn.f32x2 %d, %a, %b;", 8, {8, 8}, ABC single(f(a) * f(b)) | single(f(a >> 32) * f(b >> 32)) << 32 END},
    {"fma.rn.f32x2 %d, %a, %b, %c;", 8, {8, 8, 8}, ABC single(std::fma(f(a), f(b), f(c))) | single(std::fma(f(a >> 32), f(b >> 32), f(c >> 32))) << 32 END},
    {"sub.rn.f32x2 %d, %a, %b;", 8, {8, 8}, ABC single(f(a) - f(b)) | single(f(a >> 32) - f(b >> 32)) << 32 END},
    // f64 (finite inputs matter; NaN payloads are the host's)
    {"add.f64 %d, %a, %b;", 8, {8, 8}, ABC bits(g(a) + g(b)) END}, {"mul.f64 %d, %a, %b;", 8, {8, 8}, ABC bits(g(a) * g(b)) END}, {"fma.rn.f64 %d, %a, %b, %c;", 8, {8, 8, 8}, ABC bits(std::fma(g(a), g(b), g(c))) END},
    {"div.rn.f64 %d, %a, %b;", 8, {8, 8}, ABC bits(g(a) / g(b)) END}, {"sqrt.rn.f64 %d, %a;", 8, {8}, ABC bits(std::sqrt(g(a))) END}, {"abs.f64 %d, %a;", 8, {8}, ABC a & INT64_MAX END}, {"neg.f64 %d, %a;", 8, {8}, ABC a ^ (1ull << 63) END},
    // halves
    {"add.f16 %d, %a, %b;", 2, {2, 2}, ABC to_half(double(half(a)) + half(b)) END}, {"mul.rn.f16 %d, %a, %b;", 2, {2, 2}, ABC to_half(double(half(a)) * half(b)) END},
    {"fma.rn.f16x2 %d, %a, %b, %c;", 4, {4, 4, 4}, ABC half_pair(a, b, c, [](double x, double y, double z) { return double(float(x * y) == x * y ? x * y + z : std::fma(x, y, z)); }, false) END},
    {"add.rn.bf16 %d, %a, %b;", 2, {2, 2}, ABC to_bfloat(double(bfloat(a)) + bfloat(b)) END}, {"mul.rn.bf16x2 %d, %a, %b;", 4, {4, 4}, ABC half_pair(a, b, 0, [](double x, double y, double) { return x * y; }, true) END},
    {"fma.rn.bf16 %d, %a, %b, %c;", 2, {2, 2, 2}, ABC to_bfloat(double(bfloat(a)) * bfloat(b) + bfloat(c)) END}, {"sub.f16x2 %d, %a, %b;", 4, {4, 4}, ABC half_pair(a, b, 0, [](double x, double y, double) { return x - y; }, false) END},
    {"neg.f16 %d, %a;", 2, {2}, ABC a ^ 0x8000 END}, {"abs.bf16x2 %d, %a;", 4, {4}, ABC a & 0x7fff7fff END}, {"neg.bf16x2 %d, %a;", 4, {4}, ABC a ^ 0x80008000 END},
    {"max.f16 %d, %a, %b;", 2, {2, 2}, ABC to_half(device_max(half(a), half(b))) END}, {"min.bf16 %d, %a, %b;", 2, {2, 2}, ABC to_bfloat(device_min(bfloat(a), bfloat(b))) END},
    // comparison and selection
    {"setp.lt.s32 %d, %a, %b;", 0, {4, 4}, ABC s(a) < s(b) END}, {"setp.hi.u32 %d, %a, %b;", 0, {4, 4}, ABC a > b END}, {"setp.ge.u64 %d, %a, %b;", 0, {8, 8}, ABC a >= b END}, {"setp.eq.b16 %d, %a, %b;", 0, {2, 2}, ABC a == b END},
    {"setp.lt.f32 %d, %a, %b;", 0, {4, 4}, ABC f(a) < f(b) END}, {"setp.ne.f32 %d, %a, %b;", 0, {4, 4}, ABC f(a) < f(b) || f(a) > f(b) END}, {"setp.neu.f32 %d, %a, %b;", 0, {4, 4}, ABC f(a) != f(b) END},
    {"setp.ltu.f32 %d, %a, %b;", 0, {4, 4}, ABC !(f(a) >= f(b)) END}, {"setp.geu.f64 %d, %a, %b;", 0, {8, 8}, ABC !(g(a) < g(b)) END}, {"setp.nan.f32 %d, %a, %b;", 0, {4, 4}, ABC f(a) != f(a) || f(b) != f(b) END}, {"setp.num.f32 %d, %a, %b;", 0, {4, 4}, ABC f(a) == f(a) && f(b) == f(b) END},
    {"setp.gt.f16 %d, %a, %b;", 0, {2, 2}, ABC half(a) > half(b) END}, {"setp.le.bf16 %d, %a, %b;", 0, {2, 2}, ABC bfloat(a) <= bfloat(b) END},
    {"setp.eq.and.s32 %d, %a, %b, !%c;", 0, {4, 4, 0}, ABC s(a) == s(b) && !c END}, {"setp.gt.or.s64 %d, %a, %b, %c;", 0, {8, 8, 0}, ABC sl(a) > sl(b) || c END}, {"setp.lt.xor.u32 %d|%q1, %a, %b, %c;", 0, {4, 4, 0}, ABC (a < b) ^ c END},
    {"set.gt.u32.f32 %d, %a, %b;", 4, {4, 4}, ABC f(a) > f(b) ? ~0ull : 0 END}, {"selp.b32 %d, %a, %b, %c;", 4, {4, 4, 0}, ABC c ? a : b END}, {"selp.f64 %d, %a, %b, %c;", 8, {8, 8, 0}, ABC c ? a : b END}, {"selp.b16 %d, %a, %b, %c;", 2, {2, 2, 0}, ABC c ? a : b END},
    {"slct.b32.s32 %d, %a, %b, %c;", 4, {4, 4, 4}, ABC s(c) >= 0 ? a : b END}, {"@%c mov.u32 %d, %a; @!%c mov.u32 %d, %b;", 4, {4, 4, 0}, ABC c ? a : b END},
    // conversions
    {"cvt.u64.u32 %d, %a;", 8, {4}, ABC a END}, {"cvt.s64.s32 %d, %a;", 8, {4}, ABC Bits(int64_t(s(a))) END}, {"cvt.u32.u64 %d, %a;", 4, {8}, ABC a END}, {"cvt.u32.u16 %d, %a;", 4, {2}, ABC a END}, {"cvt.s32.s16 %d, %a;", 4, {2}, ABC bits(int32_t(int16_t(a))) END},
    {"cvt.s32.s8 %d, %a;", 4, {4}, ABC bits(int32_t(int8_t(a))) END}, {"cvt.u16.u8 %d, %a;", 2, {2}, ABC a & 255 END}, {"cvt.s16.s8 %d, %a;", 2, {2}, ABC bits(int16_t(int8_t(a))) END}, {"cvt.u16.u32 %d, %a;", 2, {4}, ABC a END},
    {"cvt.sat.u8.s32 %d, %a;", 4, {4}, ABC Bits(std::clamp(s(a), 0, 255)) END}, {"cvt.sat.s16.s32 %d, %a;", 2, {4}, ABC Bits(std::clamp(s(a), -32768, 32767)) END},
    {"cvt.rn.f32.s32 %d, %a;", 4, {4}, ABC bits(float(s(a))) END}, {"cvt.rn.f32.u32 %d, %a;", 4, {4}, ABC bits(float(u(a))) END}, {"cvt.rn.f32.s64 %d, %a;", 4, {8}, ABC bits(float(sl(a))) END}, {"cvt.rn.f32.u64 %d, %a;", 4, {8}, ABC bits(float(a)) END},
    {"cvt.rz.f32.u32 %d, %a;", 4, {4}, ABC rounded(FE_TOWARDZERO, [=] { volatile uint32_t x = u(a); return float(x); }) END}, {"cvt.rp.f32.s32 %d, %a;", 4, {4}, ABC rounded(FE_UPWARD, [=] { volatile int32_t x = s(a); return float(x); }) END},
    {"cvt.rn.f64.s32 %d, %a;", 8, {4}, ABC bits(double(s(a))) END}, {"cvt.rn.f64.u64 %d, %a;", 8, {8}, ABC bits(double(a)) END}, {"cvt.f64.f32 %d, %a;", 8, {4}, ABC bits(double(f(a))) END},
    {"cvt.rn.f32.f64 %d, %a;", 4, {8}, ABC single(float(g(a))) END}, {"cvt.rz.f32.f64 %d, %a;", 4, {8}, ABC rounded(FE_TOWARDZERO, [=] { volatile double x = g(a); return float(x); }) END},
    {"cvt.rzi.s32.f32 %d, %a;", 4, {4}, ABC to_integer(std::trunc(f(a)), INT_MIN, INT_MAX) END}, {"cvt.rni.s32.f32 %d, %a;", 4, {4}, ABC to_integer(std::nearbyint(f(a)), INT_MIN, INT_MAX) END},
    {"cvt.rmi.s32.f32 %d, %a;", 4, {4}, ABC to_integer(std::floor(f(a)), INT_MIN, INT_MAX) END}, {"cvt.rpi.u32.f32 %d, %a;", 4, {4}, ABC to_integer(std::ceil(f(a)), 0, UINT_MAX) END}, {"cvt.rzi.u64.f32 %d, %a;", 8, {4}, ABC to_integer(std::trunc(f(a)), 0, 18446744073709551615.0) END},
    {"cvt.rzi.s64.f64 %d, %a;", 8, {8}, ABC to_integer(std::trunc(g(a)), -9223372036854775808.0, 9223372036854775807.0) END}, {"cvt.rni.f32.f32 %d, %a;", 4, {4}, ABC single(std::nearbyint(f(a))) END}, {"cvt.rmi.f32.f32 %d, %a;", 4, {4}, ABC single(std::floor(f(a))) END},
    {"cvt.rn.f16.f32 %d, %a;", 2, {4}, ABC to_half(f(a)) END}, {"cvt.f32.f16 %d, %a;", 4, {2}, ABC single(half(a)) END}, {"cvt.rn.f16.s32 %d, %a;", 2, {4}, ABC to_half(s(a)) END}, {"cvt.rzi.s32.f16 %d, %a;", 4, {2}, ABC to_integer(std::trunc(half(a)), INT_MIN, INT_MAX) END},
    {"cvt.rn.bf16.f32 %d, %a;", 2, {4}, ABC std::fabs(f(a)) > 3.39e38f ? (f(a) != f(a) ? 0x7fff : (a >> 16 & 0x8000) | (std::isinf(f(a)) || (a & 0xffff) >= 0x8000 ? 0x7f80 : 0x7f7f)) : to_bfloat(f(a)) END}, {"cvt.f32.bf16 %d, %a;", 4, {2}, ABC a << 16 END},
    {"cvt.rn.f16x2.f32 %d, %a, %b;", 4, {4, 4}, ABC to_half(f(a)) << 16 | to_half(f(b)) END}, {"cvt.rz.f16.f32 %d, %a;", 2, {4}, [](Bits a, Bits, Bits) { if (f(a) != f(a)) return Bits(0x7fff); Bits h = to_half(f(a)); if (std::isinf(half(h)) && !std::isinf(f(a))) return h - 1; if (std::fabs(half(h)) > std::fabs(f(a))) --h; return h; }},
    {"cvt.rn.relu.f16.f32 %d, %a;", 2, {4}, ABC f(a) != f(a) ? 0x7fff : f(a) > 0 ? to_half(f(a)) : 0 END}, {"cvt.sat.f32.f32 %d, %a;", 4, {4}, ABC f(a) > 0 ? bits(std::min(f(a), 1.0f)) : 0 END},
    // moves, packing, addresses
    {"mov.b64 %d, {%a, %b};", 8, {4, 4}, ABC a | b << 32 END}, {"{ mov.b64 {%x1, %x2}, %a; xor.b32 %d, %x1, %x2; }", 4, {8}, ABC a ^ a >> 32 END}, {"mov.b32 %d, {%a, %b};", 4, {2, 2}, ABC a | b << 16 END}, {"{ mov.b32 {%hx1, %hx2}, %a; sub.s16 %d, %hx2, %hx1; }", 2, {4}, ABC (a >> 16) - a END},
    {"mov.f32 %d, 0f3FC00000;", 4, {4}, ABC 0x3fc00000 END}, {"mov.f64 %d, 0dBFF0000000000000;", 8, {4}, ABC bits(-1.0) END}, {"mov.u32 %d, -7;", 4, {4}, ABC ~6ull END},
    {"{ .reg .pred p; .reg .b32 t; setp.ne.s32 p, %a, 0; selp.u32 t, 1, 2, p; mov.u32 %d, t; }", 4, {4}, ABC a ? 1 : 2 END},
    {"{ .reg .b32 t; mov.u32 t, %a; bra SKIP; mov.u32 t, 0; SKIP: mov.u32 %d, t; }", 4, {4}, ABC a END},
};

std::string name_of(const testing::TestParamInfo<Form>& info) {
  std::string name;
  for (const char* at = info.param.text; *at && *at != ';'; ++at)
    name += std::isalnum(static_cast<unsigned char>(*at)) ? *at : '_';
  return std::to_string(info.index) + "_" + name;
}
INSTANTIATE_TEST_SUITE_P(Forms, Instructions, testing::ValuesIn(kForms), name_of);

}  // namespace
