// SPDX-License-Identifier: Apache-2.0
// Runs one instruction form: a kernel made around it, and its results against the host's.
#include "forms.h"

#include <cuda_runtime.h>

#include <random>

#include "device_memory.h"
#include "fusednorm_emulator.h"
#include "ptx_module.h"

namespace {

std::string replace_all(std::string text, const std::string& what, const std::string& with) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

std::string register_of(int bytes, const std::string& index) {
  return (bytes == 0 ? "%p" : bytes == 2 ? "%h" : bytes == 4 ? "%r" : "%w") + index;
}

std::string kernel_of(const Form& form) {
  std::string body, instruction = form.text;
  const char* names[] = {"%a", "%b", "%c"};
  for (size_t k = 0; k < form.in.size(); ++k) {
    const std::string index = std::to_string(k), wide = "%w" + index;
    const int bytes = form.in[k];
    body += "ld.param.u64 %rd1, [in" + index + "];\nadd.s64 %rd1, %rd1, %rd0;\nld.global.u64 " +
            wide + ", [%rd1];\n";
    if (bytes == 0)
      body +=
          "and.b64 " + wide + ", " + wide + ", 1;\nsetp.ne.s64 %p" + index + ", " + wide + ", 0;\n";
    if (bytes == 2 || bytes == 4)
      body += "cvt.u" + std::to_string(8 * bytes) + ".u64 " + register_of(bytes, index) + ", " +
              wide + ";\n";
    instruction = replace_all(instruction, names[k], register_of(bytes, index));
  }
  const std::string target = register_of(form.out, "9");
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

// Corners of every type, in another order for each operand, then random numbers of each kind.
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
                              0x00800000,
                              0x40490fdb,
                              0x3c00,
                              0x7c00,
                              0x7e00,
                              0x0400,
                              0x3f80,
                              0x7f7fffff,
                              0x7fffffffffffffffull,
                              0x8000000000000000ull,
                              ~0ull};
  for (double value : {1.0, -2.5, 1e300, 0.5, 65504.0, 1e-310, 255.5, -129.0})
    values.push_back(bits(value));
  for (float value : {65519.0f, 65520.0f, 0.5f, 1.5f, 2.5f, -0.5f, 3e9f, -3e9f, 5.96e-8f, 2.98e-8f,
                      1e-40f, 256.0f, -128.5f})
    values.push_back(bits(value));
  for (float value : {0.25f, -0.75f, 9.5f})  // pairs of halves and of floats
    values.push_back(bits(value) << 32 | to_half(value) << 16 | to_bfloat(value));
  std::mt19937_64 random(static_cast<unsigned>(which) * 77 + 5);
  std::shuffle(values.begin(), values.end(), random);
  while (values.size() < 128) {
    const Bits any = random();
    const size_t kind = values.size() % 4;
    const float small = static_cast<float>(static_cast<int>(any % 2000) - 1000) / 7;
    values.push_back(kind == 0   ? any
                     : kind == 1 ? bits(small)
                     : kind == 2 ? bits(static_cast<double>(static_cast<int64_t>(any) >> 30) / 3)
                                 : to_half(small / 64) << 16 | to_half(small / 16));
  }
  return values;
}

Bits cut(Bits value, int bytes) {
  return bytes == 0 ? value & 1 : bytes == 8 ? value : value & ((1ull << (8 * bytes)) - 1);
}

// %in: address of 128 words, %mine: of this lane's four, %out: of its word; %t: the thread.
std::string warp_kernel_of(const WarpForm& form) {
  std::string table;
  for (const uint8_t byte : kTable) table += (table.empty() ? "" : ", ") + std::to_string(byte);
  // A device function that folds its 32 bytes into one word, as fold() in memory_forms.cpp.
  std::string words =
      ".func (.param .b32 y) words(.param .align 16 .b8 x[32])\n{\n.reg .b32 %r<3>;\nmov.u32 %r1, "
      "1;\n";
  for (int k = 0; k < 32; k += 4)
    words += "ld.param.b32 %r2, [x+" + std::to_string(k) + "];\nmad.lo.s32 %r1, %r1, 31, %r2;\n";
  words += "st.param.b32 [y], %r1;\nret;\n}\n";
  return ".version 8.7\n.target sm_90\n.address_size 64\n.global .align 32 .b8 variable[2048];\n"
         ".const .align 32 .b8 table[32] = {" +
         table + "};\n" + words +
         ".visible .entry form(.param .u64 in, .param .u64 out, .param .align 16 .b8 pair[32])\n{\n"
         ".reg .pred %p<8>;\n.reg .b16 %h<10>;\n.reg .b32 %r<20>, %t;\n.reg .f32 %f<10>;\n.reg "
         ".b64 %w<20>, %in, %out, %mine;\n.reg .b128 %b<4>;\n"
         ".shared .align 32 .b8 tile[2048];\n.local .align 32 .b8 depot[64];\n"
         "ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\nmul.wide.u32 "
         "%w0, %t, 16;\nadd.s64 %mine, %in, %w0;\n"
         "mul.wide.u32 %w0, %t, 4;\nadd.s64 %out, %out, %w0;\n" +
         form.body + "\nst.global.u32 [%out], %r9;\nret;\n}\n";
}

}  // namespace

void check(const Form& form) {
  fusednorm_emulator_reset_errors();
  const PtxModule::Entry entry{kernel_of(form)};
  PtxModule module(std::vector<PtxModule::Entry>{entry});
  static const std::vector<Bits> in[] = {inputs(1), inputs(2), inputs(3)};
  static const DeviceArray<Bits> a(in[0]), b(in[1]), c(in[2]);
  const DeviceArray<Bits> out(128);
  Bits *pa = a.get(), *pb = b.get(), *pc = c.get(), *po = out.get();
  ASSERT_EQ(module.launch("form", 1, 128, {&pa, &pb, &pc, &po}), cudaSuccess)
      << fusednorm_emulator_last_report() << entry.payload;
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << fusednorm_emulator_last_report();
  const std::vector<Bits> got = out.values();
  for (int k = 0; k < 128; ++k) {
    Bits x[3] = {0, 0, 0};
    for (size_t j = 0; j < form.in.size(); ++j) x[j] = cut(in[j][k], form.in[j]);
    const Bits expected = cut(form.expected(x[0], x[1], x[2]), form.out);
    const auto inputs_of = [&] {
      testing::Message text;
      text << form.text << std::hex << " of " << x[0] << ", " << x[1] << ", " << x[2];
      return text;
    };
    if (form.is_f64 && g(expected) != g(expected)) {
      ASSERT_NE(g(got[k]), g(got[k])) << inputs_of();
    } else if (form.relative > 0) {
      const double want = f(expected), have = f(got[k]);
      if (want != want) {
        ASSERT_NE(have, have) << inputs_of();
      } else if (std::isinf(want) || want == 0) {
        ASSERT_EQ(have, want) << inputs_of();
      } else {
        ASSERT_NEAR(have, want, std::fabs(want) * form.relative + 1e-37) << inputs_of();
      }
    } else {
      ASSERT_EQ(got[k], expected) << inputs_of() << std::hex << ": got " << got[k] << ", expected "
                                  << expected;
    }
  }
}

void check(const WarpForm& form) {
  fusednorm_emulator_reset_errors();
  Words in(256);
  for (int k = 0; k < 256; ++k) in[k] = 0x9e3779b9u * static_cast<uint32_t>(k + 1);
  for (uint64_t seed : {0, 5}) {
    fusednorm_emulator_set_seed(seed);
    PtxModule module(warp_kernel_of(form));
    const DeviceArray<uint32_t> a(in), out(64);
    uint32_t *pa = a.get(), *po = out.get();
    ASSERT_EQ(module.launch("form", 1, static_cast<unsigned>(form.threads),
                            {&pa, &po, const_cast<uint8_t*>(kParameter)}),
              cudaSuccess)
        << fusednorm_emulator_last_report() << warp_kernel_of(form);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << form.body << "\n"
                                                    << fusednorm_emulator_last_report();
    std::vector<uint32_t> got(32);
    ASSERT_EQ(cudaMemcpy(got.data(), po, 128, cudaMemcpyDeviceToHost), cudaSuccess);
    for (int lane = 0; lane < 32; ++lane)
      ASSERT_EQ(got[lane], form.expected(in, lane))
          << form.name << ": " << form.body << " lane " << lane;
  }
  fusednorm_emulator_set_seed(0);
}
