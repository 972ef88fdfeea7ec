// SPDX-License-Identifier: Apache-2.0
// Bad input: what is wrong must be said, and what to do instead.
#include <cuda_runtime.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device_memory.h"
#include "fusednorm_emulator.h"
#include "ptx_module.h"

namespace {

const std::string kHead = ".version 8.0\n.target sm_80\n.address_size 64\n";

std::string kernel(const std::string& body, const std::string& head = kHead) {
  return head +
         ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n.reg .f32 "
         "%f<4>;\n" +
         body + "\nret;\n}\n";
}

class BadInput : public testing::Test {
 protected:
  void SetUp() override {
    fusednorm_emulator_set_print_reports(0);
    fusednorm_emulator_reset_errors();
  }
  void expect(PtxModule& module, cudaError_t error, std::initializer_list<const char*> words) {
    void* argument = nullptr;
    EXPECT_EQ(module.launch("k", 1, 1, {&argument}), error);
    expect_report(words);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess)
        << "a module that does not load leaves the device alone";
  }
  void expect_report(std::initializer_list<const char*> words) {
    const std::string report = fusednorm_emulator_last_report();
    for (const char* word : words)
      EXPECT_NE(report.find(word), std::string::npos)
          << "'" << word << "' is missing in: " << report;
    cudaGetLastError();
  }
  void expect(const std::string& ptx, std::initializer_list<const char*> words) {
    PtxModule module(ptx);
    expect(module, cudaErrorInvalidPtx, words);
  }
};

TEST_F(BadInput, SoundModuleRuns) {
  PtxModule module(kernel("mov.u32 %r0, 1;"));
  expect(module, cudaSuccess, {});
}
TEST_F(BadInput, UnknownInstruction) {
  expect(kernel("mov.u32 %r0, 1;\nwgmma.fence.sync.aligned;"),
         {"does not know the instruction 'wgmma.fence.sync.aligned'", "PTX line 10",
          "arch=compute_75,code=compute_75"});
  expect(kernel("add.rn.bogus.f32 %f0, %f1, %f2;"), {"add.rn.bogus.f32"});
  expect(kernel("tex.1d.v4.f32.s32 %f0, %f1;"), {"tex"});
}
TEST_F(BadInput, MalformedText) {
  expect("", {"no .version", "what nvcc made", "code=compute_XX --no-compress"});
  expect("this is no PTX", {"unexpected"});
  expect(kernel("mov.u32 %r0 1;"), {"expected ','"});
  expect(kernel("mov.u32 %r9, 1;"), {"register"});
  expect(kernel("add.s32 %r0, %rd1, %r2;"), {"wrong size"});
  expect(kernel("bra NOWHERE;"), {"unknown label NOWHERE"});
  expect(kernel("ld.global.u32 %r0, [missing];"), {"unknown symbol missing"});
  expect(kernel("mov.f32 %f0, 0f12;"), {"malformed floating-point constant"});
  expect(kHead + ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<2>;\nmov.u32 %r0, 1;\n",
         {"not closed"});
  expect(kernel("call undefined_function;"), {"undefined_function", "not defined"});
}
TEST_F(BadInput, UnknownKernel) {
  PtxModule module(kHead + ".visible .entry other()\n{\nret;\n}\n");
  expect(module, cudaErrorInvalidDeviceFunction, {"no kernel k", "it has: other", "-rdc=true"});
  static const char nothing = 0;
  EXPECT_EQ(cudaLaunchKernel(&nothing, 1, 1, nullptr, 0, nullptr), cudaErrorInvalidDeviceFunction);
  expect_report({"unknown kernel", "compile it with nvcc"});
}
std::string kernel_with(const std::string& parameters) {
  return kHead + ".visible .entry k(" + parameters + ")\n{\nret;\n}\n";
}
TEST_F(BadInput, MissingArgument) {
  PtxModule module(kernel(""));
  EXPECT_EQ(module.launch("k", 1, 1, {nullptr}), cudaErrorInvalidValue);
  expect_report({"argument 0 of 1 is missing"});
  const auto no_list = [&](void** arguments) {
    return cudaLaunchKernel(module.host("k"), 1, 1, arguments, 0, nullptr);
  };
  EXPECT_EQ(no_list(nullptr), cudaErrorInvalidValue);
  expect_report({"argument 0 of 1 is missing"});
  EXPECT_EQ(no_list(reinterpret_cast<void**>(0x1000)), cudaErrorInvalidValue);
  expect_report({"argument 0 of 1 is missing"});
}
// A value in the place of a pointer to it, and a struct that reaches past what is there: the
// runtime API gives no sizes, but what cannot be read shows.
TEST_F(BadInput, UnreadableArgument) {
  PtxModule module(kernel_with(".param .u32 n, .param .align 4 .b8 big[4096]"));
  int n = 3;
  EXPECT_EQ(module.launch("k", 1, 1, {&n, reinterpret_cast<void*>(12345)}), cudaErrorInvalidValue);
  expect_report({"argument 1 of 2 cannot be read", "4096 bytes"});
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  char* two = static_cast<char*>(
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(munmap(two + page, page), 0);
  EXPECT_EQ(module.launch("k", 1, 1, {&n, two + page - 4092}), cudaErrorInvalidValue);
  expect_report({"argument 1 of 2 cannot be read"});
  EXPECT_EQ(module.launch("k", 1, 1, {&n, two + page - 4096}), cudaSuccess);
  munmap(two, page);
}
// One kernel template in two translation units has one host function; if they saw other
// declarations, the arguments packed for one have the wrong sizes for the other.
TEST_F(BadInput, TranslationUnitsThatDisagreeOnTheParameters) {
  int value = 1;
  PtxModule first(kernel_with(".param .u32 n")), same(kernel_with(".param .u32 m"));
  const char* host = first.host("k");
  same.add("k", host);
  EXPECT_EQ(first.launch_at(host, {&value}), cudaSuccess) << fusednorm_emulator_last_report();
  for (const char* parameters : {".param .u64 n", ".param .u32 n, .param .u32 more"}) {
    PtxModule other(kernel_with(parameters));
    other.add("k", host);
    EXPECT_EQ(other.launch_at(host, {&value, &value}), cudaErrorInvalidValue);
    expect_report({"another translation unit", "bytes in one and"});
  }
  EXPECT_EQ(first.launch_at(host, {&value}), cudaSuccess) << "the others are gone";
}
TEST_F(BadInput, TextThatEndsTooSoon) {
  for (const char* text : {".pragma \"nounroll\"", ".section .debug", ".global .attribute(.managed",
                           ".global .b8 x[4] = {1, 2", ".visible .entry k(.param .u64 p",
                           ".visible .entry k()\n{\n.reg .b32 %r<2>;\ncall (x",
                           ".visible .entry k()\n{\n.pragma \"x\""})
    expect(kHead + text, {"PTX line"});
  expect(kHead + ".global .pred x;", {"without a size"});
  expect(kHead + ".shared .b8 x[9999999999999];", {"too large"});
  expect(kernel(".reg .b32 %many<99999999>;"), {"too many registers"});
}
TEST_F(BadInput, FatBinaryWithoutPtx) {
  PtxModule module(std::vector<PtxModule::Entry>{{std::string(64, 'x'), 2}});
  expect(module, cudaErrorNoKernelImageForDevice,
         {"no PTX, only machine code", "code=compute_XX", "--no-compress"});
}
TEST_F(BadInput, CompressedFatBinary) {
  PtxModule module(std::vector<PtxModule::Entry>{{std::string(64, 'x'), 1, 90, 4096}});
  expect(module, cudaErrorNoKernelImageForDevice, {"compressed", "--no-compress"});
}
TEST_F(BadInput, PtxForANewerDevice) {
  PtxModule module(kernel("", ".version 8.7\n.target sm_120\n.address_size 64\n"));
  expect(module, cudaErrorNoKernelImageForDevice, {"compute capability 9.0", "120"});
}
TEST_F(BadInput, NotAFatBinary) {
  int rubbish[4] = {1, 2, 3, 4};
  void** handle = __cudaRegisterFatBinary(rubbish);
  static const char name[] = "k";
  __cudaRegisterFunction(handle, name, nullptr, name, -1, nullptr, nullptr, nullptr, nullptr,
                         nullptr);
  void* arguments[1] = {&rubbish};
  EXPECT_EQ(cudaLaunchKernel(name, 1, 1, arguments, 0, nullptr), cudaErrorNoKernelImageForDevice);
  expect_report({"not a fat binary", "code=compute_XX --no-compress"});
  __cudaUnregisterFatBinary(handle);
  cudaGetLastError();
}
// The highest PTX that the device can run is taken, as a driver would; sm_90a only on 9.0 itself.
TEST_F(BadInput, ChoiceOfPtx) {
  auto storing = [](const char* target, int value) {
    return kernel("ld.param.u64 %rd0, [p];\nst.global.u32 [%rd0], " + std::to_string(value) + ";",
                  ".version 8.7\n.target " + std::string(target) + "\n.address_size 64\n");
  };
  const std::vector<PtxModule::Entry> entries = {{storing("sm_75", 75)},
                                                 {storing("sm_90a", 901)},
                                                 {storing("sm_80", 80)},
                                                 {storing("sm_100", 100)}};
  for (const auto& [capability, expected] :
       {std::pair<int, int>{75, 75}, {86, 80}, {90, 901}, {89, 80}, {100, 100}, {120, 100}}) {
    FusednormEmulatorDevice device;
    ASSERT_EQ(fusednorm_emulator_device_preset(capability / 10, capability % 10, &device), 0);
    ASSERT_EQ(fusednorm_emulator_set_devices(1, &device), 0);
    PtxModule module(entries);
    DeviceArray<int> out(1);
    int* pointer = out.get();
    ASSERT_EQ(module.launch("k", 1, 1, {&pointer}), cudaSuccess)
        << fusednorm_emulator_last_report();
    EXPECT_EQ(out.values()[0], expected) << capability;
  }
  FusednormEmulatorDevice device;
  fusednorm_emulator_device_preset(9, 0, &device);
  fusednorm_emulator_set_devices(1, &device);
}
TEST_F(BadInput, CopiesWithWrongPointers) {
  DeviceArray<int> x(4);
  int host[8] = {};
  EXPECT_EQ(cudaMemcpy(x.get(), host, 20, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_NE(std::string(fusednorm_emulator_last_report()).find("across the end"), std::string::npos)
      << fusednorm_emulator_last_report();
  EXPECT_EQ(cudaMemcpy(host, host, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host, x.get(), 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(x.get() + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaSetDevice(99), cudaErrorInvalidDevice);
  cudaGetLastError();
}

}  // namespace
