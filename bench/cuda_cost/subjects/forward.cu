// SPDX-License-Identifier: Apache-2.0
// Two layer norms: a block a row with Welford's recurrence, and a row kept in registers.
#include "device_arrays.h"
#include "elements.cuh"
#include "subjects.h"

namespace fusednorm::cost {
namespace {

struct Welford {
  float mean = 0, squares = 0, count = 0;
};

__device__ Welford include(Welford w, float value) {
  const float delta = value - w.mean;
  w.count += 1;
  w.mean += delta * (1.0f / w.count);
  w.squares += delta * (value - w.mean);
  return w;
}

__device__ Welford merge(const Welford& a, const Welford& b) {
  Welford out;
  out.count = a.count + b.count;
  if (out.count == 0) return out;
  const float delta = b.mean - a.mean, share = 1.0f / out.count;
  out.mean = (a.count * a.mean + b.count * b.mean) * share;
  out.squares = a.squares + b.squares + delta * delta * a.count * b.count * share;
  return out;
}

__device__ Welford merge_over_block(Welford w) {
  __shared__ Welford parts[2];
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    Welford other;
    other.mean = __shfl_down_sync(0xffffffffu, w.mean, offset);
    other.squares = __shfl_down_sync(0xffffffffu, w.squares, offset);
    other.count = __shfl_down_sync(0xffffffffu, w.count, offset);
    w = merge(w, other);
  }
  for (int offset = 2; offset > 0; offset /= 2) {  // of four warps
    const int warp = threadIdx.y;
    if (threadIdx.x == 0 && warp >= offset && warp < 2 * offset) parts[warp - offset] = w;
    __syncthreads();
    if (threadIdx.x == 0 && warp < offset) w = merge(w, parts[warp]);
    __syncthreads();
  }
  if (threadIdx.x == 0 && threadIdx.y == 0) parts[0] = w;
  __syncthreads();
  return parts[0];
}

template <class T>
__global__ void welford_forward(const T* x, T* y, const T* gamma, const T* beta, float* mean,
                                float* rstd, int cols) {
  using Four = Vector<T, 4>;
  const auto* row = reinterpret_cast<const Four*>(x + static_cast<long long>(blockIdx.x) * cols);
  auto* out = reinterpret_cast<Four*>(y + static_cast<long long>(blockIdx.x) * cols);
  const int thread = threadIdx.x + threadIdx.y * 32;
  Welford w;
  for (int c = thread; c < cols / 4; c += 128) {
    const Four v = row[c];
#pragma unroll
    for (int k = 0; k < 4; ++k) w = include(w, widen(v.values[k]));
  }
  w = merge_over_block(w);
  const float scale = rsqrtf(w.squares / static_cast<float>(cols) + 1e-5f);
  for (int c = thread; c < cols / 4; c += 128) {
    const Four v = row[c], g = reinterpret_cast<const Four*>(gamma)[c],
               b = reinterpret_cast<const Four*>(beta)[c];
    Four result;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      result.values[k] = static_cast<T>(
          widen(g.values[k]) * (scale * (widen(v.values[k]) - w.mean)) + widen(b.values[k]));
    }
    out[c] = result;
  }
  if (thread == 0) {
    mean[blockIdx.x] = w.mean;
    rstd[blockIdx.x] = scale;
  }
}

/// Each block takes every so-many-th row: `warps` warps a row, `vectors` of 16 bytes a thread.
template <class T, int warps, int vectors>
__global__ void __launch_bounds__(128)
    registers_forward(const T* x, T* y, const T* gamma, const T* beta, float* mean, float* rstd,
                      int rows) {
  constexpr int each = 16 / sizeof(T), cols = warps * 32 * vectors * each, per_block = 4 / warps;
  using Sixteen = Vector<T, each>;
  __shared__ float parts[4];
  const int thread = threadIdx.x % (32 * warps);
  Sixteen g[vectors], b[vectors];
#pragma unroll
  for (int v = 0; v < vectors; ++v) {
    g[v] = reinterpret_cast<const Sixteen*>(gamma)[thread + v * 32 * warps];
    b[v] = reinterpret_cast<const Sixteen*>(beta)[thread + v * 32 * warps];
  }
  for (int row = blockIdx.x * per_block + threadIdx.x / (32 * warps); row < rows;
       row += gridDim.x * per_block) {
    const auto* from = reinterpret_cast<const Sixteen*>(x + static_cast<long long>(row) * cols);
    Sixteen held[vectors];
    float values[vectors * each];
#pragma unroll
    for (int v = 0; v < vectors; ++v) held[v] = from[thread + v * 32 * warps];
    float sum = 0, squares = 0;
#pragma unroll
    for (int k = 0; k < vectors * each; ++k) {
      values[k] = widen(held[k / each].values[k % each]);
      sum += values[k];
    }
    const float centre = sum_over_block<warps>(sum, parts) / cols;
#pragma unroll
    for (int k = 0; k < vectors * each; ++k) squares += (values[k] - centre) * (values[k] - centre);
    const float scale = rsqrtf(sum_over_block<warps>(squares, parts) / cols + 1e-5f);
    auto* to = reinterpret_cast<Sixteen*>(y + static_cast<long long>(row) * cols);
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
      Sixteen result;
#pragma unroll
      for (int k = 0; k < each; ++k)
        result.values[k] =
            static_cast<T>((values[v * each + k] - centre) * scale * widen(g[v].values[k]) +
                           widen(b[v].values[k]));
      to[thread + v * 32 * warps] = result;
    }
    if (thread == 0) {
      mean[row] = centre;
      rstd[row] = scale;
    }
  }
}

struct Arrays {
  DeviceBytes x, y, gamma, beta, mean, rstd;
  explicit Arrays(const Shape& s)
      : x(size(s) * s.rows),
        y(size(s) * s.rows),
        gamma(size(s)),
        beta(size(s)),
        mean(4u * static_cast<unsigned>(s.rows)),
        rstd(4u * static_cast<unsigned>(s.rows)) {}
  static std::size_t size(const Shape& s) {
    return static_cast<std::size_t>(s.cols) * (s.bf16 ? 2 : 4);
  }
};

template <class T>
std::string welford(const Shape& shape) {
  const Arrays a(shape);
  welford_forward<T><<<static_cast<unsigned>(shape.rows), dim3(32, 4)>>>(
      a.x.as<T>(), a.y.as<T>(), a.gamma.as<T>(), a.beta.as<T>(), a.mean.as<float>(),
      a.rstd.as<float>(), shape.cols);
  return finished();
}

template <class T, int warps, int vectors>
std::string registers(const Shape& shape, int multiprocessors) {
  const Arrays a(shape);
  int blocks = 0;
  (void)cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, registers_forward<T, warps, vectors>,
                                                      128, 0);
  registers_forward<T, warps, vectors><<<static_cast<unsigned>(blocks * multiprocessors), 128>>>(
      a.x.as<T>(), a.y.as<T>(), a.gamma.as<T>(), a.beta.as<T>(), a.mean.as<float>(),
      a.rstd.as<float>(), shape.rows);
  return finished();
}

}  // namespace

std::string launch_welford_forward(const Shape& shape, int) {
  return shape.bf16 ? welford<__nv_bfloat16>(shape) : welford<float>(shape);
}

std::string launch_registers_forward(const Shape& shape, int multiprocessors) {
  if (shape.bf16 && shape.cols == 1024)
    return registers<__nv_bfloat16, 1, 4>(shape, multiprocessors);
  if (shape.bf16 && shape.cols == 4096)
    return registers<__nv_bfloat16, 4, 4>(shape, multiprocessors);
  if (!shape.bf16 && shape.cols == 1024) return registers<float, 1, 8>(shape, multiprocessors);
  return "only 1024 columns, and 4096 of bf16, are compiled";
}

}  // namespace fusednorm::cost
