// SPDX-License-Identifier: Apache-2.0
// Stream capture and graphs by the rules of the CUDA runtime: which streams take part, what breaks
// a capture, in what order a graph may run. Copies and fills stand for kernels.
#include <cuda.h>

#include <set>
#include <thread>

#include "device_memory.h"
#include "fusednorm_emulator.h"

namespace {

class Capture : public testing::Test {
 protected:
  void SetUp() override {
    fusednorm_emulator_reset_errors();
    fusednorm_emulator_set_print_reports(0);
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaEventCreate(&fork), cudaSuccess);
    ASSERT_EQ(cudaEventCreate(&join), cudaSuccess);
  }
  void TearDown() override {
    if (exec) cudaGraphExecDestroy(exec);
    if (graph) cudaGraphDestroy(graph);
    for (cudaStream_t one : {stream, side}) cudaStreamDestroy(one);
    for (cudaEvent_t one : {fork, join}) cudaEventDestroy(one);
    fusednorm_emulator_set_seed(0);
    cudaGetLastError();
  }
  void begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    ASSERT_EQ(cudaStreamBeginCapture(stream, mode), cudaSuccess);
  }
  void set(cudaStream_t where, int value) {
    ASSERT_EQ(cudaMemsetAsync(x.get(), value, 1, where), cudaSuccess);
  }
  void wait(cudaStream_t later, cudaEvent_t event, cudaStream_t earlier) {
    ASSERT_EQ(cudaEventRecord(event, earlier), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(later, event), cudaSuccess);
  }
  void replay() {
    if (!exec) ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  }

  DeviceArray<char> x{std::vector<char>(1, 0)};
  cudaStream_t stream = nullptr, side = nullptr;
  cudaEvent_t fork = nullptr, join = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
};

TEST_F(Capture, RunsWhenLaunchedAndNotBefore) {
  begin();
  set(stream, 1);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(x.values()[0], 0);
  replay();
  EXPECT_EQ(x.values()[0], 1);
}

TEST_F(Capture, AnUnsafeCallFailsAndBreaksIt) {
  begin();
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaMemsetAsync(x.get(), 1, 1, stream), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(graph, nullptr);
  set(stream, 3);
  EXPECT_EQ(x.values()[0], 3) << "the stream is an ordinary one again";
}

TEST_F(Capture, AThreadMayAllowItselfUnsafeCalls) {
  begin();
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  ASSERT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  ASSERT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  EXPECT_EQ(mode, cudaStreamCaptureModeRelaxed);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
}

TEST_F(Capture, OtherThreadsAreBoundByAGlobalOneOnly) {
  for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
    const bool global = mode == cudaStreamCaptureModeGlobal;
    begin(mode);
    cudaError_t seen = cudaSuccess;
    std::thread([&] {
      void* memory = nullptr;
      seen = cudaMalloc(&memory, 4);
      if (seen == cudaSuccess) cudaFree(memory);
    }).join();
    EXPECT_EQ(seen, global ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
    const cudaError_t end = cudaStreamEndCapture(stream, &graph);
    EXPECT_EQ(end, global ? cudaErrorStreamCaptureInvalidated : cudaSuccess);
  }
}

TEST_F(Capture, EndsOnTheThreadThatBeganIt) {
  begin();
  cudaError_t seen = cudaSuccess;
  std::thread([&] { seen = cudaStreamEndCapture(stream, &graph); }).join();
  EXPECT_EQ(seen, cudaErrorStreamCaptureWrongThread);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
}

TEST_F(Capture, TheDefaultStreamMayNotWaitForIt) {
  cudaStream_t blocking;
  ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(x.get(), 1, 1, nullptr), cudaErrorStreamCaptureImplicit);
  EXPECT_EQ(cudaStreamEndCapture(blocking, &graph), cudaErrorStreamCaptureInvalidated);
  cudaStreamDestroy(blocking);
  begin();
  EXPECT_EQ(cudaMemsetAsync(x.get(), 1, 1, nullptr), cudaSuccess)
      << "it does not wait for this one";
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
}

TEST_F(Capture, AForkMustBeJoined) {
  begin();
  set(stream, 1);
  wait(side, fork, stream);
  set(side, 2);
  EXPECT_EQ(cudaStreamEndCapture(side, &graph), cudaErrorStreamCaptureUnmatched);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureUnjoined);
  set(side, 5);
  EXPECT_EQ(x.values()[0], 5) << "the side stream is an ordinary one again";
}

TEST_F(Capture, WorkFromOutsideIsNoDependency) {
  set(side, 1);
  begin();
  ASSERT_EQ(cudaEventRecord(join, side), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(stream, join), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
}

TEST_F(Capture, DependenciesAreThoseOfStreamsAndEvents) {
  begin();
  set(stream, 1);
  wait(side, fork, stream);
  set(side, 2);
  set(stream, 3);
  wait(stream, join, side);
  set(stream, 4);
  cudaStreamCaptureStatus status;
  unsigned long long id = 0;
  const cudaGraphNode_t* last = nullptr;
  size_t count = 0;
  ASSERT_EQ(cudaStreamGetCaptureInfo(stream, &status, &id, nullptr, &last, nullptr, &count),
            cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_NE(id, 0u);
  ASSERT_EQ(count, 1u);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  cudaGraphNode_t nodes[4];
  count = 4;
  ASSERT_EQ(cudaGraphGetNodes(graph, nodes, &count), cudaSuccess);
  ASSERT_EQ(count, 4u);
  const size_t expected[4] = {0, 1, 1, 2};
  for (int k = 0; k < 4; ++k) {
    ASSERT_EQ(cudaGraphNodeGetDependencies(nodes[k], nullptr, nullptr, &count), cudaSuccess);
    EXPECT_EQ(count, expected[k]) << "node " << k;
  }
}

// Two nodes that nothing orders: which is last depends on the seed, and only then.
TEST_F(Capture, AMissingDependencyShowsWithOtherSeeds) {
  begin();
  set(stream, 1);
  wait(side, fork, stream);
  set(side, 2);
  set(stream, 3);
  wait(stream, join, side);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  std::set<char> seen;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    fusednorm_emulator_set_seed(seed);
    replay();
    seen.insert(x.values()[0]);
  }
  EXPECT_EQ(seen, (std::set<char>{2, 3}));
}

TEST_F(Capture, IntoAGraphThatIsThere) {
  ASSERT_EQ(cudaGraphCreate(&graph, 0), cudaSuccess);
  cudaGraph_t same = nullptr;
  for (int value : {1, 2}) {
    cudaGraphNode_t nodes[1];
    size_t count = 1;
    ASSERT_EQ(cudaGraphGetNodes(graph, nodes, &count), cudaSuccess);
    ASSERT_EQ(cudaStreamBeginCaptureToGraph(stream, graph, nodes, nullptr, count,
                                            cudaStreamCaptureModeGlobal),
              cudaSuccess);
    set(stream, value);
    ASSERT_EQ(cudaStreamEndCapture(stream, &same), cudaSuccess);
    EXPECT_EQ(same, graph);
  }
  replay();
  EXPECT_EQ(x.values()[0], 2);
}

TEST_F(Capture, AGraphKeepsItsUserObjects) {
  int destroyed = 0;
  cudaUserObject_t object;
  ASSERT_EQ(cudaUserObjectCreate(
                &object, &destroyed, [](void* count) { ++*static_cast<int*>(count); }, 1,
                cudaUserObjectNoDestructorSync),
            cudaSuccess);
  ASSERT_EQ(cudaGraphCreate(&graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  cudaGraphDestroy(graph);
  graph = nullptr;
  EXPECT_EQ(destroyed, 0) << "the executable graph still has it";
  cudaGraphExecDestroy(exec);
  exec = nullptr;
  EXPECT_EQ(destroyed, 1);
}

TEST(Unsupported, SaysSo) {
  fusednorm_emulator_set_print_reports(0);
  cudaMemPool_t pool;
  EXPECT_EQ(cudaDeviceGetDefaultMemPool(&pool, 0), cudaErrorNotSupported);
  EXPECT_NE(std::string(fusednorm_emulator_last_report()).find("cudaDeviceGetDefaultMemPool"),
            std::string::npos);
  cudaGetLastError();
}

TEST(Driver, AnswersWhatPyTorchAsks) {
  CUdevice device = -1;
  unsigned flags = 7;
  int active = 0;
  EXPECT_EQ(cuDeviceGet(&device, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuDeviceGet(&device, 99), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(flags, 0u);
  EXPECT_EQ(active, 1);
  const char* text = nullptr;
  EXPECT_EQ(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text), CUDA_SUCCESS);
  EXPECT_STREQ(text, "out of memory");
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status;
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuDeviceGet", &function, 13000, 0, &status),
            cudaSuccess);
  EXPECT_EQ(status, cudaDriverEntryPointSuccess);
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuMemMap", &function, 13000, 0, &status),
            cudaSuccess);
  EXPECT_EQ(status, cudaDriverEntryPointSymbolNotFound);
}

}  // namespace
