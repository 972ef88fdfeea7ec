// SPDX-License-Identifier: Apache-2.0
// What the CUDA backend promises beyond results: errors before effects, streams, devices, threads,
// graphs, invariance.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "cuda_backend.h"
#include "emulation.h"
#include "guarantees.h"
#include "mentions.h"

namespace fusednorm::testing {
namespace {

cuda::Device device(int ordinal = 0) {
  const auto queried = cuda::query(ordinal);
  EXPECT_TRUE(queried.ok()) << queried.status().message();
  return *queried;
}

ForwardProblem small_forward() {
  ForwardProblem problem;
  problem.rows = 40;
  problem.cols = 1000;
  return problem;
}

/// Arrays of a forward problem on the current device.
struct Arrays {
  float *x = nullptr, *gamma = nullptr, *beta = nullptr, *y = nullptr;
  explicit Arrays(const ForwardProblem& p) {
    const std::size_t n = static_cast<std::size_t>(p.rows * p.cols);
    std::vector<float> host(n), parameters(static_cast<std::size_t>(p.cols), 1.5f);
    for (std::size_t i = 0; i < n; ++i) host[i] = static_cast<float>(i % 17) - 3.0f;
    for (auto [array, count] :
         {std::pair{&x, n}, {&gamma, parameters.size()}, {&beta, parameters.size()}, {&y, n}}) {
      EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(array), count * sizeof(float)), cudaSuccess);
    }
    EXPECT_EQ(cudaMemcpy(x, host.data(), n * sizeof(float), cudaMemcpyHostToDevice), cudaSuccess);
    for (float* array : {gamma, beta}) {
      EXPECT_EQ(cudaMemcpy(array, parameters.data(), parameters.size() * sizeof(float),
                           cudaMemcpyHostToDevice),
                cudaSuccess);
    }
    EXPECT_EQ(cudaMemset(y, 0x7b, n * sizeof(float)), cudaSuccess);
  }
  ~Arrays() {
    for (float* array : {x, gamma, beta, y}) (void)cudaFree(array);
  }
  Arrays(const Arrays&) = delete;
  Arrays& operator=(const Arrays&) = delete;
  ForwardBuffers buffers() const { return {x, gamma, beta, y}; }
  std::vector<float> result(const ForwardProblem& p) const {
    std::vector<float> host(static_cast<std::size_t>(p.rows * p.cols));
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(host.data(), y, host.size() * sizeof(float), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return host;
  }
};

TEST(CudaErrors, ADeviceThatIsTooOldIsNamed) {
  cuda::Device old = device();
  old.compute_capability = 70;
  const auto plan = cuda::plan(small_forward(), old);
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.status().message().find("compute_capability = 70"), std::string::npos)
      << plan.status().message();
}

TEST(CudaErrors, ADeviceThatDoesNotExistIsNamed) {
  EXPECT_NE(cuda::query(99).status().message().find("ordinal = 99"), std::string::npos);
}

TEST(CudaErrors, NullPointersAndBadStridesTouchNothing) {
  const ForwardProblem problem = small_forward();
  const Arrays arrays(problem);
  const auto before = arrays.result(problem);
  const auto plan = cuda::plan(problem, device());
  ForwardBuffers buffers = arrays.buffers();
  buffers.gamma = nullptr;
  const Status status = cuda::run(*plan, buffers, {}, nullptr);
  EXPECT_NE(status.message().find("gamma = null"), std::string::npos) << status.message();
  EXPECT_EQ(arrays.result(problem), before);
  ForwardProblem narrow = problem;
  narrow.x_row_stride = 999;
  EXPECT_NE(cuda::plan(narrow, device()).status().message().find("x_row_stride = 999"),
            std::string::npos);
}

TEST(CudaErrors, AWorkspaceThatIsTooSmallNotOnTheDeviceOrInAnArrayIsRefused) {
  BackwardProblem problem;
  problem.rows = 40;
  problem.cols = 1000;
  ForwardProblem shape = small_forward();
  const Arrays a(shape), b(shape);
  const auto plan = cuda::plan(problem, device());
  ASSERT_GT(plan->workspace_bytes, 0u);
  BackwardBuffers buffers;
  buffers.dy = a.x;
  buffers.x = b.x;
  buffers.gamma = a.gamma;
  buffers.mean = a.beta;
  buffers.rstd = b.beta;
  buffers.dx = a.y;
  buffers.dgamma = b.y;
  buffers.dbeta = b.y + 1000;
  EXPECT_NE(cuda::run(*plan, buffers, {b.gamma, 8}, nullptr).message().find("workspace.bytes = 8"),
            std::string::npos);
  std::vector<std::byte> host(plan->workspace_bytes);
  const Status status = cuda::run(*plan, buffers, {host.data(), host.size()}, nullptr);
  EXPECT_NE(status.message().find("not device memory"), std::string::npos) << status.message();
  const auto in = [&](void* array) {
    return cuda::run(*plan, buffers, {array, plan->workspace_bytes}, nullptr).message();
  };
  EXPECT_EQ(in(a.y).rfind("workspace overlaps dx (", 0), 0u) << in(a.y);
  EXPECT_EQ(in(b.x).rfind("workspace overlaps x (", 0), 0u) << in(b.x);
}

TEST(CudaDevices, APlanForAnotherDeviceIsRefusedAndRunsOnItsOwn) {
  if (emulated()) play(9, 0, 4, 2);
  int count = 0;
  (void)cudaGetDeviceCount(&count);
  if (count < 2) GTEST_SKIP() << "needs two devices; the emulated device plays two";
  const ForwardProblem problem = small_forward();
  const auto second = cuda::plan(problem, device(1));
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  const Arrays first_arrays(problem);
  const Status status = cuda::run(*second, first_arrays.buffers(), {}, nullptr);
  EXPECT_NE(status.message().find("plan.device.ordinal = 1"), std::string::npos)
      << status.message();
  ASSERT_TRUE(cuda::run(*cuda::plan(problem, device(0)), first_arrays.buffers(), {}, nullptr).ok());
  const auto on_first = first_arrays.result(problem);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  const Arrays second_arrays(problem);
  ASSERT_TRUE(cuda::run(*second, second_arrays.buffers(), {}, nullptr).ok());
  EXPECT_EQ(second_arrays.result(problem), on_first);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  if (emulated()) play(9, 0, 4);
}

TEST(CudaStreams, TwoStreamsAndOnePlanSharedByThreads) {
  const ForwardProblem problem = small_forward();
  const auto plan = cuda::plan(problem, device());
  const Arrays expected(problem);
  ASSERT_TRUE(cuda::run(*plan, expected.buffers(), {}, nullptr).ok());
  const auto y = expected.result(problem);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      cudaStream_t stream;
      ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
      const Arrays own(problem);
      EXPECT_TRUE(cuda::run(*plan, own.buffers(), {}, stream).ok());
      EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      EXPECT_EQ(own.result(problem), y);
      (void)cudaStreamDestroy(stream);
    });
  }
  for (auto& thread : threads) thread.join();
}

/// The limit of dynamic shared memory belongs to a kernel on a device. Set to each launch's own
/// size, a thread with narrow rows would lower it between another's attribute and launch.
TEST(CudaStreams, TheSharedMemoryLimitOfAKernelDoesNotDependOnWhoSetItLast) {
  if (device().compute_capability < 80) GTEST_SKIP() << "a ring of rows takes the memory: sm_80+";
  BackwardProblem problem;
  problem.cols = 1000;
  const auto limit_after = [&](std::int64_t rows_per_multiprocessor) {
    problem.rows = rows_per_multiprocessor * device().multiprocessors;
    const auto plan = cuda::plan(problem, device());
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    const std::size_t n = static_cast<std::size_t>(problem.rows * problem.cols);
    std::vector<void*> arrays(8);
    for (void*& array : arrays) {
      EXPECT_EQ(cudaMalloc(&array, n * sizeof(float)), cudaSuccess);
      EXPECT_EQ(cudaMemset(array, 0, n * sizeof(float)), cudaSuccess);
    }
    void* workspace = nullptr;
    EXPECT_EQ(cudaMalloc(&workspace, plan->workspace_bytes), cudaSuccess);
    BackwardBuffers buffers;
    buffers.dy = arrays[0];
    buffers.x = arrays[1];
    buffers.gamma = arrays[2];
    buffers.mean = arrays[3];
    buffers.rstd = arrays[4];
    buffers.dx = arrays[5];
    buffers.dgamma = arrays[6];
    buffers.dbeta = arrays[7];
    const Status status = cuda::run(*plan, buffers, {workspace, plan->workspace_bytes}, nullptr);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (void* array : arrays) (void)cudaFree(array);
    (void)cudaFree(workspace);
    EXPECT_GT(plan->launch.shared_bytes, std::size_t{44} << 10) << "this launch asks for no limit";
    cudaFuncAttributes attributes{};
    EXPECT_EQ(cudaFuncGetAttributes(&attributes, plan->launch.function), cudaSuccess);
    return attributes.maxDynamicSharedSizeBytes;
  };
  const int of_many_rows = limit_after(16);  // eight rows a block where shared memory allows
  const int of_few_rows = limit_after(5);
  EXPECT_EQ(of_few_rows, of_many_rows);
}

TEST(CudaGraphs, ARunCanBeCapturedAndReplayed) {
  const ForwardProblem problem = small_forward();
  const auto plan = cuda::plan(problem, device());
  const Arrays plain(problem), captured(problem);
  ASSERT_TRUE(cuda::run(*plan, plain.buffers(), {}, nullptr).ok());
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  const Status status = cuda::run(*plan, captured.buffers(), {}, stream);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_NE(captured.result(problem), plain.result(problem)) << "captured, not yet run";
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(captured.result(problem), plain.result(problem));
  (void)cudaGraphExecDestroy(executable);
  (void)cudaGraphDestroy(graph);
  (void)cudaStreamDestroy(stream);
}

/// Devices of other sizes get other kernels, blocks and clusters for the same row: its bits must
/// not change.
TEST(CudaGuarantees, BatchInvariantAcrossKernelsAndRunToRun) {
  cuda::Device few = device(), many = device();
  few.multiprocessors = 2;
  many.multiprocessors = 200;
  CudaBackend small_device(few, "planned for 2 multiprocessors"),
      large_device(many, "planned for 200 multiprocessors");
  for (const char* text :
       {"forward:f32:9x37", "forward:bf16:6x769", "forward:f32:7x1025", "forward:f32:5x4097",
        "forward:f32:3x16384", "forward:bf16:3x17000:data=ramp", "forward:f32:3x70000",
        "forward:f64:3x3000", "backward:f32:9x37", "backward:bf16:6x769", "backward:f32:5x4097",
        "backward:f32:3x16384", "backward:f64:3x3000"}) {
    const Problem problem = parse(text);
    EXPECT_EQ(batch_invariant(problem, small_device, large_device, 1), "") << text;
    EXPECT_EQ(batch_invariant(problem, large_device, small_device, 2, true), "") << text;
    EXPECT_EQ(same_bits(problem, small_device, small_device), "") << text;
  }
}

/// The squares of what rounding leaves of a large constant overflow; the row's own do, too, but are
/// never taken.
TEST(CudaNumbers, LargeConstantRowsLeaveNothingButBeta) {
  for (const float value : {1.0f, 1e26f, 1.1e30f, 1.3e33f, 1e37f}) {
    for (std::int64_t cols : {1, 2, 3, 5, 6, 7, 8, 100, 769}) {
      ForwardProblem problem;
      problem.rows = 3;
      problem.cols = cols;
      const Arrays arrays(problem);
      const std::vector<float> constant(static_cast<std::size_t>(3 * cols), value);
      ASSERT_EQ(cudaMemcpy(arrays.x, constant.data(), constant.size() * sizeof(float),
                           cudaMemcpyHostToDevice),
                cudaSuccess);
      const auto plan = cuda::plan(problem, device());
      ASSERT_TRUE(cuda::run(*plan, arrays.buffers(), {}, nullptr).ok());
      for (const float y : arrays.result(problem)) EXPECT_EQ(y, 1.5f) << value << " x " << cols;
    }
  }
}

/// Off by an element, a row is read differently but summed alike.
TEST(CudaGuarantees, AnAddressOffAlignmentGivesTheSameBits) {
  for (const char* shape : {"20x1024", "5x4096", "3x16384", "40x128"}) {
    ForwardProblem problem;
    std::sscanf(shape, "%ldx%ld", &problem.rows, &problem.cols);
    const Arrays aligned(problem);
    const auto plan = cuda::plan(problem, device());
    ASSERT_TRUE(cuda::run(*plan, aligned.buffers(), {}, nullptr).ok());
    const std::size_t bytes = static_cast<std::size_t>(problem.rows * problem.cols) * sizeof(float);
    float *x, *y;
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&x), bytes + 4), cudaSuccess);
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&y), bytes + 4), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(x + 1, aligned.x, bytes, cudaMemcpyDeviceToDevice), cudaSuccess);
    ASSERT_TRUE(cuda::run(*plan, {x + 1, aligned.gamma, aligned.beta, y + 1}, {}, nullptr).ok());
    std::vector<float> off(bytes / 4);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(off.data(), y + 1, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(off, aligned.result(problem)) << shape;
    (void)cudaFree(x);
    (void)cudaFree(y);
  }
}

}  // namespace
}  // namespace fusednorm::testing
