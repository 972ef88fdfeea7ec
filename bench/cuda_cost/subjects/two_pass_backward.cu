// SPDX-License-Identifier: Apache-2.0
// A backward that reads x and dy three times: dx in two passes over a row, dgamma and dbeta in a
// launch of their own.
#include "device_arrays.h"
#include "elements.cuh"
#include "subjects.h"

namespace fusednorm::cost {
namespace {

constexpr int dx_warps = 4, strip = 32, lines = 32, batch = 8;

template <class T>
__global__ void __launch_bounds__(32 * dx_warps)
    dx_of_rows(const T* dy, const T* x, const T* gamma, const float* mean, const float* rstd, T* dx,
               int cols) {
  __shared__ float parts[dx_warps];
  using Four = Vector<T, 4>;
  const long long first = static_cast<long long>(blockIdx.x) * cols;
  const auto* dy_row = reinterpret_cast<const Four*>(dy + first);
  const auto* x_row = reinterpret_cast<const Four*>(x + first);
  const auto* weights = reinterpret_cast<const Four*>(gamma);
  const float centre = mean[blockIdx.x], scale = rstd[blockIdx.x];
  float sum = 0, product = 0;
  for (int c = threadIdx.x; c < cols / 4; c += 32 * dx_warps) {
    const Four d = dy_row[c], v = x_row[c], g = weights[c];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float scaled = widen(d.values[k]) * widen(g.values[k]);
      sum += scaled;
      product += scaled * (widen(v.values[k]) - centre) * scale;
    }
  }
  sum = sum_over_block<dx_warps>(sum, parts);
  product = sum_over_block<dx_warps>(product, parts);
  const float share = 1.0f / static_cast<float>(cols);
  auto* out = reinterpret_cast<Four*>(dx + first);
  for (int c = threadIdx.x; c < cols / 4; c += 32 * dx_warps) {
    const Four d = dy_row[c], v = x_row[c], g = weights[c];
    Four result;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float scaled = widen(d.values[k]) * widen(g.values[k]);
      const float hat = (widen(v.values[k]) - centre) * scale;
      result.values[k] = static_cast<T>((scaled - share * (sum + hat * product)) * scale);
    }
    out[c] = result;
  }
}

/// A block of 32 x 32 threads sums 32 columns over all rows, or over its share of them.
template <class T, class Sum>
__global__ void __launch_bounds__(strip* lines)
    sums_of_columns(const T* dy, const T* x, const float* mean, const float* rstd, Sum* dgamma,
                    Sum* dbeta, int rows, int cols) {
  __shared__ float parts[2][lines][strip + 1];
  const int column = blockIdx.x * strip + threadIdx.x;
  float weight = 0, bias = 0;
  const int first = (blockIdx.y * lines + threadIdx.y) * batch;
  for (int row = first; row < rows; row += gridDim.y * lines * batch) {
    float d[batch], v[batch], m[batch], r[batch];
#pragma unroll
    for (int k = 0; k < batch; ++k) {
      // No branch around a load, so that all of a batch are asked for before the first is used.
      const int there = min(row + k, rows - 1);
      const long long at = static_cast<long long>(there) * cols + column;
      d[k] = widen(dy[at]);
      v[k] = widen(x[at]);
      m[k] = mean[there];
      r[k] = rstd[there];
      if (row + k >= rows) d[k] = 0;
    }
#pragma unroll
    for (int k = 0; k < batch; ++k) {
      weight += d[k] * (v[k] - m[k]) * r[k];
      bias += d[k];
    }
  }
  parts[0][threadIdx.y][threadIdx.x] = weight;
  parts[1][threadIdx.y][threadIdx.x] = bias;
  __syncthreads();
  weight = sum_over_warp(parts[0][threadIdx.x][threadIdx.y]);
  bias = sum_over_warp(parts[1][threadIdx.x][threadIdx.y]);
  if (threadIdx.x != 0) return;
  const int at = blockIdx.y * cols + blockIdx.x * strip + threadIdx.y;
  dgamma[at] = static_cast<Sum>(weight);
  dbeta[at] = static_cast<Sum>(bias);
}

/// Adds up the shares: a thread a column.
template <class T>
__global__ void __launch_bounds__(128) sums_of_shares(const float* gammas, const float* betas,
                                                      T* dgamma, T* dbeta, int shares, int cols) {
  const int column = blockIdx.x * 128 + threadIdx.x;
  if (column >= cols) return;
  float weight = 0, bias = 0;
#pragma unroll 4
  for (int k = 0; k < shares; ++k) {
    weight += gammas[k * cols + column];
    bias += betas[k * cols + column];
  }
  dgamma[column] = static_cast<T>(weight);
  dbeta[column] = static_cast<T>(bias);
}

/// `shares` of the rows in the sums of columns; 1: no third launch.
template <class T>
std::string backward(const Shape& s, unsigned shares) {
  const std::size_t row = static_cast<std::size_t>(s.cols) * sizeof(T);
  const std::size_t statistics = 4u * static_cast<unsigned>(s.rows);
  const std::size_t partials = 4u * static_cast<unsigned>(s.cols) * shares;
  const DeviceBytes dy(row * s.rows), x(row * s.rows), dx(row * s.rows), gamma(row), dgamma(row),
      dbeta(row), mean(statistics), rstd(statistics), gammas(partials), betas(partials);
  dx_of_rows<T><<<static_cast<unsigned>(s.rows), 32 * dx_warps>>>(
      dy.as<T>(), x.as<T>(), gamma.as<T>(), mean.as<float>(), rstd.as<float>(), dx.as<T>(), s.cols);
  const dim3 grid(static_cast<unsigned>(s.cols / strip), shares), block(strip, lines);
  if (shares == 1) {
    sums_of_columns<<<grid, block>>>(dy.as<T>(), x.as<T>(), mean.as<float>(), rstd.as<float>(),
                                     dgamma.as<T>(), dbeta.as<T>(), s.rows, s.cols);
    return finished();
  }
  sums_of_columns<<<grid, block>>>(dy.as<T>(), x.as<T>(), mean.as<float>(), rstd.as<float>(),
                                   gammas.as<float>(), betas.as<float>(), s.rows, s.cols);
  sums_of_shares<<<static_cast<unsigned>((s.cols + 127) / 128), 128>>>(
      gammas.as<float>(), betas.as<float>(), dgamma.as<T>(), dbeta.as<T>(),
      static_cast<int>(shares), s.cols);
  return finished();
}

}  // namespace

std::string launch_two_pass_backward(const Shape& shape, int) {
  return shape.bf16 ? backward<__nv_bfloat16>(shape, 1) : backward<float>(shape, 1);
}

/// As many shares as give each multiprocessor four blocks.
std::string launch_split_backward(const Shape& shape, int multiprocessors) {
  const auto shares = static_cast<unsigned>(4 * multiprocessors / (shape.cols / strip) + 1);
  return shape.bf16 ? backward<__nv_bfloat16>(shape, shares) : backward<float>(shape, shares);
}

}  // namespace fusednorm::cost
