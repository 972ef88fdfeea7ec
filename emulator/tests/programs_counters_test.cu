// SPDX-License-Identifier: Apache-2.0
// A LayerNorm in three dtypes, and what the counters say of it, of bank conflicts and of
// partially written sectors.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>

#include "on_every_device.h"

namespace {

class Counters : public OnEveryDevice {};
INSTANTIATE_TEST_SUITE_P(Capabilities, Counters, every_capability());

template <class T>
__global__ void __launch_bounds__(128)
    layer_norm(const T* x, T* y, const float* gamma, int cols, float eps) {
  __shared__ float part[4];
  const T* row = x + static_cast<size_t>(blockIdx.x) * cols;
  float sum = 0;
  for (int c = threadIdx.x; c < cols; c += 128) sum += float(row[c]);
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  const float mean = (part[0] + part[1] + part[2] + part[3]) / cols;
  float square = 0;
  for (int c = threadIdx.x; c < cols; c += 128)
    square += (float(row[c]) - mean) * (float(row[c]) - mean);
  square = warp_sum(square);
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = square;
  __syncthreads();
  const float rstd = 1.0f / sqrtf((part[0] + part[1] + part[2] + part[3]) / cols + eps);
  for (int c = threadIdx.x; c < cols; c += 128)
    y[static_cast<size_t>(blockIdx.x) * cols + c] = T((float(row[c]) - mean) * rstd * gamma[c]);
}

template <class T>
void check_layer_norm(double tolerance) {
  const int rows = 5, cols = 777;
  std::vector<T> x(rows * cols);
  std::vector<float> gamma(cols);
  for (int i = 0; i < rows * cols; ++i) x[i] = T(std::sin(0.1f * i) * 2 + 1);
  for (int c = 0; c < cols; ++c) gamma[c] = 1 + 0.001f * c;
  DeviceArray<T> dx(x), dy(rows * cols);
  DeviceArray<float> dgamma(gamma);
  layer_norm<T><<<rows, 128>>>(dx.get(), dy.get(), dgamma.get(), cols, 1e-5f);
  ASSERT_EQ(cudaGetLastError(), cudaSuccess);
  const std::vector<T> y = dy.values();
  for (int r = 0; r < rows; ++r) {
    double mean = 0, square = 0;
    for (int c = 0; c < cols; ++c) mean += float(x[r * cols + c]);
    mean /= cols;
    for (int c = 0; c < cols; ++c) square += std::pow(float(x[r * cols + c]) - mean, 2);
    for (int c = 0; c < cols; ++c) {
      const double expected =
          (float(x[r * cols + c]) - mean) / std::sqrt(square / cols + 1e-5) * gamma[c];
      ASSERT_NEAR(float(y[r * cols + c]), expected, tolerance * (1 + std::fabs(expected)))
          << r << " " << c;
    }
  }
}

TEST_P(Counters, LayerNorm) {
  // One rounding at the store: half an ulp of the dtype, f32 arithmetic well inside that for the
  // 16-bit ones.
  for_seeds([] { check_layer_norm<float>(2e-6); });
  for_seeds([] { check_layer_norm<__half>(0x1p-11 + 1e-5); });
  for_seeds([] { check_layer_norm<__nv_bfloat16>(0x1p-8 + 1e-5); });
}

TEST_P(Counters, CountersAreExactAndDoNotDependOnTheOrder) {
  std::vector<float> gamma(512, 1.0f), x(16 * 512, 2.0f);
  DeviceArray<float> dx(x), dy(x.size()), dgamma(gamma);
  FusednormEmulatorLaunch first{};
  for (uint64_t seed : {0, 3}) {
    for (unsigned threads : {1, 2}) {
      fusednorm_emulator_set_seed(seed);
      fusednorm_emulator_set_host_threads(threads);
      fusednorm_emulator_reset_launches();
      layer_norm<float><<<16, 128>>>(dx.get(), dy.get(), dgamma.get(), 512, 1e-5f);
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      ASSERT_EQ(fusednorm_emulator_launch_count(), 1u);
      FusednormEmulatorLaunch launch{};
      ASSERT_EQ(fusednorm_emulator_launch(0, &launch), 0);
      if (first.kernel[0] == 0) first = launch;
      EXPECT_EQ(memcmp(&first, &launch, sizeof launch), 0);
    }
  }
  fusednorm_emulator_set_host_threads(0);
  EXPECT_EQ(first.grid[0], 16u);
  EXPECT_EQ(first.block[0], 128u);
  EXPECT_EQ(first.dram_load_sectors, 17 * 512 * 4 / 32u);
  EXPECT_EQ(first.dram_store_sectors, 16 * 512 * 4 / 32u);
  EXPECT_EQ(first.global_load_requests, 16u * 4 * 4 * 4);
  EXPECT_EQ(first.global_load_sectors, 4 * first.global_load_requests);
  // A row is read three times and gamma once, all of which the first-level cache holds.
  EXPECT_EQ(first.l2_load_sectors, 16u * 2 * 512 * 4 / 32);
  EXPECT_EQ(first.shuffles, 16u * 4 * 10);
  EXPECT_EQ(first.block_barriers, 16u * 4 * 3);
  EXPECT_EQ(first.issue_slots, 32 * first.warp_instructions);
}

__global__ void read_twice(const float* x, float* out, int count) {
  float sum = 0;
  for (int turn = 0; turn < 2; ++turn)
    for (int i = threadIdx.x; i < count; i += 32) sum += x[i];
  out[threadIdx.x] = sum;
}

__global__ void read_volatile(const volatile float* x, float* out) {
  out[threadIdx.x] = x[threadIdx.x] + x[threadIdx.x];
}

// What is asked for again reaches the L2 again if so much came between that the cache lost it.
TEST_P(Counters, FirstLevelCache) {
  const auto l2_sectors = [](auto launch) {
    fusednorm_emulator_reset_launches();
    launch();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    FusednormEmulatorLaunch counted{};
    EXPECT_EQ(fusednorm_emulator_launch(0, &counted), 0);
    return counted.l2_load_sectors;
  };
  const int few = 1024, many = 1 << 16;
  DeviceArray<float> x(std::vector<float>(many, 1.0f)), out(64);
  EXPECT_EQ(l2_sectors([&] { read_twice<<<1, 32>>>(x.get(), out.get(), few); }), few / 8u);
  EXPECT_EQ(l2_sectors([&] { read_twice<<<1, 32>>>(x.get(), out.get(), many); }), 2u * many / 8);
  EXPECT_EQ(l2_sectors([&] { read_twice<<<1, 32>>>(x.get() + 1, out.get(), few); }), few / 8u + 1);
  EXPECT_EQ(l2_sectors([&] { read_volatile<<<1, 32>>>(x.get(), out.get()); }), 2u * 4);
}

__global__ void bank_conflicts(float* out, int stride) {
  __shared__ float tile[32 * 33];
  for (int k = threadIdx.x; k < 32 * 33; k += 32) tile[k] = float(k);
  __syncwarp();
  out[threadIdx.x] = tile[threadIdx.x * stride];
}

TEST_P(Counters, SharedMemoryWavefronts) {
  DeviceArray<float> out(32);
  for (const auto& [stride, expected] :
       {std::pair<int, uint64_t>{1, 1}, {2, 2}, {32, 32}, {33, 1}, {0, 1}}) {
    fusednorm_emulator_reset_launches();
    bank_conflicts<<<1, 32>>>(out.get(), stride);
    FusednormEmulatorLaunch launch{};
    ASSERT_EQ(fusednorm_emulator_launch(0, &launch), 0);
    EXPECT_EQ(launch.shared_wavefronts - 33, expected) << "stride " << stride;
    EXPECT_EQ(launch.shared_ideal_wavefronts - 33, 1u);
  }
}

template <class T>
__global__ void store(T* out, int offset, int stride) {
  out[offset + threadIdx.x * stride] = T(threadIdx.x);
}

TEST_P(Counters, PartiallyWrittenSectors) {
  DeviceArray<float> out(1024);
  auto check = [](auto* array, int threads, int offset, int stride, uint64_t sectors,
                  uint64_t partial) {
    fusednorm_emulator_reset_launches();
    store<<<1, threads>>>(array, offset, stride);
    FusednormEmulatorLaunch launch{};
    ASSERT_EQ(fusednorm_emulator_launch(0, &launch), 0);
    EXPECT_EQ(launch.global_store_sectors, sectors) << offset << " " << stride;
    EXPECT_EQ(launch.partial_store_sectors, partial) << offset << " " << stride;
  };
  check(out.get(), 32, 0, 1, 4, 0);
  check(out.get(), 32, 1, 1, 5, 2);
  check(out.get(), 32, 8, 1, 4, 0);
  check(out.get(), 32, 31, -1, 4, 0);  // backwards: the same sectors, filled
  check(out.get(), 32, 0, 2, 8, 8);
  check(out.get(), 32, 0, 16, 32, 32);
  // 16-bit elements, a vector of 16 bytes a lane: two lanes a sector, 2 bytes each.
  check(reinterpret_cast<unsigned short*>(out.get()), 32, 0, 8, 16, 16);
  check(out.get(), 12, 0, 1, 2, 1);
}

}  // namespace
