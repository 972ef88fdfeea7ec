// SPDX-License-Identifier: Apache-2.0
// Broken kernels whose accesses are ordered only by luck, and kernels that rely on where shared
// memory begins or on blocks that have started: a device may do otherwise any day.
#include <cooperative_groups.h>

#include "broken.h"

namespace cg = cooperative_groups;

namespace {

using BrokenOrder = Broken;

__device__ unsigned shared_address(const void* place) {
  return static_cast<unsigned>(__cvta_generic_to_shared(place));
}
__device__ void store_at(unsigned address, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}
__device__ void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Two buffers of 1 KiB, swapped by XOR: right only where the first lies on a multiple of 2 KiB.
// alignas(2048) does not see to that: from 9.0 on the first variable lies at 0x400.
__global__ void swap_buffers(float* out, bool by_xor) {
  __shared__ alignas(2048) float buffers[2][256];
  unsigned place = shared_address(&buffers[0][threadIdx.x]);
  store_at(place, 1);
  store_at(by_xor ? place ^ 1024 : place + 1024, 2);
  out[threadIdx.x] = buffers[0][threadIdx.x] + 10 * buffers[1][threadIdx.x];
}
TEST_F(BrokenOrder, BuffersSwappedAsIfSharedMemoryBeganAtZero) {
  DeviceArray<float> out(32);
  swap_buffers<<<1, 32>>>(out.get(), false);
  expect_sound();
  EXPECT_EQ(out.values()[7], 21);
  swap_buffers<<<1, 32>>>(out.get(), true);
  expect_fault(cudaErrorIllegalAddress, {"shared memory begins at 0x400", "shared store"});
}

// A block writes into its neighbour's shared memory, and that one reads it.
enum class Entry { none, relaxed, full };
__global__ void __cluster_dims__(2) give_to_neighbour(float* out, Entry entry, bool stays) {
  __shared__ float given;
  const cg::cluster_group cluster = cg::this_cluster();
  if (entry == Entry::relaxed) {
    cluster_arrive_relaxed();
    cluster_wait();
  }
  if (entry == Entry::full) cluster.sync();
  if (threadIdx.x == 0) *cluster.map_shared_rank(&given, 1 - cluster.block_rank()) = 5;
  cluster.sync();
  if (threadIdx.x == 0) {
    out[blockIdx.x] = stays ? *cluster.map_shared_rank(&given, 1 - cluster.block_rank()) : given;
  }
  if (stays) cluster.sync();
}
TEST_F(BrokenOrder, BlockThatMayNotHaveStarted) {
  DeviceArray<float> out(2);
  for (uint64_t seed : {0, 1, 2, 3}) {
    fusednorm_emulator_set_seed(seed);
    for (const Entry entry : {Entry::relaxed, Entry::full}) {
      give_to_neighbour<<<2, 64>>>(out.get(), entry, false);
      expect_sound();
      EXPECT_EQ(out.values()[1], 5);
    }
    give_to_neighbour<<<2, 64>>>(out.get(), Entry::none, false);
    expect_fault(cudaErrorIllegalAddress,
                 {"distributed shared store", "by the block of rank", "started"});
  }
}

// The last read of the neighbour's memory is not followed by a barrier: it may have left.
__global__ void __cluster_dims__(2) read_and_leave(float* out, bool waits) {
  __shared__ float mine;
  const cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x == 0) mine = float(blockIdx.x);
  cluster.sync();
  if (threadIdx.x == 0) out[blockIdx.x] = *cluster.map_shared_rank(&mine, 1 - blockIdx.x);
  if (waits) cluster.sync();
}
TEST_F(BrokenOrder, BlockThatLeavesTooEarly) {
  DeviceArray<float> out(2);
  for (uint64_t seed : {0, 1, 2, 3}) {
    fusednorm_emulator_set_seed(seed);
    read_and_leave<<<2, 32>>>(out.get(), true);
    expect_sound();
    read_and_leave<<<2, 32>>>(out.get(), false);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    const std::string report = fusednorm_emulator_last_report();
    EXPECT_TRUE(report.find("has already exited") != std::string::npos ||
                report.find("may still access its shared memory") != std::string::npos)
        << report;
    EXPECT_NE(report.find("rank 0"), std::string::npos) << report;
    EXPECT_NE(report.find("rank 1"), std::string::npos) << report;
    fusednorm_emulator_reset_errors();
  }
}

// A barrier whose arrival is .relaxed makes threads wait, but orders no memory.
__global__ void __cluster_dims__(2)
    hand_over_relaxed(float* global, float* out, bool relaxed, bool through_global) {
  __shared__ float given;
  const cg::cluster_group cluster = cg::this_cluster();
  cluster.sync();
  if (threadIdx.x == 0 && cluster.block_rank() == 0) {
    if (through_global)
      *global = 7;
    else
      *cluster.map_shared_rank(&given, 1) = 7;
  }
  if (relaxed) {
    cluster_arrive_relaxed();
    cluster_wait();
  } else {
    cluster.sync();
  }
  if (threadIdx.x == 0 && cluster.block_rank() == 1) *out = through_global ? *global : given;
  cluster.sync();
}
TEST_F(BrokenOrder, RelaxedArrivalWhereAReleaseWasNeeded) {
  DeviceArray<float> global(1), out(1);
  for (const bool through_global : {false, true}) {
    hand_over_relaxed<<<2, 32>>>(global.get(), out.get(), false, through_global);
    expect_sound();
    EXPECT_EQ(out.values()[0], 7);
    hand_over_relaxed<<<2, 32>>>(global.get(), out.get(), true, through_global);
    expect_fault(cudaErrorLaunchFailure,
                 {through_global ? "global-memory race between blocks" : "shared-memory race",
                  "nothing to order them"});
  }
}

// Block 0 hands a value over with a flag; what fences it there and here?
enum class Fenced { both, only_writer, only_reader, in_block };
__global__ void flag(int* data, volatile int* ready, int* out, Fenced fenced) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 0) {
    *data = 3;
    if (fenced == Fenced::in_block) __threadfence_block();
    if (fenced == Fenced::both || fenced == Fenced::only_writer) __threadfence();
    *ready = 1;
  } else {
    while (*ready == 0) {
    }
    if (fenced != Fenced::only_writer) __threadfence();
    *out = *data;
  }
}
TEST_F(BrokenOrder, FlagWithoutAFence) {
  DeviceArray<int> data(1), out(1);
  for (const Fenced fenced :
       {Fenced::both, Fenced::only_writer, Fenced::only_reader, Fenced::in_block}) {
    DeviceArray<int> ready(std::vector<int>{0});
    flag<<<2, 32>>>(data.get(), ready.get(), out.get(), fenced);
    if (fenced == Fenced::both) {
      expect_sound();
      EXPECT_EQ(out.values()[0], 3);
    } else {
      expect_fault(cudaErrorLaunchFailure,
                   {"global-memory race between blocks", "read", "a fence, a flag"});
    }
  }
}

// Warp 1 writes; warp 0 fences and sets the flag without having met warp 1.
__global__ void fence_for_another_warp(int* data, int* ready, int* out, bool meets) {
  if (blockIdx.x == 0) {
    if (threadIdx.x >= 32) data[threadIdx.x - 32] = 1;
    if (meets) __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      atomicExch(ready, 1);
    }
  } else if (threadIdx.x < 32) {
    if (threadIdx.x == 0) {
      while (atomicAdd(ready, 0) == 0) {
      }
      __threadfence();
    }
    __syncwarp();
    out[threadIdx.x] = data[threadIdx.x];
  }
}
TEST_F(BrokenOrder, FenceOfAWarpThatDoesNotKnow) {
  DeviceArray<int> data(std::vector<int>(32, 0)), out(32);
  for (const bool meets : {true, false}) {
    DeviceArray<int> ready(std::vector<int>{0});
    fence_for_another_warp<<<2, 64>>>(data.get(), ready.get(), out.get(), meets);
    if (meets)
      expect_sound();
    else
      expect_fault(cudaErrorLaunchFailure, {"global-memory race between blocks", "warp 1"});
  }
}

__global__ void through_global_memory(int* x, int* out, bool waits) {
  x[threadIdx.x] = int(threadIdx.x);
  if (waits) __syncthreads();
  out[threadIdx.x] = x[threadIdx.x ^ 32];
}
TEST_F(BrokenOrder, WarpsOfABlockThroughGlobalMemory) {
  DeviceArray<int> x(std::vector<int>(64, 0)), out(64);
  through_global_memory<<<1, 64>>>(x.get(), out.get(), true);
  expect_sound();
  through_global_memory<<<1, 64>>>(x.get(), out.get(), false);
  expect_fault(cudaErrorLaunchFailure, {"global-memory race between warps", "a barrier"});
}

// Warps 0 and 1 read; warp 2 overwrites after having met warp 1 alone, or both.
__global__ void overwrite_what_two_read(int* out, bool in_global, int* global, bool meets_both) {
  __shared__ int s[32];
  int* place = in_global ? global : s;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp == 2) place[lane] = 1;
  __syncthreads();
  if (warp < 2) out[threadIdx.x] = place[lane];
  if (meets_both) {
    __syncthreads();
  } else if (warp > 0) {
    asm volatile("bar.sync 1, 64;" ::: "memory");
  }
  if (warp == 2) place[lane] = 2;
}
TEST_F(BrokenOrder, WriteAfterReadsOfSeveralWarps) {
  DeviceArray<int> out(64), global(32);
  for (const bool in_global : {false, true}) {
    overwrite_what_two_read<<<1, 96>>>(out.get(), in_global, global.get(), true);
    expect_sound();
    overwrite_what_two_read<<<1, 96>>>(out.get(), in_global, global.get(), false);
    expect_fault(cudaErrorLaunchFailure,
                 {in_global ? "global-memory race between warps" : "shared-memory race", "write",
                  "after a read"});
  }
}

__global__ void volatile_exchange(int* out, bool syncs) {
  __shared__ volatile int s[32];
  s[threadIdx.x] = int(threadIdx.x);
  if (syncs) __syncwarp();
  out[threadIdx.x] = s[threadIdx.x ^ 1];
}
TEST_F(BrokenOrder, VolatileExchangeInAWarp) {
  DeviceArray<int> out(32);
  volatile_exchange<<<1, 32>>>(out.get(), true);
  expect_sound();
  volatile_exchange<<<1, 32>>>(out.get(), false);
  expect_fault(cudaErrorLaunchFailure, {"shared-memory race", "volatile", "luck"});
}

// A flag in shared memory between warps: fences order it, its being volatile does not.
__global__ void shared_flag(int* out, bool fences) {
  __shared__ int data;
  __shared__ volatile int ready;
  if (threadIdx.x == 0) data = ready = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    data = 9;
    if (fences) __threadfence_block();
    ready = 1;
  }
  if (threadIdx.x == 32) {
    while (ready == 0) {
    }
    if (fences) __threadfence_block();
    *out = data;
  }
}
TEST_F(BrokenOrder, FlagInSharedMemory) {
  DeviceArray<int> out(1);
  shared_flag<<<1, 64>>>(out.get(), true);
  expect_sound();
  EXPECT_EQ(out.values()[0], 9);
  shared_flag<<<1, 64>>>(out.get(), false);
  expect_fault(cudaErrorLaunchFailure, {"shared-memory race"});
}

// Programmatic dependent launch: the second kernel may start before the first is over.
__global__ void produce(int* x, const int* other) {
  x[threadIdx.x] = other[threadIdx.x] + 1;
}
enum class Reads { after_wait, before_wait, waits_in_one_warp };
__global__ void consume(const int* x, int* out, int* other, Reads reads, bool overwrites) {
  if (overwrites) other[threadIdx.x] = 0;
  if (reads == Reads::after_wait || (reads == Reads::waits_in_one_warp && threadIdx.x < 32))
    cudaGridDependencySynchronize();
  if (reads == Reads::waits_in_one_warp) __syncthreads();
  out[threadIdx.x] = x[threadIdx.x];
  if (reads == Reads::before_wait) cudaGridDependencySynchronize();
}
TEST_F(BrokenOrder, ResultOfALaunchThatMayStillRun) {
  DeviceArray<int> x(64), out(64), other(std::vector<int>(64, 1));
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  const auto both = [&](Reads reads, bool overwrites, bool programmatic) {
    produce<<<1, 64>>>(x.get(), other.get());
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(1);
    config.blockDim = dim3(64);
    config.attrs = &early;
    config.numAttrs = programmatic ? 1 : 0;
    ASSERT_EQ(cudaLaunchKernelEx(&config, consume, static_cast<const int*>(x.get()), out.get(),
                                 other.get(), reads, overwrites),
              cudaSuccess);
  };
  both(Reads::after_wait, false, true);
  expect_sound();
  both(Reads::waits_in_one_warp, false, true);
  expect_sound();
  both(Reads::before_wait, true, false);
  expect_sound();
  both(Reads::before_wait, false, true);
  expect_fault(cudaErrorLaunchFailure, {"before griddepcontrol.wait", "produce", "read"});
  both(Reads::after_wait, true, true);
  expect_fault(cudaErrorLaunchFailure, {"before griddepcontrol.wait", "produce", "write"});
}

}  // namespace
