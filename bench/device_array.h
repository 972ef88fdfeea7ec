// Arrays in device memory, any number of elements off their alignment.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fusednorm/problem.h"

namespace fusednorm::bench {

/// Holds ordinary numbers: each word is near 0x3f80, which is 1.0 in bf16, the upper half of 1.0f
/// and no NaN in any dtype; they differ a little, so that rows have a spread.
class DeviceArray {
 public:
  DeviceArray(std::int64_t elements, DType dtype, std::int64_t offset)
      : bytes_(static_cast<std::size_t>(elements) * size_of(dtype)),
        lead_(static_cast<std::size_t>(offset) * size_of(dtype)) {
    std::vector<std::uint16_t> words((bytes_ + lead_ + 1) / 2);
    for (std::size_t i = 0; i < words.size(); ++i)
      words[i] = static_cast<std::uint16_t>(0x3f80 + i % 7);
    if (cudaMalloc(&memory_, bytes_ + lead_ + 1) != cudaSuccess) memory_ = nullptr;
    if (memory_) (void)cudaMemcpy(memory_, words.data(), bytes_ + lead_, cudaMemcpyHostToDevice);
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { (void)cudaFree(memory_); }
  std::byte* data() const { return static_cast<std::byte*>(memory_) + lead_; }
  std::size_t bytes() const { return bytes_; }
  bool exists() const { return memory_ != nullptr; }

 private:
  std::size_t bytes_;
  std::size_t lead_;
  void* memory_ = nullptr;
};

/// The arrays of one pass; those of the other are empty.
struct DeviceArrays {
  DeviceArray x, y, gamma, beta, mean, rstd, dx, dgamma, dbeta;

  DeviceArrays(bool backward, std::int64_t rows, std::int64_t cols, std::int64_t stride,
               DType dtype, DType param_dtype, std::int64_t offset)
      : x(rows * stride, dtype, offset),
        y(rows * stride, dtype, offset),
        gamma(cols, param_dtype, offset),
        beta(backward ? 0 : cols, param_dtype, offset),
        mean(rows, compute_dtype(dtype), offset),
        rstd(rows, compute_dtype(dtype), offset),
        dx(backward ? rows * stride : 0, dtype, offset),
        dgamma(backward ? cols : 0, param_dtype, offset),
        dbeta(backward ? cols : 0, param_dtype, offset) {}

  bool exist() const {
    for (const DeviceArray* array : {&x, &y, &gamma, &beta, &mean, &rstd, &dx, &dgamma, &dbeta})
      if (!array->exists()) return false;
    return true;
  }
  ForwardBuffers forward() const {
    return {x.data(), gamma.data(), beta.data(), y.data(), mean.data(), rstd.data()};
  }
  /// With dy in y.
  BackwardBuffers backward() const {
    BackwardBuffers buffers;
    buffers.dy = y.data();
    buffers.x = x.data();
    buffers.gamma = gamma.data();
    buffers.mean = mean.data();
    buffers.rstd = rstd.data();
    buffers.dx = dx.data();
    buffers.dgamma = dgamma.data();
    buffers.dbeta = dbeta.data();
    return buffers;
  }
};

}  // namespace fusednorm::bench
