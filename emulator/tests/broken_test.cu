// SPDX-License-Identifier: Apache-2.0
// Broken kernels: each must be caught, with the right message, and with nothing said about its
// sound twin.
#include <cooperative_groups.h>

#include <cassert>

#include "broken.h"

namespace {

__global__ void store_past_end(int* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) x[i] = i;
}
TEST_F(Broken, OffByOneStore) {
  DeviceArray<int> x(100);
  store_past_end<<<1, 128>>>(x.get(), 99);
  expect_sound();
  store_past_end<<<1, 128>>>(x.get(), 100);
  expect_fault(cudaErrorIllegalAddress,
               {"out-of-bounds global store of 4 bytes", "0 bytes past the end",
                "thread (100, 0, 0)", "store_past_end"});
}

__global__ void read_first(const float* x, float* out) {
  out[threadIdx.x] = x[threadIdx.x];
}
TEST_F(Broken, UseAfterFree) {
  float* x = nullptr;
  DeviceArray<float> out(32);
  ASSERT_EQ(cudaMalloc(&x, 128), cudaSuccess);
  ASSERT_EQ(cudaMemset(x, 0, 128), cudaSuccess);
  ASSERT_EQ(cudaFree(x), cudaSuccess);
  read_first<<<1, 32>>>(x, out.get());
  expect_fault(cudaErrorIllegalAddress, {"use after free"});
}
TEST_F(Broken, HostPointer) {
  float host[32] = {};
  DeviceArray<float> out(32);
  read_first<<<1, 32>>>(host, out.get());
  expect_fault(cudaErrorIllegalAddress, {"no allocation is there"});
}
TEST_F(Broken, UninitialisedGlobalRead) {
  DeviceArray<float> x(32), out(32);
  ASSERT_EQ(cudaMemset(x.get(), 0, 31 * sizeof(float)), cudaSuccess);
  read_first<<<1, 31>>>(x.get(), out.get());
  expect_sound();
  read_first<<<1, 32>>>(x.get(), out.get());
  expect_fault(cudaErrorLaunchFailure,
               {"uninitialised global load", "thread (31, 0, 0)", "byte 124"});
}

__global__ void load_float4(const float* x, float4* out) {
  out[threadIdx.x] = *reinterpret_cast<const float4*>(x + 4 * threadIdx.x);
}
TEST_F(Broken, MisalignedFloat4) {
  DeviceArray<float> x(std::vector<float>(256, 1.0f));
  DeviceArray<float4> out(32);
  load_float4<<<1, 32>>>(x.get(), out.get());
  expect_sound();
  load_float4<<<1, 32>>>(x.get() + 1, out.get());
  expect_fault(cudaErrorMisalignedAddress,
               {"misaligned global load of 16 bytes", "multiple of 16"});
}

template <bool kSync>
__global__ void reverse_in_block(int* x) {
  __shared__ int s[128];
  s[threadIdx.x] = x[threadIdx.x];
  if (kSync) __syncthreads();
  x[threadIdx.x] = s[127 - threadIdx.x];
}
TEST_F(Broken, MissingSyncthreads) {
  DeviceArray<int> x(std::vector<int>(128, 3));
  for (uint64_t seed : {0, 1, 2}) {
    fusednorm_emulator_set_seed(seed);
    reverse_in_block<true><<<1, 128>>>(x.get());
    expect_sound();
    reverse_in_block<false><<<1, 128>>>(x.get());
    // Whichever order is tried: the value has not been written yet, or the write is not ordered.
    EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
    const std::string report = fusednorm_emulator_last_report();
    EXPECT_TRUE(report.find("__syncthreads") != std::string::npos) << report;
    fusednorm_emulator_reset_errors();
  }
}

template <bool kSync>
__global__ void neighbour_in_warp(int* x) {
  __shared__ int s[32];
  s[threadIdx.x] = x[threadIdx.x];
  if (kSync) __syncwarp();
  x[threadIdx.x] = s[threadIdx.x ^ 1];
}
TEST_F(Broken, MissingSyncwarp) {
  DeviceArray<int> x(std::vector<int>(32, 3));
  neighbour_in_warp<true><<<1, 32>>>(x.get());
  expect_sound();
  neighbour_in_warp<false><<<1, 32>>>(x.get());
  expect_fault(cudaErrorLaunchFailure, {"shared-memory race", "__syncwarp"});
}

__global__ void reuse_without_barrier(int* x) {
  __shared__ int s[64];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  const int v = s[63 - threadIdx.x];
  s[threadIdx.x] = v + 1;
  __syncthreads();
  x[threadIdx.x] = s[threadIdx.x];
}
TEST_F(Broken, WriteAfterReadWithoutBarrier) {
  DeviceArray<int> x(std::vector<int>(64, 3));
  reuse_without_barrier<<<1, 64>>>(x.get());
  expect_fault(cudaErrorLaunchFailure, {"shared-memory race", "write", "read"});
}

__global__ void read_uninitialised_shared(int* x) {
  __shared__ int s[64];
  if (threadIdx.x < 32) s[threadIdx.x] = 1;
  __syncthreads();
  x[threadIdx.x] = s[threadIdx.x];
}
TEST_F(Broken, UninitialisedSharedMemory) {
  DeviceArray<int> x(64);
  read_uninitialised_shared<<<1, 64>>>(x.get());
  expect_fault(cudaErrorLaunchFailure, {"uninitialised shared load", "thread (32, 0, 0)"});
}

__global__ void shared_past_end(int* x, int index) {
  extern __shared__ int s[];
  s[threadIdx.x] = 1;
  s[index] = 2;
  x[threadIdx.x] = s[threadIdx.x];
}
TEST_F(Broken, SharedMemoryOutOfBounds) {
  DeviceArray<int> x(1);
  shared_past_end<<<1, 1, 64>>>(x.get(), 15);
  expect_sound();
  shared_past_end<<<1, 1, 64>>>(x.get(), 16);
  expect_fault(cudaErrorIllegalAddress,
               {"out-of-bounds shared store", "64 bytes of shared memory"});
}

__global__ void partial_barrier(int* x, int threads) {
  if (threadIdx.x < threads) __syncthreads();
  x[threadIdx.x] = 1;
}
TEST_F(Broken, BarrierReachedByPartOfABlock) {
  DeviceArray<int> x(128);
  partial_barrier<<<1, 128>>>(x.get(), 128);
  expect_sound();
  partial_barrier<<<1, 128>>>(x.get(), 64);
  expect_fault(cudaErrorLaunchFailure,
               {"barrier reached by part of a block", "64 threads wait", "64 have exited"});
  partial_barrier<<<1, 128>>>(x.get(), 48);
  expect_fault(cudaErrorLaunchFailure, {"barrier reached by part of a block"});
}

__global__ void wrong_mask(int* x, unsigned mask) {
  if (threadIdx.x < 16) x[threadIdx.x] = __shfl_xor_sync(mask, x[threadIdx.x], 1);
}
TEST_F(Broken, ShuffleMask) {
  DeviceArray<int> x(std::vector<int>(32, 1));
  wrong_mask<<<1, 32>>>(x.get(), 0x0000ffffu);
  expect_sound();
  wrong_mask<<<1, 32>>>(x.get(), 0x00000fffu);
  expect_fault(cudaErrorLaunchFailure, {"member mask 0xfff", "lane 12", "missing"});
}
__global__ void shuffle_from_exited(int* x) {
  if (threadIdx.x >= 24) return;
  x[threadIdx.x] = __shfl_down_sync(0xffffffffu, x[threadIdx.x], 8);
}
TEST_F(Broken, ShuffleFromALaneThatIsNotThere) {
  DeviceArray<int> x(std::vector<int>(32, 1));
  shuffle_from_exited<<<1, 32>>>(x.get());
  expect_fault(cudaErrorLaunchFailure, {"member mask 0xffffffff", "0xff000000 never come here"});
}
__global__ void shuffles_that_never_meet(int* x) {
  if (threadIdx.x % 2) {
    x[threadIdx.x] = __shfl_xor_sync(0xffffffffu, x[threadIdx.x], 1);
  } else {
    x[threadIdx.x] = __shfl_xor_sync(0xffffffffu, x[threadIdx.x] + 1, 2);
  }
}
TEST_F(Broken, ShufflesThatWaitForEachOther) {
  DeviceArray<int> x(std::vector<int>(32, 1));
  shuffles_that_never_meet<<<1, 32>>>(x.get());
  expect_fault(cudaErrorLaunchFailure, {"member mask 0xffffffff", "never come here"});
}

__global__ void spin(volatile int* flag) {
  while (*flag == 0) {
  }
}
TEST_F(Broken, SpinWithoutProgress) {
  DeviceArray<int> flag(std::vector<int>{0});
  spin<<<2, 64>>>(flag.get());
  expect_fault(cudaErrorLaunchTimeout, {"spins without progress"});
}
__global__ void count_long(int* out, int n) {
  unsigned v = 1;
  for (int i = 0; i < n; ++i) v = v * 1664525u + 1013904223u;
  out[threadIdx.x] = int(v);
}
TEST_F(Broken, LongComputationIsNoDeadlock) {
  DeviceArray<int> out(32);
  count_long<<<1, 32>>>(out.get(), 300000);
  expect_sound();
}

__global__ void same_address(int* x) {
  x[threadIdx.x / 32] = int(blockIdx.x);
}
TEST_F(Broken, TwoBlocksWriteOneAddress) {
  DeviceArray<int> x(2);
  same_address<<<1, 32>>>(x.get());
  expect_sound();
  same_address<<<2, 32>>>(x.get());
  expect_fault(cudaErrorLaunchFailure, {"global-memory race between blocks", "write"});
}
__global__ void no_fence(int* data, unsigned* ticket, int* out) {
  if (threadIdx.x == 0) {
    data[blockIdx.x] = 1;
    if (atomicAdd(ticket, 1u) == gridDim.x - 1) {
      int sum = 0;
      for (unsigned k = 0; k < gridDim.x; ++k) sum += data[k];
      *out = sum;
    }
  }
}
TEST_F(Broken, TicketWithoutFence) {
  DeviceArray<int> data(8), out(1);
  DeviceArray<unsigned> ticket(std::vector<unsigned>{0});
  no_fence<<<8, 32>>>(data.get(), ticket.get(), out.get());
  expect_fault(cudaErrorLaunchFailure,
               {"global-memory race between blocks", "read", "after a write"});
}

// 32 blocks share one line of 128 bytes, each its own two bytes of a word, which is sound; block
// 31 also writes those of block `victim`.
__global__ void halves_of_a_line(short* x, unsigned victim) {
  if (threadIdx.x == 0) x[blockIdx.x] = short(blockIdx.x);
  if (threadIdx.x == 0 && blockIdx.x == 31 && victim < 31) x[victim] = 0;
}
TEST_F(Broken, ManyBlocksInOneLine) {
  DeviceArray<short> x(32);
  halves_of_a_line<<<32, 32>>>(x.get(), 99);
  expect_sound();
  for (unsigned victim : {0u, 13u, 30u}) {
    halves_of_a_line<<<32, 32>>>(x.get(), victim);
    expect_fault(cudaErrorLaunchFailure, {"global-memory race between blocks", "after a write"});
  }
}

__global__ void write_what_another_reads(const int* x, int* alias, int* out) {
  if (blockIdx.x == 0) out[threadIdx.x] = x[threadIdx.x];
  if (blockIdx.x == 1) alias[threadIdx.x] = 1;
}
TEST_F(Broken, WriteOfWhatAnotherBlockReads) {
  DeviceArray<int> x(std::vector<int>(64, 5)), out(32);
  write_what_another_reads<<<2, 32>>>(x.get(), x.get() + 32, out.get());
  expect_sound();
  write_what_another_reads<<<2, 32>>>(x.get(), x.get() + 31, out.get());
  expect_fault(cudaErrorLaunchFailure, {"global-memory race between blocks", "block ("});
}

// Block 0 of a cluster of two hands a value to block 1 through global memory.
__global__ void __cluster_dims__(2) hand_over(int* x, int* out, bool wait) {
  namespace cg = cooperative_groups;
  if (threadIdx.x == 0 && blockIdx.x == 0) x[0] = 7;
  if (wait) cg::this_cluster().sync();
  if (threadIdx.x == 0 && blockIdx.x == 1) out[0] = x[0];
}
TEST_F(Broken, ClusterBarrierOrdersGlobalMemory) {
  DeviceArray<int> x(std::vector<int>{0}), out(1);
  hand_over<<<2, 64>>>(x.get(), out.get(), true);
  expect_sound();
  EXPECT_EQ(out.values()[0], 7);
  hand_over<<<2, 64>>>(x.get(), out.get(), false);
  expect_fault(cudaErrorLaunchFailure, {"global-memory race between blocks"});
}

__constant__ int constant_value;
__global__ void write_constant(int* alias) {
  alias[0] = 1;
}
TEST_F(Broken, StoreToConstantMemory) {
  void* address = nullptr;
  ASSERT_EQ(cudaGetSymbolAddress(&address, constant_value), cudaSuccess);
  write_constant<<<1, 1>>>(static_cast<int*>(address));
  expect_fault(cudaErrorIllegalAddress, {"constant"});
}

__global__ void asserting(int value) {
  assert(value == 3 && "must be three");
}
TEST_F(Broken, DeviceAssert) {
  asserting<<<1, 1>>>(3);
  expect_sound();
  asserting<<<1, 33>>>(4);
  expect_fault(cudaErrorAssert, {"must be three", "asserting"});
}

}  // namespace
