// SPDX-License-Identifier: Apache-2.0
// Loads in flight, as the counters tell them.
#include <cuda_pipeline.h>

#include "on_every_device.h"

namespace {

class Loads : public OnEveryDevice {
 protected:
  void TearDown() override {
    fusednorm_emulator_set_load_latency(FUSEDNORM_EMULATOR_LOAD_LATENCY);
    fusednorm_emulator_set_host_threads(0);
    OnEveryDevice::TearDown();
  }
};
INSTANTIATE_TEST_SUITE_P(Capabilities, Loads, every_capability());

template <class Launch>
FusednormEmulatorLaunch counted(Launch launch) {
  fusednorm_emulator_reset_launches();
  launch();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << fusednorm_emulator_last_report();
  FusednormEmulatorLaunch out{};
  EXPECT_EQ(fusednorm_emulator_launch(0, &out), 0);
  return out;
}

__device__ float sum(const float4& v) {
  return v.x + v.y + v.z + v.w;
}

__global__ void eight_loads(const float4* x, float* out) {
  float4 v[8];
  for (int k = 0; k < 8; ++k) v[k] = x[k * 32 + threadIdx.x % 32];
  float total = 0;
  for (int k = 0; k < 8; ++k) total += sum(v[k]);
  out[blockIdx.x * blockDim.x + threadIdx.x] = total;
}

TEST_P(Loads, PeakOfLoadsThatAreUsedAfterwards) {
  constexpr uint64_t a_warp = 8 * 16 * 32;
  int multiprocessors = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0),
            cudaSuccess);
  const int blocks = 2 * multiprocessors;
  DeviceArray<float4> x(std::vector<float4>(8 * 32, make_float4(1, 1, 1, 1)));
  DeviceArray<float> out(blocks * 64);
  auto peak = [&](int grid, int threads) {
    const auto launch = counted([&] { eight_loads<<<grid, threads>>>(x.get(), out.get()); });
    EXPECT_LE(launch.average_bytes_in_flight, double(launch.peak_bytes_in_flight));
    EXPECT_GT(launch.average_bytes_in_flight, 0.5 * double(launch.peak_bytes_in_flight));
    return launch.peak_bytes_in_flight;
  };
  EXPECT_EQ(peak(1, 32), a_warp);
  EXPECT_EQ(peak(1, 64), 2 * a_warp);
  EXPECT_EQ(peak(multiprocessors, 64), 2 * a_warp) << "a block each";
  EXPECT_EQ(peak(blocks, 64), 4 * a_warp) << "two blocks each";
}

// Each load's address is what the one before it brought: never two in flight.
__global__ void chain_of_loads(const int* next, int* out) {
  int at = threadIdx.x;
  for (int k = 0; k < 20; ++k) at = next[at];
  out[threadIdx.x] = at;
}

TEST_P(Loads, ChainHasThePeakOfOneLoad) {
  std::vector<int> next(32);
  for (int k = 0; k < 32; ++k) next[k] = k;
  DeviceArray<int> dnext(next), out(32);
  for (unsigned latency : {600u, 1000000u}) {
    fusednorm_emulator_set_load_latency(latency);
    const auto launch = counted([&] { chain_of_loads<<<1, 32>>>(dnext.get(), out.get()); });
    EXPECT_EQ(launch.peak_bytes_in_flight, 128u);
    // Next to nothing is done but waiting.
    EXPECT_NEAR(launch.average_bytes_in_flight, 128, latency == 600 ? 3 : 0.01);
  }
}

// A warp sums rows; the next row is loaded when this one has been used, or before.
template <bool kPrefetch>
__global__ void sum_rows(const float4* x, float* out, int rows) {
  float4 row[4], next[4] = {};
  for (int k = 0; k < 4; ++k) row[k] = x[k * 32 + threadIdx.x];
#pragma unroll 1
  for (int r = 0; r < rows; ++r) {
    auto load_next = [&] {
      if (r + 1 < rows)
        for (int k = 0; k < 4; ++k) next[k] = x[((r + 1) * 4 + k) * 32 + threadIdx.x];
    };
    if (kPrefetch) load_next();
    float total = 0;
    for (int k = 0; k < 4; ++k) total += sum(row[k]);
    total = warp_sum(total);
    if (threadIdx.x == 0) out[r] = total;
    if (!kPrefetch) load_next();
    for (int k = 0; k < 4; ++k) row[k] = next[k];
  }
}

TEST_P(Loads, PrefetchOfTheNextRowShows) {
  const int rows = 32;
  constexpr uint64_t a_row = 4 * 16 * 32;
  DeviceArray<float4> x(std::vector<float4>(rows * 128, make_float4(1, 2, 3, 4)));
  DeviceArray<float> out(rows);
  FusednormEmulatorLaunch plain{}, prefetched{};
  for_seeds([&] {
    plain = counted([&] { sum_rows<false><<<1, 32>>>(x.get(), out.get(), rows); });
    EXPECT_EQ(out.values(), std::vector<float>(rows, 1280.0f));
    prefetched = counted([&] { sum_rows<true><<<1, 32>>>(x.get(), out.get(), rows); });
    EXPECT_EQ(out.values(), std::vector<float>(rows, 1280.0f));
  });
  EXPECT_EQ(plain.peak_bytes_in_flight, a_row);
  EXPECT_EQ(prefetched.peak_bytes_in_flight, 2 * a_row);
  EXPECT_GT(prefetched.average_bytes_in_flight, 1.05 * plain.average_bytes_in_flight);
}

// Rows of 512 bytes; the L2 is asked for the next one, or for one past the end.
__global__ void prefetch_ahead(const float4* x, float* out, int rows, int asked) {
  float total = 0;
#pragma unroll 1
  for (int r = 0; r < rows; ++r) {
    if (r + 1 < asked)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(
          __cvta_generic_to_global(x + (r + 1) * 32 + threadIdx.x)));
    total += sum(x[r * 32 + threadIdx.x]);
  }
  out[threadIdx.x] = total;
}

TEST_P(Loads, APrefetchIntoTheL2IsTrafficOnce) {
  const int rows = 8;
  DeviceArray<float4> x(std::vector<float4>(rows * 32, make_float4(1, 2, 3, 4)));
  DeviceArray<float> out(32);
  FusednormEmulatorLaunch plain{}, ahead{};
  plain = counted([&] { prefetch_ahead<<<1, 32>>>(x.get(), out.get(), rows, 0); });
  ahead = counted([&] { prefetch_ahead<<<1, 32>>>(x.get(), out.get(), rows, rows); });
  EXPECT_EQ(out.values(), std::vector<float>(32, 80.0f));
  EXPECT_EQ(plain.dram_load_sectors, uint64_t{rows} * 16);
  EXPECT_EQ(ahead.dram_load_sectors, plain.dram_load_sectors);
  EXPECT_EQ(ahead.global_load_requests, plain.global_load_requests);
  EXPECT_GT(ahead.average_bytes_in_flight, 1.5 * plain.average_bytes_in_flight);
}

TEST_P(Loads, APrefetchOutsideOfEveryAllocationIsAnError) {
  const int rows = 8;
  DeviceArray<float4> x(std::vector<float4>(rows * 32, make_float4(1, 2, 3, 4)));
  DeviceArray<float> out(32);
  prefetch_ahead<<<1, 32>>>(x.get(), out.get(), rows, rows + 1);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_NE(std::string(fusednorm_emulator_last_report()).find("prefetch.global.L2"),
            std::string::npos)
      << fusednorm_emulator_last_report();
}

// One warp loads; the other waits for it at the barrier as long.
__global__ void wait_for_the_loading_warp(const float* x, float* out) {
  __shared__ float loaded[32];
  if (threadIdx.x < 32) loaded[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = loaded[threadIdx.x % 32];
}

TEST_P(Loads, BarrierSetsTheClocksOfThoseThatMeet) {
  fusednorm_emulator_set_load_latency(1000000);
  DeviceArray<float> x(std::vector<float>(32, 1.0f)), out(64);
  const auto launch = counted([&] { wait_for_the_loading_warp<<<1, 64>>>(x.get(), out.get()); });
  EXPECT_EQ(launch.peak_bytes_in_flight, 128u);
  EXPECT_NEAR(launch.average_bytes_in_flight, 128, 0.1);  // 256 if one warp had not waited
}

// Copies of two tiles are in flight when the first is waited for.
__global__ void copy_in_stages(const float4* x, float4* out, int tiles) {
#if __CUDA_ARCH__ >= 800
  __shared__ float4 stage[2][32];
  __pipeline_memcpy_async(&stage[0][threadIdx.x], &x[threadIdx.x], 16);
  __pipeline_commit();
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    if (tile + 1 < tiles)
      __pipeline_memcpy_async(&stage[(tile + 1) % 2][threadIdx.x],
                              &x[(tile + 1) * 32 + threadIdx.x], 16);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    out[tile * 32 + threadIdx.x] = stage[tile % 2][threadIdx.x];
  }
#endif
}

TEST_P(Loads, AsynchronousCopiesAreInFlightUntilTheirWait) {
  if (GetParam() < 80) GTEST_SKIP() << "cp.async needs compute capability 8.0";
  const int tiles = 16;
  DeviceArray<float4> x(std::vector<float4>(tiles * 32, make_float4(1, 2, 3, 4))), out(tiles * 32);
  fusednorm_emulator_set_load_latency(100000);
  const auto launch = counted([&] { copy_in_stages<<<1, 32>>>(x.get(), out.get(), tiles); });
  EXPECT_EQ(launch.peak_bytes_in_flight, 2 * 512u);
  // Tiles 0 and 1 arrive together, then 2 and 3, and so on.
  EXPECT_NEAR(launch.average_bytes_in_flight, 2 * 512, 70);
}

TEST_P(Loads, AlikeForAnySeedAndNumberOfThreads) {
  const int rows = 20;
  DeviceArray<float4> x(std::vector<float4>(8 * 32 * rows, make_float4(1, 2, 3, 4)));
  DeviceArray<float> out(64 * rows);
  FusednormEmulatorLaunch first{};
  for (uint64_t seed : {0, 1, 5})
    for (unsigned threads : {1, 3}) {
      fusednorm_emulator_set_seed(seed);
      fusednorm_emulator_set_host_threads(threads);
      const auto launch = counted([&] { eight_loads<<<rows, 64>>>(x.get(), out.get()); });
      if (first.kernel[0] == 0) first = launch;
      EXPECT_EQ(memcmp(&first, &launch, sizeof launch), 0) << seed << " " << threads;
    }
}

}  // namespace
