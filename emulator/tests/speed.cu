// SPDX-License-Identifier: Apache-2.0
// How fast the emulator is: thread instructions a second of CPU time, for a scalar and a vectorised
// LayerNorm.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <ctime>
#include <vector>

#include "fusednorm_emulator.h"

namespace {

__device__ float warp_sum(float v) {
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
  return v;
}

__device__ float block_sum(float v, float* part) {
  v = warp_sum(v);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  float sum = 0;
  for (int k = 0; k < 8; ++k) sum += part[k];
  return sum;
}

template <class T>
__global__ void __launch_bounds__(256) scalar(const T* x, T* y, const float* gamma, int cols) {
  __shared__ float first[8], second[8];
  const T* row = x + size_t(blockIdx.x) * cols;
  float sum = 0, square = 0;
  for (int c = threadIdx.x; c < cols; c += 256) sum += float(row[c]);
  const float mean = block_sum(sum, first) / cols;
  for (int c = threadIdx.x; c < cols; c += 256)
    square += (float(row[c]) - mean) * (float(row[c]) - mean);
  const float rstd = rsqrtf(block_sum(square, second) / cols + 1e-5f);
  for (int c = threadIdx.x; c < cols; c += 256)
    y[size_t(blockIdx.x) * cols + c] = T((float(row[c]) - mean) * rstd * gamma[c]);
}

__global__ void __launch_bounds__(256)
    vectors(const float4* x, float4* y, const float4* gamma, int cols) {
  __shared__ float first[8], second[8];
  float4 v[4];
  float sum = 0, square = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    v[k] = x[size_t(blockIdx.x) * (cols / 4) + k * 256 + threadIdx.x];
    sum += v[k].x + v[k].y + v[k].z + v[k].w;
  }
  const float mean = block_sum(sum, first) / cols;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    v[k].x -= mean, v[k].y -= mean, v[k].z -= mean, v[k].w -= mean;
    square += v[k].x * v[k].x + v[k].y * v[k].y + v[k].z * v[k].z + v[k].w * v[k].w;
  }
  const float rstd = rsqrtf(block_sum(square, second) / cols + 1e-5f);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const float4 g = gamma[k * 256 + threadIdx.x];
    y[size_t(blockIdx.x) * (cols / 4) + k * 256 + threadIdx.x] = make_float4(
        v[k].x * rstd * g.x, v[k].y * rstd * g.y, v[k].z * rstd * g.z, v[k].w * rstd * g.w);
  }
}

template <class Launch>
void measure(const char* name, const char* checks, Launch launch) {
  launch();  // the first one loads the module
  fusednorm_emulator_reset_launches();
  timespec before, after;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
  launch();
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
  FusednormEmulatorLaunch counters{};
  fusednorm_emulator_launch(0, &counters);
  const double seconds =
      double(after.tv_sec - before.tv_sec) + 1e-9 * double(after.tv_nsec - before.tv_nsec);
  std::printf(
      "%-8s %-8s %6.1f million thread instructions in %5.3f s of CPU: %5.0f million a second a "
      "core (%5.0f counting moves)\n",
      name, checks, 1e-6 * double(counters.thread_instructions), seconds,
      1e-6 * double(counters.thread_instructions) / seconds,
      1e-6 * double(counters.raw_thread_instructions) / seconds);
}

}  // namespace

int main() {
  const int rows = 1024, cols = 4096;
  std::vector<float> host(size_t(rows) * cols, 1.5f), gamma(cols, 1.0f);
  float *x, *y, *g;
  cudaMalloc(&x, host.size() * sizeof(float));
  cudaMalloc(&y, host.size() * sizeof(float));
  cudaMalloc(&g, gamma.size() * sizeof(float));
  cudaMemcpy(x, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(g, gamma.data(), gamma.size() * sizeof(float), cudaMemcpyHostToDevice);
  for (const bool all : {false, true}) {
    fusednorm_emulator_set_checks(all ? FUSEDNORM_EMULATOR_CHECK_ALL : 0);
    const char* const checks = all ? "all" : "none";
    measure("scalar", checks, [&] { scalar<float><<<rows, 256>>>(x, y, g, cols); });
    measure("bf16", checks, [&] {
      scalar<__nv_bfloat16><<<rows, 256>>>(reinterpret_cast<__nv_bfloat16*>(x),
                                           reinterpret_cast<__nv_bfloat16*>(y), g, cols);
    });
    measure("vectors", checks, [&] {
      vectors<<<rows, 256>>>(reinterpret_cast<float4*>(x), reinterpret_cast<float4*>(y),
                             reinterpret_cast<float4*>(g), cols);
    });
  }
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
