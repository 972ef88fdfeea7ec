// SPDX-License-Identifier: Apache-2.0
// The runtime as a program sees it: symbols, printf, graphs, devices, limits, memory.
#include <cuda_runtime.h>

#include <condition_variable>
#include <mutex>
#include <numeric>
#include <thread>

#include "on_every_device.h"

namespace {

class RuntimeCalls : public OnEveryDevice {};
INSTANTIATE_TEST_SUITE_P(Capabilities, RuntimeCalls, every_capability());

__device__ int device_variable = 7;
__constant__ float constants[4] = {1, 2, 3, 4};
__device__ const char* names[2] = {"first", "second"};
__global__ void use_symbols(float* out) {
  out[threadIdx.x] = constants[threadIdx.x % 4] + device_variable + names[threadIdx.x % 2][0];
  if (threadIdx.x == 0) device_variable = 11;
}

TEST_P(RuntimeCalls, Symbols) {
  DeviceArray<float> out(4);
  const int seven = 7;
  const float changed[2] = {30, 40};
  ASSERT_EQ(cudaMemcpyToSymbol(device_variable, &seven, sizeof seven), cudaSuccess);
  ASSERT_EQ(cudaMemcpyToSymbol(constants, changed, sizeof changed, 2 * sizeof(float)), cudaSuccess);
  use_symbols<<<1, 4>>>(out.get());
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << fusednorm_emulator_last_report();
  EXPECT_EQ(out.values(),
            (std::vector<float>{1 + 7 + 'f', 2 + 7 + 's', 30 + 7 + 'f', 40 + 7 + 's'}));
  int value = 0;
  ASSERT_EQ(cudaMemcpyFromSymbol(&value, device_variable, sizeof value), cudaSuccess);
  EXPECT_EQ(value, 11);
}

__global__ void print_something(int n, const char* text) {
  if (threadIdx.x < 2)
    printf("thread %d of %d: %5.2f %s %llu%%\n", threadIdx.x, n, 1.5 * threadIdx.x, "literal",
           1ull << 40);
}

TEST_P(RuntimeCalls, Printf) {
  testing::internal::CaptureStdout();
  print_something<<<1, 32>>>(32, nullptr);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  fflush(stdout);
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "thread 0 of 32:  0.00 literal 1099511627776%\nthread 1 of 32:  1.50 literal "
            "1099511627776%\n");
}

__global__ void add_one(int* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += 1;
}

TEST_P(RuntimeCalls, GraphCaptureReplays) {
  DeviceArray<int> x(std::vector<int>(100, 5));
  cudaStream_t stream, side;
  cudaEvent_t fork, join;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamCreate(&side), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&fork), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&join), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  add_one<<<4, 32, 0, stream>>>(x.get(), 100);
  ASSERT_EQ(cudaEventRecord(fork, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(side, fork), cudaSuccess);
  add_one<<<4, 32, 0, side>>>(x.get(), 50);
  ASSERT_EQ(cudaEventRecord(join, side), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(stream, join), cudaSuccess);
  cudaStreamCaptureStatus status;
  ASSERT_EQ(cudaStreamIsCapturing(stream, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  cudaGraph_t graph;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(x.values()[0], 5) << "captured work must not run";
  cudaGraphExec_t exec;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  for (int k = 0; k < 3; ++k) ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(x.values()[0], 11);
  EXPECT_EQ(x.values()[99], 8);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  cudaStreamDestroy(side);
  cudaEventDestroy(fork);
  cudaEventDestroy(join);
}

TEST_P(RuntimeCalls, StreamAndMemoryBelongToADevice) {
  fusednorm_emulator_set_print_reports(0);
  cudaStream_t stream;
  DeviceArray<int> x(std::vector<int>(32, 1));
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  add_one<<<1, 32, 0, stream>>>(x.get(), 32);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  add_one<<<1, 32>>>(x.get(), 32);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_NE(std::string(fusednorm_emulator_last_report()).find("belongs to device 0"),
            std::string::npos)
      << fusednorm_emulator_last_report();
  fusednorm_emulator_reset_errors();
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  add_one<<<1, 32, 0, stream>>>(x.get(), 32);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(x.values()[31], 2);
  cudaStreamDestroy(stream);
}

__global__ void __launch_bounds__(64) bounded(int* x) {
  extern __shared__ int dynamic[];
  dynamic[threadIdx.x] = int(threadIdx.x);
  x[threadIdx.x] = dynamic[threadIdx.x];
}

TEST_P(RuntimeCalls, LaunchLimits) {
  fusednorm_emulator_set_print_reports(0);
  DeviceArray<int> x(64);
  auto launch = [&](dim3 grid, dim3 block, size_t shared) {
    bounded<<<grid, block, shared>>>(x.get());
    return cudaGetLastError();
  };
  EXPECT_EQ(launch(1, 64, 256), cudaSuccess);
  EXPECT_EQ(launch(1, 65, 260), cudaErrorLaunchOutOfResources);
  EXPECT_EQ(launch(1, 2048, 256), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(dim3(1, 65536), 64, 256), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(0, 64, 256), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(1, 64, 50000), cudaErrorInvalidValue);
  int optin = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&optin, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0),
            cudaSuccess);
  EXPECT_EQ(cudaFuncSetAttribute(bounded, cudaFuncAttributeMaxDynamicSharedMemorySize, optin + 1),
            cudaErrorInvalidValue);
  cudaGetLastError();
  EXPECT_EQ(cudaFuncSetAttribute(bounded, cudaFuncAttributeMaxDynamicSharedMemorySize, optin),
            cudaSuccess);
  EXPECT_EQ(launch(1, 64, size_t(optin)), cudaSuccess);
  EXPECT_EQ(cudaFuncSetAttribute(bounded, cudaFuncAttributeMaxDynamicSharedMemorySize, 256),
            cudaSuccess);
  cudaGetLastError();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << fusednorm_emulator_last_report();
}

// Two host threads in a fixed order, whatever the scheduler does: a step begins when those before
// it are done.
class Steps {
 public:
  template <class Body>
  void run(int step, Body body) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return next_ == step; });
    body();
    ++next_;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int next_ = 0;
};

cudaError_t allow_dynamic_shared(int bytes) {
  return cudaFuncSetAttribute(bounded, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}

// One thread sets `first` bytes and launches with `large`; between the two, another sets `second`
// and launches with `small`. Returns what the first thread's launch said.
cudaError_t launch_around_another_thread(int first, int second, int large, int small) {
  DeviceArray<int> x(64), y(64);
  Steps steps;
  cudaError_t error = cudaErrorUnknown;
  std::thread one([&] {
    steps.run(0, [&] { EXPECT_EQ(allow_dynamic_shared(first), cudaSuccess); });
    steps.run(2, [&] {
      bounded<<<1, 64, large>>>(x.get());
      error = cudaGetLastError();
    });
  });
  std::thread other([&] {
    steps.run(1, [&] {
      EXPECT_EQ(allow_dynamic_shared(second), cudaSuccess);
      bounded<<<1, 64, small>>>(y.get());
      EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    });
  });
  one.join();
  other.join();
  return error;
}

TEST_P(RuntimeCalls, ThreadsThatSetTheirOwnSharedMemoryLowerEachOthersLimit) {
  fusednorm_emulator_set_print_reports(0);
  int most = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0), cudaSuccess);
  const int large = 60 << 10, small = 50 << 10;
  EXPECT_EQ(launch_around_another_thread(large, small, large, small), cudaErrorInvalidValue);
  const std::string report = fusednorm_emulator_last_report();
  EXPECT_NE(report.find("61440 bytes of dynamic shared memory"), std::string::npos) << report;
  EXPECT_NE(report.find("may use 51200 (what cudaFuncSetAttribute set last on this device"),
            std::string::npos)
      << report;
  EXPECT_EQ(launch_around_another_thread(most, most, large, small), cudaSuccess);
}

TEST_P(RuntimeCalls, FunctionAttributesBelongToADevice) {
  fusednorm_emulator_set_print_reports(0);
  const int bytes = 60 << 10;
  auto launch = [&] {
    DeviceArray<int> x(64);
    bounded<<<1, 64, bytes>>>(x.get());
    return cudaGetLastError();
  };
  auto limit = [] {
    cudaFuncAttributes attributes;
    EXPECT_EQ(cudaFuncGetAttributes(&attributes, bounded), cudaSuccess);
    return attributes.maxDynamicSharedSizeBytes;
  };
  ASSERT_EQ(allow_dynamic_shared(bytes), cudaSuccess);
  EXPECT_EQ(launch(), cudaSuccess);
  EXPECT_EQ(limit(), bytes);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(limit(), 48 << 10);
  EXPECT_EQ(launch(), cudaErrorInvalidValue) << "set on device 0 only";
  ASSERT_EQ(allow_dynamic_shared(bytes), cudaSuccess);
  EXPECT_EQ(launch(), cudaSuccess);
  ASSERT_EQ(cudaDeviceReset(), cudaSuccess);
  EXPECT_EQ(launch(), cudaErrorInvalidValue) << "a reset forgets what was set";
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(launch(), cudaSuccess) << "the reset was device 1's";
}

TEST_P(RuntimeCalls, ManyAllocations) {
  for (int k = 0; k < 20000; ++k) {
    int* x = nullptr;
    ASSERT_EQ(cudaMalloc(&x, 64), cudaSuccess);
    ASSERT_EQ(cudaFree(x), cudaSuccess);
  }
}

}  // namespace
