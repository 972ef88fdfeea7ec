// Bad input: what is wrong must be said, and what to do instead.
#include <cuda_runtime.h>

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
    const std::string report = fusednorm_emulator_last_report();
    for (const char* word : words)
      EXPECT_NE(report.find(word), std::string::npos)
          << "'" << word << "' is missing in: " << report;
    cudaGetLastError();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess)
        << "a module that does not load leaves the device alone";
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
         {"does not know the instruction 'wgmma.fence.sync.aligned'", "PTX line 10"});
  expect(kernel("add.rn.bogus.f32 %f0, %f1, %f2;"), {"add.rn.bogus.f32"});
  expect(kernel("tex.1d.v4.f32.s32 %f0, %f1;"), {"tex"});
}
TEST_F(BadInput, MalformedText) {
  expect("", {"no .version"});
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
  expect(module, cudaErrorInvalidDeviceFunction, {"no kernel k"});
  static const char nothing = 0;
  EXPECT_EQ(cudaLaunchKernel(&nothing, 1, 1, nullptr, 0, nullptr), cudaErrorInvalidDeviceFunction);
  EXPECT_NE(std::string(fusednorm_emulator_last_report()).find("unknown kernel"),
            std::string::npos);
  cudaGetLastError();
}
TEST_F(BadInput, MissingArgument) {
  PtxModule module(kernel(""));
  EXPECT_EQ(module.launch("k", 1, 1, {nullptr}), cudaErrorInvalidValue);
  EXPECT_NE(std::string(fusednorm_emulator_last_report()).find("without argument 0"),
            std::string::npos);
  cudaGetLastError();
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
  EXPECT_NE(std::string(fusednorm_emulator_last_report()).find("not a fat binary"),
            std::string::npos);
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
