// SPDX-License-Identifier: Apache-2.0
// A plain copy: what memory gives at best.
#include "device_arrays.h"
#include "subjects.h"

namespace fusednorm::cost {
namespace {

constexpr int threads = 256, vectors = 4;

__global__ void __launch_bounds__(threads)
    copy(const float4* __restrict__ from, float4* __restrict__ to, long long count) {
  const long long first = static_cast<long long>(blockIdx.x) * threads * vectors + threadIdx.x;
  float4 held[vectors];
#pragma unroll
  for (int k = 0; k < vectors; ++k)
    if (first + k * threads < count) held[k] = from[first + k * threads];
#pragma unroll
  for (int k = 0; k < vectors; ++k)
    if (first + k * threads < count) to[first + k * threads] = held[k];
}

}  // namespace

std::string launch_copy(const Shape& shape, int) {
  const long long bytes = 1ll * shape.rows * shape.cols * (shape.bf16 ? 2 : 4);
  const long long count = bytes / 16;
  const DeviceBytes from(static_cast<std::size_t>(bytes)), to(static_cast<std::size_t>(bytes));
  const auto blocks = static_cast<unsigned>((count + threads * vectors - 1) / (threads * vectors));
  copy<<<blocks, threads>>>(from.as<float4>(), to.as<float4>(), count);
  return finished();
}

}  // namespace fusednorm::cost
