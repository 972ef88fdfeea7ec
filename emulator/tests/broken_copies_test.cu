// SPDX-License-Identifier: Apache-2.0
// Broken and sound uses of mbarriers, cp.async.bulk and st.async.
#include <cooperative_groups.h>

#include <cuda/ptx>

#include "broken.h"

namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

namespace {

using BrokenCopies = Broken;

constexpr int kWords = 64;  // a stage
constexpr unsigned kBytes = kWords * sizeof(float);

// What may be left out, or done wrong, in a ring of two stages.
enum class Fault {
  none,
  no_wait,          // a stage is read before it has arrived
  early_refill,     // a stage is filled again while others still read it
  elected_arrival,  // one lane arrives for its warp, which has not met
  no_init_fence,    // mbarrier.init is not shown to the async proxy
  wrong_bytes,      // more bytes are expected than will come
  odd_size
};

__device__ bool wait_parity(uint64_t* barrier, unsigned parity) {
  return ptx::mbarrier_try_wait_parity(barrier, parity);
}

// Each of two warps adds up the stages that thread 0 fetches ahead.
__global__ void ring(const float* x, float* out, int stages, Fault fault) {
  __shared__ alignas(128) float stage[2][kWords];
  __shared__ uint64_t full[2], empty[2];
  if (threadIdx.x == 0) {
    for (int s = 0; s < 2; ++s) {
      ptx::mbarrier_init(&full[s], 1);
      ptx::mbarrier_init(&empty[s], fault == Fault::elected_arrival ? 2 : 64);
    }
    if (fault != Fault::no_init_fence)
      ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  __syncthreads();
  const auto fetch = [&](int k) {
    const unsigned bytes = fault == Fault::odd_size ? kBytes - 4 : kBytes;
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared,
                                   &full[k % 2], fault == Fault::wrong_bytes ? 2 * bytes : bytes);
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, stage[k % 2], x + k * kWords, bytes,
                       &full[k % 2]);
  };
  if (threadIdx.x == 0)
    for (int k = 0; k < 2 && k < stages; ++k) fetch(k);
  float sum = 0;
  for (int k = 0; k < stages; ++k) {
    if (fault != Fault::no_wait)
      while (!wait_parity(&full[k % 2], k / 2 % 2)) {
      }
    sum += stage[k % 2][threadIdx.x];
    if (fault != Fault::elected_arrival)
      ptx::mbarrier_arrive(&empty[k % 2]);
    else if (threadIdx.x % 32 == 0)
      ptx::mbarrier_arrive(&empty[k % 2]);
    if (threadIdx.x == 0 && k + 2 < stages) {
      if (fault != Fault::early_refill)
        while (!wait_parity(&empty[k % 2], k / 2 % 2)) {
        }
      fetch(k + 2);
    }
  }
  out[threadIdx.x] = sum;
}

class Ring : public Broken {
 protected:
  void run(Fault fault) {
    std::vector<float> values(6 * kWords);
    for (size_t k = 0; k < values.size(); ++k) values[k] = float(k);
    const DeviceArray<float> x(values), out(kWords);
    ring<<<1, 64>>>(x.get(), out.get(), 6, fault);
    if (fault != Fault::none) return;
    expect_sound();
    const std::vector<float> sums = out.values();
    for (int t = 0; t < kWords; ++t) ASSERT_EQ(sums[t], 6 * t + 15.0f * kWords);
  }
};
TEST_F(Ring, IsSoundInEveryOrder) {
  for (uint64_t seed : {0, 1, 2, 3}) {
    fusednorm_emulator_set_seed(seed);
    run(Fault::none);
  }
}
TEST_F(Ring, StageReadBeforeItHasArrived) {
  run(Fault::no_wait);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  const std::string report = fusednorm_emulator_last_report();
  EXPECT_TRUE(report.find("no wait for its mbarrier") != std::string::npos ||
              report.find("uninitialised shared load") != std::string::npos)
      << report;
}
TEST_F(Ring, StageFilledAgainTooEarly) {
  run(Fault::early_refill);
  expect_fault(cudaErrorLaunchFailure, {"shared-memory race", "write", "after a read"});
}
TEST_F(Ring, OneLaneArrivesForAWarpThatHasNotMet) {
  run(Fault::elected_arrival);
  expect_fault(cudaErrorLaunchFailure, {"shared-memory race", "write", "after a read"});
}
TEST_F(Ring, MbarrierTheCopyEngineCannotSeeYet) {
  run(Fault::no_init_fence);
  expect_fault(cudaErrorLaunchFailure, {"race between proxies", "mbarrier.init"});
}
TEST_F(Ring, BytesThatNeverCome) {
  run(Fault::wrong_bytes);
  expect_fault(cudaErrorLaunchTimeout, {"spins without progress"});
}
TEST_F(Ring, SizeThatIsNoMultipleOf16) {
  run(Fault::odd_size);
  expect_fault(cudaErrorMisalignedAddress, {"252 bytes", "multiple of 16"});
}

__global__ void uninitialised_mbarrier(int* out) {
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) barrier = 0;
  __syncthreads();
  out[threadIdx.x] = wait_parity(&barrier, 0);
}
TEST_F(BrokenCopies, MbarrierWithoutInit) {
  DeviceArray<int> out(32);
  uninitialised_mbarrier<<<1, 32>>>(out.get());
  expect_fault(cudaErrorIllegalInstruction, {"no mbarrier at shared address", "mbarrier.init"});
}

__global__ void too_many_arrivals(int* out) {
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) ptx::mbarrier_init(&barrier, 8);
  __syncthreads();
  if (threadIdx.x < 9 && threadIdx.x > 0) ptx::mbarrier_arrive(&barrier);
  __syncthreads();
  if (threadIdx.x == 0)
    asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0], 9; }" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(&barrier)))
                 : "memory");
  out[threadIdx.x] = 1;
}
TEST_F(BrokenCopies, MoreArrivalsThanExpected) {
  DeviceArray<int> out(32);
  too_many_arrivals<<<1, 32>>>(out.get());
  expect_fault(cudaErrorLaunchFailure, {"9 arrivals where 8 of 8 were left"});
}

// A tile goes out through the copy engine: it must see what the threads wrote, and the tile must
// stay until it has been read.
enum class Out { sound, no_proxy_fence, overwritten, not_waited };
__global__ void bulk_store(float* out, Out how) {
  __shared__ alignas(16) float tile[kWords];
  tile[threadIdx.x] = float(threadIdx.x);
  if (how != Out::no_proxy_fence) ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, out, tile, unsigned{kBytes});
    ptx::cp_async_bulk_commit_group();
    if (how == Out::overwritten) tile[0] = -1;
    if (how != Out::not_waited) ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
    if (how == Out::sound) tile[0] = -1;
  }
}
TEST_F(BrokenCopies, TileThatGoesOut) {
  DeviceArray<float> out(kWords);
  bulk_store<<<1, kWords>>>(out.get(), Out::sound);
  expect_sound();
  EXPECT_EQ(out.values()[5], 5);
  EXPECT_EQ(out.values()[0], 0);
  bulk_store<<<1, kWords>>>(out.get(), Out::no_proxy_fence);
  expect_fault(cudaErrorLaunchFailure, {"race between proxies", "fence.proxy.async"});
  bulk_store<<<1, kWords>>>(out.get(), Out::overwritten);
  expect_fault(cudaErrorLaunchFailure, {"shared-memory race", "write", "bulk group"});
  bulk_store<<<1, kWords>>>(out.get(), Out::not_waited);
  expect_fault(cudaErrorIllegalAddress, {"exits while", "nobody has waited"});
}

// Every block of a cluster sends a number to every other; data and signal go together.
__global__ void __cluster_dims__(4) exchange(float* out, bool waits) {
  __shared__ alignas(16) float given[4];
  __shared__ uint64_t barrier;
  const cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&barrier, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &barrier,
                                   4 * sizeof(float));
  }
  cluster.sync();
  if (threadIdx.x < 4) {
    ptx::st_async(cluster.map_shared_rank(&given[cluster.block_rank()], threadIdx.x),
                  float(cluster.block_rank() + 1), cluster.map_shared_rank(&barrier, threadIdx.x));
  }
  if (waits)
    while (!wait_parity(&barrier, 0)) {
    }
  if (threadIdx.x == 0) out[blockIdx.x] = given[0] + given[1] + given[2] + given[3];
  cluster.sync();
}
TEST_F(BrokenCopies, NumbersSentToOtherBlocks) {
  DeviceArray<float> out(8);
  for (uint64_t seed : {0, 1, 2}) {
    fusednorm_emulator_set_seed(seed);
    exchange<<<8, 32>>>(out.get(), true);
    expect_sound();
    EXPECT_EQ(out.values()[6], 10);
  }
  exchange<<<8, 32>>>(out.get(), false);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  const std::string report = fusednorm_emulator_last_report();
  EXPECT_TRUE(report.find("no wait for its mbarrier") != std::string::npos ||
              report.find("uninitialised shared load") != std::string::npos)
      << report;
}

}  // namespace
