// Whole programs as a user would write them, <<<>>> and all, built for several architectures and
// run on a device of each.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

#include <cmath>
#include <cstdint>
#include <numeric>

#include "device_memory.h"
#include "fusednorm_emulator.h"

namespace cg = cooperative_groups;

namespace {

// Every test runs on devices of all these capabilities, and on each with the fixed and a shuffled
// order.
class Programs : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    FusednormEmulatorDevice device[2];
    ASSERT_EQ(fusednorm_emulator_device_preset(GetParam() / 10, GetParam() % 10, &device[0]), 0);
    device[1] = device[0];
    ASSERT_EQ(fusednorm_emulator_set_devices(2, device), 0);
    fusednorm_emulator_set_checks(FUSEDNORM_EMULATOR_CHECK_DEFAULT);
    fusednorm_emulator_reset_errors();
    fusednorm_emulator_set_print_reports(1);
  }
  void TearDown() override { fusednorm_emulator_set_seed(0); }

  template <class Body>
  void for_seeds(Body body) {
    for (uint64_t seed : {0, 1, 7}) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      fusednorm_emulator_set_seed(seed);
      body();
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << fusednorm_emulator_last_report();
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Capabilities, Programs, testing::Values(75, 80, 86, 89, 90, 100, 120));

__device__ float warp_sum(float v) {
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
  return v;
}

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

TEST_P(Programs, LayerNorm) {
  // One rounding at the store: half an ulp of the dtype, f32 arithmetic well inside that for the
  // 16-bit ones.
  for_seeds([] { check_layer_norm<float>(2e-6); });
  for_seeds([] { check_layer_norm<__half>(0x1p-11 + 1e-5); });
  for_seeds([] { check_layer_norm<__nv_bfloat16>(0x1p-8 + 1e-5); });
}

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

TEST_P(Programs, LastBlockSum) {
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

TEST_P(Programs, CooperativeGridSync) {
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

TEST_P(Programs, ClusterWithDistributedSharedMemory) {
  std::vector<float> x(8 * 64);
  std::iota(x.begin(), x.end(), 0.0f);
  DeviceArray<float> dx(x), out(x.size());
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {4, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(8);
  config.blockDim = dim3(64);
  config.attrs = &attribute;
  config.numAttrs = 1;
  if (GetParam() < 90) {
    fusednorm_emulator_set_print_reports(0);
    EXPECT_EQ(
        cudaLaunchKernelEx(&config, neighbours_sum, static_cast<const float*>(dx.get()), out.get()),
        cudaErrorNotSupported);
    return;
  }
  for_seeds([&] {
    ASSERT_EQ(
        cudaLaunchKernelEx(&config, neighbours_sum, static_cast<const float*>(dx.get()), out.get()),
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
  EXPECT_EQ(cudaOccupancyMaxActiveClusters(&clusters, neighbours_sum, &config), cudaSuccess);
  EXPECT_GT(clusters, 0);
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

TEST_P(Programs, AsynchronousCopiesInTwoStages) {
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

__device__ __noinline__ float polynomial(float x, int degree, float* derivative) {
  float value = 0, slope = 0;
  for (int k = degree; k >= 0; --k) {
    slope = slope * x + value;
    value = value * x + float(k + 1);
  }
  *derivative = slope;
  if (degree > 2) return value;
  return -value;
}
struct Pair {
  float a;
  int b;
  double c;
};
__device__ __noinline__ Pair swap_pair(Pair p) {
  return {float(p.c), p.b * 2, double(p.a)};
}

__global__ void calls(float* out) {
  float slope;
  const int degree = threadIdx.x % 5;
  const float value = polynomial(0.5f, degree, &slope);
  const Pair pair = swap_pair({value, degree, double(slope)});
  out[threadIdx.x] = pair.a + float(pair.b) + float(pair.c);
}

TEST_P(Programs, CallsOfDeviceFunctions) {
  DeviceArray<float> out(64);
  for_seeds([&] {
    calls<<<1, 64>>>(out.get());
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << fusednorm_emulator_last_report();
    const std::vector<float> y = out.values();
    for (int t = 0; t < 64; ++t) {
      float value = 0, slope = 0;
      for (int k = t % 5; k >= 0; --k) {
        slope = slope * 0.5f + value;
        value = value * 0.5f + float(k + 1);
      }
      if (t % 5 <= 2) value = -value;
      ASSERT_EQ(y[t], slope + float(2 * (t % 5)) + value) << t;
    }
  });
}

__global__ void diverge(const int* x, int* out) {
  const int t = threadIdx.x;
  int v = x[t], acc = 0;
  switch (v % 7) {
    case 0:
      acc = 10;
      break;
    case 1:
      acc = 20 + v;
      break;
    case 2:
      for (int i = 0; i < t % 9; ++i) acc += i * v;
      break;
    case 3:
      acc = v > 50 ? -1 : -2;
      [[fallthrough]];
    case 4:
      acc += 7;
      break;
    case 5:
      while (v > 1) {
        v = v & 1 ? 3 * v + 1 : v / 2;
        ++acc;
        if (acc > 40) break;
      }
      break;
    default:
      return;
  }
  acc += __popc(__activemask()) > 32 ? 1000000 : 0;
  out[t] = acc;
  __syncwarp(__activemask());
}

TEST_P(Programs, DivergenceAndReconvergence) {
  std::vector<int> x(256);
  for (int i = 0; i < 256; ++i) x[i] = (i * 37) % 101;
  DeviceArray<int> dx(x);
  for_seeds([&] {
    DeviceArray<int> out(std::vector<int>(256, -99));
    diverge<<<1, 256>>>(dx.get(), out.get());
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << fusednorm_emulator_last_report();
    const std::vector<int> y = out.values();
    for (int t = 0; t < 256; ++t) {
      int v = x[t], acc = 0;
      switch (v % 7) {
        case 0:
          acc = 10;
          break;
        case 1:
          acc = 20 + v;
          break;
        case 2:
          for (int i = 0; i < t % 9; ++i) acc += i * v;
          break;
        case 3:
          acc = v > 50 ? -1 : -2;
          [[fallthrough]];
        case 4:
          acc += 7;
          break;
        case 5:
          while (v > 1) {
            v = v & 1 ? 3 * v + 1 : v / 2;
            ++acc;
            if (acc > 40) break;
          }
          break;
        default:
          acc = -99;
      }
      ASSERT_EQ(y[t], acc) << t;
    }
  });
}

// A branch of a warp waits in a shuffle for the other; pre-Volta lock step would hang or be wrong.
__global__ void split_shuffles(int* out) {
  const unsigned t = threadIdx.x;
  int v = int(t);
  if (t % 2) {
    v = __shfl_xor_sync(0xaaaaaaaau, v * 3, 2);
  } else {
    v = __shfl_xor_sync(0x55555555u, v * 5, 4);
  }
  const auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  v += tile.shfl(v, 3);
  v += cg::reduce(tile, int(t), cg::plus<int>());
  const unsigned vote = __ballot_sync(0xffffffffu, v & 1);
  out[t] = v + __popc(vote) + (__all_sync(0xffffffffu, v >= 0) ? 10000 : 0);
}

TEST_P(Programs, ShufflesOfPartsOfAWarp) {
  DeviceArray<int> out(32);
  for_seeds([&] {
    split_shuffles<<<1, 32>>>(out.get());
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << fusednorm_emulator_last_report();
    int v[32], w[32], odd = 0;
    for (int t = 0; t < 32; ++t) v[t] = t % 2 ? (t ^ 2) * 3 : (t ^ 4) * 5;
    for (int t = 0; t < 32; ++t) {
      int sum = 0;
      for (int k = t / 8 * 8; k < t / 8 * 8 + 8; ++k) sum += k;
      w[t] = v[t] + v[t / 8 * 8 + 3] + sum;
    }
    for (int t = 0; t < 32; ++t) odd += w[t] & 1;
    const std::vector<int> y = out.values();
    for (int t = 0; t < 32; ++t) ASSERT_EQ(y[t], w[t] + odd + 10000) << t;
  });
}

// Spin lock within a warp: needs independent progress of its lanes.
__global__ void locked_increment(int* lock, int* counter) {
  bool done = false;
  while (!done) {
    if (atomicCAS(lock, 0, 1) == 0) {
      __threadfence();
      *static_cast<volatile int*>(counter) = *static_cast<volatile int*>(counter) + 1;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}

TEST_P(Programs, SpinLock) {
  for_seeds([&] {
    DeviceArray<int> state(std::vector<int>{0, 0});
    locked_increment<<<3, 64>>>(state.get(), state.get() + 1);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << fusednorm_emulator_last_report();
    EXPECT_EQ(state.values()[1], 192);
  });
}

// A block waits for the one before it (as a look-back scan does).
__global__ void chain(volatile int* flag, int* order) {
  if (threadIdx.x == 0) {
    while (blockIdx.x > 0 && flag[blockIdx.x - 1] == 0) {
    }
    order[blockIdx.x] =
        blockIdx.x == 0 ? 1 : *static_cast<volatile int*>(&order[blockIdx.x - 1]) + 1;
    __threadfence();
    flag[blockIdx.x] = 1;
  }
}

TEST_P(Programs, BlocksThatWaitForEarlierOnes) {
  for_seeds([&] {
    DeviceArray<int> flag(std::vector<int>(24, 0)), order(std::vector<int>(24, 0));
    chain<<<24, 32>>>(flag.get(), order.get());
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << fusednorm_emulator_last_report();
    EXPECT_EQ(order.values()[23], 24);
  });
}

__global__ void atomics(int* i, unsigned long long* u, float* f, double* d, __half2* h,
                        unsigned* wrapped) {
  __shared__ int s;
  if (threadIdx.x == 0) s = 0;
  __syncthreads();
  atomicAdd(&s, 1);
  atomicMax(&i[0], int(threadIdx.x) - 5);
  atomicMin(&i[1], int(threadIdx.x) - 5);
  atomicOr(&i[2], 1 << (threadIdx.x % 31));
  atomicAnd(&i[3], ~(1 << (threadIdx.x % 31)));
  atomicXor(&i[4], int(threadIdx.x));
  atomicSub(&i[5], 2);
  atomicAdd(u, 0x100000000ull);
  atomicAdd(f, 0.25f);
  atomicAdd(d, 0.5);
  atomicAdd(h, __floats2half2_rn(1.0f, 2.0f));
  atomicInc(wrapped, 9);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(&i[6], s);
}

TEST_P(Programs, Atomics) {
  for_seeds([] {
    DeviceArray<int> i(std::vector<int>{-100, 100, 0, -1, 0, 0, 0});
    DeviceArray<unsigned long long> u(std::vector<unsigned long long>{1});
    DeviceArray<float> f(std::vector<float>{0});
    DeviceArray<double> d(std::vector<double>{0});
    DeviceArray<__half2> h(std::vector<__half2>{__floats2half2_rn(0, 0)});
    DeviceArray<unsigned> wrapped(std::vector<unsigned>{0});
    atomics<<<2, 64>>>(i.get(), u.get(), f.get(), d.get(), h.get(), wrapped.get());
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << fusednorm_emulator_last_report();
    EXPECT_EQ(i.values(), (std::vector<int>{58, -5, 0x7fffffff, INT32_MIN, 0, -256, 128}));
    EXPECT_EQ(u.values()[0], 128 * 0x100000000ull + 1);
    EXPECT_EQ(f.values()[0], 32.0f);
    EXPECT_EQ(d.values()[0], 64.0);
    EXPECT_EQ(__low2float(h.values()[0]), 128.0f);
    EXPECT_EQ(__high2float(h.values()[0]), 256.0f);
    EXPECT_EQ(wrapped.values()[0], 8u);
  });
}

__device__ int device_variable = 7;
__constant__ float constants[4] = {1, 2, 3, 4};
__device__ const char* names[2] = {"first", "second"};
__global__ void use_symbols(float* out) {
  out[threadIdx.x] = constants[threadIdx.x % 4] + device_variable + names[threadIdx.x % 2][0];
  if (threadIdx.x == 0) device_variable = 11;
}

TEST_P(Programs, Symbols) {
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

TEST_P(Programs, Printf) {
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

TEST_P(Programs, GraphCaptureReplays) {
  DeviceArray<int> x(std::vector<int>(100, 5));
  cudaStream_t stream, side;
  cudaEvent_t fork, join;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamCreate(&side), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&fork), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&join), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  void* forbidden = nullptr;
  EXPECT_EQ(cudaMalloc(&forbidden, 4), cudaErrorStreamCaptureUnsupported);
  cudaGetLastError();
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

TEST_P(Programs, StreamAndMemoryBelongToADevice) {
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

TEST_P(Programs, LaunchLimits) {
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

TEST_P(Programs, CountersAreExactAndDoNotDependOnTheOrder) {
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
  EXPECT_EQ(first.shuffles, 16u * 4 * 10);
  EXPECT_EQ(first.block_barriers, 16u * 4 * 3);
  EXPECT_EQ(first.issue_slots, 32 * first.warp_instructions);
}

__global__ void bank_conflicts(float* out, int stride) {
  __shared__ float tile[32 * 33];
  for (int k = threadIdx.x; k < 32 * 33; k += 32) tile[k] = float(k);
  __syncwarp();
  out[threadIdx.x] = tile[threadIdx.x * stride];
}

TEST_P(Programs, ManyAllocations) {
  for (int k = 0; k < 20000; ++k) {
    int* x = nullptr;
    ASSERT_EQ(cudaMalloc(&x, 64), cudaSuccess);
    ASSERT_EQ(cudaFree(x), cudaSuccess);
  }
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

TEST_P(Programs, DistributedSharedMemoryOfABlockThatExited) {
  if (GetParam() < 90)
    GTEST_SKIP() << "clusters need compute capability 9.0; the cases from 90 on run this";
  fusednorm_emulator_set_print_reports(0);
  DeviceArray<float> out(1);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {2, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(2);
  config.blockDim = dim3(32);
  config.attrs = &attribute;
  config.numAttrs = 1;
  ASSERT_EQ(cudaLaunchKernelEx(&config, neighbour_may_be_gone, out.get()), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_NE(std::string(fusednorm_emulator_last_report()).find("has already exited"),
            std::string::npos)
      << fusednorm_emulator_last_report();
  fusednorm_emulator_reset_errors();
}

TEST_P(Programs, SharedMemoryWavefronts) {
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

}  // namespace
