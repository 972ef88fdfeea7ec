// SPDX-License-Identifier: Apache-2.0
// Blocks that work together: tickets, grid.sync, clusters, chains, copies in stages.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda_pipeline.h>

#include <algorithm>
#include <numeric>

#include "on_every_device.h"

namespace cg = cooperative_groups;

namespace {

class Blocks : public OnEveryDevice {};
INSTANTIATE_TEST_SUITE_P(Capabilities, Blocks, every_capability());

/// `blocks` blocks of `threads` threads, in clusters of `cluster`.
struct ClusterLaunch {
  cudaLaunchAttribute attribute{};
  cudaLaunchConfig_t config{};

  ClusterLaunch(unsigned blocks, unsigned threads, unsigned cluster) {
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {cluster, 1, 1};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(threads);
    config.attrs = &attribute;
    config.numAttrs = 1;
  }
  ClusterLaunch(const ClusterLaunch&) = delete;  // config points into it
  ClusterLaunch& operator=(const ClusterLaunch&) = delete;
};

// Partial sums of every block, a ticket, and the last block adds them up: must not be called a
// race.
__global__ void last_block_sum(const float* x, int n, float* partial, unsigned* ticket,
                               float* total) {
  __shared__ bool last;
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    sum += x[i];
  sum = warp_sum(sum);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(ticket, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (last) {
    __threadfence();
    float all = 0;
    for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) all += partial[i];
    all = warp_sum(all);
    if (threadIdx.x == 0) *total = all;
  }
}

TEST_P(Blocks, LastBlockSum) {
  std::vector<float> x(10000, 0.5f);
  DeviceArray<float> dx(x), partial(60), total(1);
  for_seeds([&] {
    DeviceArray<unsigned> ticket(std::vector<unsigned>{0});
    last_block_sum<<<60, 32>>>(dx.get(), 10000, partial.get(), ticket.get(), total.get());
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(total.values()[0], 5000.0f);
  });
}

__global__ void rotate_through_grid(int* data, int steps) {
  const cg::grid_group grid = cg::this_grid();
  const unsigned long long count = grid.size(), me = grid.thread_rank();
  for (int step = 0; step < steps; ++step) {
    const int value = data[(me + 1) % count];
    grid.sync();
    data[me] = value;
    grid.sync();
  }
}

TEST_P(Blocks, CooperativeGridSync) {
  std::vector<int> start(4 * 64);
  std::iota(start.begin(), start.end(), 0);
  for_seeds([&] {
    DeviceArray<int> data(start);
    int* pointer = data.get();
    int steps = 5;
    void* arguments[] = {&pointer, &steps};
    ASSERT_EQ(
        cudaLaunchCooperativeKernel(rotate_through_grid, dim3(4), dim3(64), arguments, 0, nullptr),
        cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const std::vector<int> end = data.values();
    for (size_t i = 0; i < end.size(); ++i) ASSERT_EQ(end[i], start[(i + 5) % start.size()]);
  });
  int* null = nullptr;
  int steps = 1;
  void* arguments[] = {&null, &steps};
  fusednorm_emulator_set_print_reports(0);
  EXPECT_EQ(cudaLaunchCooperativeKernel(rotate_through_grid, dim3(1 << 20), dim3(1024), arguments,
                                        0, nullptr),
            cudaErrorCooperativeLaunchTooLarge);
}

__global__ void neighbours_sum(const float* x, float* out) {
#if __CUDA_ARCH__ >= 900
  __shared__ float mine[64];
  const cg::cluster_group cluster = cg::this_cluster();
  mine[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
  cluster.sync();
  float sum = 0;
  for (unsigned rank = 0; rank < cluster.num_blocks(); ++rank)
    sum += cluster.map_shared_rank(mine, rank)[threadIdx.x];
  cluster.sync();
  out[blockIdx.x * 64 + threadIdx.x] = sum + 1000 * cluster.block_rank();
#endif
}

TEST_P(Blocks, ClusterWithDistributedSharedMemory) {
  std::vector<float> x(8 * 64);
  std::iota(x.begin(), x.end(), 0.0f);
  DeviceArray<float> dx(x), out(x.size());
  const ClusterLaunch launch(8, 64, 4);
  if (GetParam() < 90) {
    fusednorm_emulator_set_print_reports(0);
    EXPECT_EQ(cudaLaunchKernelEx(&launch.config, neighbours_sum,
                                 static_cast<const float*>(dx.get()), out.get()),
              cudaErrorNotSupported);
    return;
  }
  for_seeds([&] {
    ASSERT_EQ(cudaLaunchKernelEx(&launch.config, neighbours_sum,
                                 static_cast<const float*>(dx.get()), out.get()),
              cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << fusednorm_emulator_last_report();
    const std::vector<float> y = out.values();
    for (int b = 0; b < 8; ++b)
      for (int t = 0; t < 64; ++t) {
        float expected = 1000.0f * (b % 4);
        for (int k = 0; k < 4; ++k) expected += x[(b / 4 * 4 + k) * 64 + t];
        ASSERT_EQ(y[b * 64 + t], expected);
      }
  });
  int clusters = 0;
  EXPECT_EQ(cudaOccupancyMaxActiveClusters(&clusters, neighbours_sum, &launch.config), cudaSuccess);
  EXPECT_GT(clusters, 0);
}

__global__ void note_block(int* out) {
  if (threadIdx.x == 0) out[blockIdx.x] = 1;
}

// 1024 threads: two blocks a multiprocessor of 2048. GPCs of 16 and of 18 multiprocessors hold four
// clusters of 8 each; 33 clusters would fit into 132 multiprocessors without borders.
TEST(Clusters, WavesOfAGridFollowTheGpcs) {
  FusednormEmulatorDevice device;
  ASSERT_EQ(fusednorm_emulator_device_preset(9, 0, &device), 0);
  ASSERT_EQ(fusednorm_emulator_set_devices(1, &device), 0);
  auto resident = [](const ClusterLaunch& launch) {
    int clusters = -1;
    EXPECT_EQ(cudaOccupancyMaxActiveClusters(&clusters, note_block, &launch.config), cudaSuccess);
    return clusters;
  };
  DeviceArray<int> out(33 * 8);
  for (const auto& [clusters, waves] : {std::pair<int, uint32_t>{32, 1}, {33, 2}}) {
    const ClusterLaunch launch(clusters * 8, 1024, 8);
    EXPECT_EQ(resident(launch), 32);
    fusednorm_emulator_reset_launches();
    ASSERT_EQ(cudaLaunchKernelEx(&launch.config, note_block, out.get()), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << fusednorm_emulator_last_report();
    FusednormEmulatorLaunch counted{};
    ASSERT_EQ(fusednorm_emulator_launch(0, &counted), 0);
    EXPECT_EQ(counted.resident_blocks, 2u);
    EXPECT_EQ(counted.resident_clusters, 32u);
    EXPECT_EQ(counted.waves, waves) << clusters << " clusters";
  }
  // Another number of multiprocessors than the GPCs add up to: GPCs of 16 are assumed.
  device.multiprocessors = 40;
  ASSERT_EQ(fusednorm_emulator_set_devices(1, &device), 0);
  EXPECT_EQ(resident(ClusterLaunch(8, 1024, 8)), 4 + 4 + 2);
}

TEST(Clusters, AGpcThatIsTooSmallRefuses) {
  FusednormEmulatorDevice device;
  ASSERT_EQ(fusednorm_emulator_device_preset(9, 0, &device), 0);
  device.multiprocessors = 12;
  std::fill(device.gpcs, device.gpcs + 16, 0);
  device.gpcs[0] = device.gpcs[1] = device.gpcs[2] = 4;
  device.threads_per_multiprocessor = 1024;
  ASSERT_EQ(fusednorm_emulator_set_devices(1, &device), 0);
  fusednorm_emulator_set_print_reports(0);
  DeviceArray<int> out(8);
  const ClusterLaunch fits(8, 1024, 4), too_large(8, 1024, 8);
  int clusters = -1;
  EXPECT_EQ(cudaOccupancyMaxActiveClusters(&clusters, note_block, &fits.config), cudaSuccess);
  EXPECT_EQ(clusters, 3);
  EXPECT_EQ(cudaLaunchKernelEx(&fits.config, note_block, out.get()), cudaSuccess);
  EXPECT_EQ(cudaOccupancyMaxActiveClusters(&clusters, note_block, &too_large.config), cudaSuccess);
  EXPECT_EQ(clusters, 0);
  EXPECT_EQ(cudaLaunchKernelEx(&too_large.config, note_block, out.get()),
            cudaErrorInvalidClusterSize);
  const std::string report = fusednorm_emulator_last_report();
  EXPECT_NE(report.find("no GPC of the device can hold a cluster of 8 blocks"), std::string::npos)
      << report;
  cudaGetLastError();
  device.gpcs[0] = -1;
  EXPECT_EQ(fusednorm_emulator_set_devices(1, &device), -1);
}

__global__ void staged_copy(const float4* x, float4* y, int tiles) {
  extern __shared__ float4 stage[];
#if __CUDA_ARCH__ >= 800
  __pipeline_memcpy_async(&stage[threadIdx.x], &x[threadIdx.x], 16);
  __pipeline_commit();
  for (int tile = 0; tile < tiles; ++tile) {
    if (tile + 1 < tiles)
      __pipeline_memcpy_async(&stage[(tile + 1) % 2 * blockDim.x + threadIdx.x],
                              &x[(tile + 1) * blockDim.x + threadIdx.x], 16);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    y[tile * blockDim.x + threadIdx.x] = stage[tile % 2 * blockDim.x + (threadIdx.x ^ 1)];
    __syncthreads();
  }
#else
  for (int tile = 0; tile < tiles; ++tile) {
    stage[threadIdx.x] = x[tile * blockDim.x + threadIdx.x];
    __syncthreads();
    y[tile * blockDim.x + threadIdx.x] = stage[threadIdx.x ^ 1];
    __syncthreads();
  }
#endif
}

TEST_P(Blocks, AsynchronousCopiesInTwoStages) {
  std::vector<float4> x(5 * 96);
  for (size_t i = 0; i < x.size(); ++i) x[i] = make_float4(float(i), 1, 2, 3);
  DeviceArray<float4> dx(x), dy(x.size());
  for_seeds([&] {
    staged_copy<<<1, 96, 2 * 96 * sizeof(float4)>>>(dx.get(), dy.get(), 5);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << fusednorm_emulator_last_report();
    const std::vector<float4> y = dy.values();
    for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i].x, x[i ^ 1].x);
  });
}

// A block waits for the one before it (as a look-back scan does).
__global__ void chain(volatile int* flag, int* order) {
  if (threadIdx.x == 0) {
    while (blockIdx.x > 0 && flag[blockIdx.x - 1] == 0) {
    }
    __threadfence();
    order[blockIdx.x] =
        blockIdx.x == 0 ? 1 : *static_cast<volatile int*>(&order[blockIdx.x - 1]) + 1;
    __threadfence();
    flag[blockIdx.x] = 1;
  }
}

TEST_P(Blocks, BlocksThatWaitForEarlierOnes) {
  for_seeds([&] {
    DeviceArray<int> flag(std::vector<int>(24, 0)), order(std::vector<int>(24, 0));
    chain<<<24, 32>>>(flag.get(), order.get());
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << fusednorm_emulator_last_report();
    EXPECT_EQ(order.values()[23], 24);
  });
}

// A block reads its neighbour's shared memory after that one may have gone: the second cluster.sync
// is missing.
__global__ void neighbour_may_be_gone(float* out) {
#if __CUDA_ARCH__ >= 900
  __shared__ float mine;
  const cg::cluster_group cluster = cg::this_cluster();
  if (threadIdx.x == 0) mine = float(blockIdx.x);
  cluster.sync();
  if (cluster.block_rank() == 0 && threadIdx.x == 0) out[0] = *cluster.map_shared_rank(&mine, 1);
#endif
}

TEST_P(Blocks, DistributedSharedMemoryOfABlockThatExited) {
  if (GetParam() < 90)
    GTEST_SKIP() << "clusters need compute capability 9.0; the cases from 90 on run this";
  fusednorm_emulator_set_print_reports(0);
  DeviceArray<float> out(1);
  const ClusterLaunch launch(2, 32, 2);
  ASSERT_EQ(cudaLaunchKernelEx(&launch.config, neighbour_may_be_gone, out.get()), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_NE(std::string(fusednorm_emulator_last_report()).find("has already exited"),
            std::string::npos)
      << fusednorm_emulator_last_report();
  fusednorm_emulator_reset_errors();
}

}  // namespace
