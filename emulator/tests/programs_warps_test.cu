// SPDX-License-Identifier: Apache-2.0
// What the lanes of a warp do: calls, divergence, shuffles of parts, locks, atomics.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_fp16.h>

#include <numeric>

#include "on_every_device.h"

namespace cg = cooperative_groups;

namespace {

class Warps : public OnEveryDevice {};
INSTANTIATE_TEST_SUITE_P(Capabilities, Warps, every_capability());

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

TEST_P(Warps, CallsOfDeviceFunctions) {
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

// Taken by the device's divergent lanes and, one at a time, by the host.
__host__ __device__ int wander(int v, int t) {
  int acc = 0;
  switch (v % 7) {
    case 0:
      return 10;
    case 1:
      return 20 + v;
    case 2:
      for (int i = 0; i < t % 9; ++i) acc += i * v;
      return acc;
    case 3:
      acc = v > 50 ? -1 : -2;
      [[fallthrough]];
    case 4:
      return acc + 7;
    case 5:
      while (v > 1) {
        v = v & 1 ? 3 * v + 1 : v / 2;
        ++acc;
        if (acc > 40) break;
      }
      return acc;
    default:
      return -99;
  }
}

__global__ void diverge(const int* x, int* out) {
  const int t = threadIdx.x;
  if (x[t] % 7 == 6) return;
  const int acc = wander(x[t], t);
  out[t] = acc + (__popc(__activemask()) > 32 ? 1000000 : 0);
  __syncwarp(__activemask());
}

TEST_P(Warps, DivergenceAndReconvergence) {
  std::vector<int> x(256);
  for (int i = 0; i < 256; ++i) x[i] = (i * 37) % 101;
  DeviceArray<int> dx(x);
  for_seeds([&] {
    DeviceArray<int> out(std::vector<int>(256, -99));
    diverge<<<1, 256>>>(dx.get(), out.get());
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << fusednorm_emulator_last_report();
    const std::vector<int> y = out.values();
    for (int t = 0; t < 256; ++t) ASSERT_EQ(y[t], wander(x[t], t)) << t;
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

TEST_P(Warps, ShufflesOfPartsOfAWarp) {
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

TEST_P(Warps, SpinLock) {
  for_seeds([&] {
    DeviceArray<int> state(std::vector<int>{0, 0});
    locked_increment<<<3, 64>>>(state.get(), state.get() + 1);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << fusednorm_emulator_last_report();
    EXPECT_EQ(state.values()[1], 192);
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

TEST_P(Warps, Atomics) {
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

}  // namespace
