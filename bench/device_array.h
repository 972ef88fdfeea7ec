// SPDX-License-Identifier: Apache-2.0
// Arrays in device memory, any number of elements off their alignment.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "problems/problem.h"

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
  /// Null for an array that the problem does not have.
  std::byte* data_if(bool exists) const { return exists ? data() : nullptr; }
  std::size_t bytes() const { return bytes_; }
  bool exists() const { return memory_ != nullptr; }

 private:
  std::size_t bytes_;
  std::size_t lead_;
  void* memory_ = nullptr;
};

/// The arrays of a problem; those that it does not have are empty. The order is part of the
/// recorded costs: it decides the addresses, and these which loads the emulated L1 still holds.
struct DeviceArrays {
  DeviceArray in;  ///< x, the stored sum or, in a backward pass from y, y
  DeviceArray y;   ///< y; in a backward pass dy
  DeviceArray gamma, beta, mean, rstd, dx, dgamma, dbeta;
  std::optional<DeviceArray> residual, sum, ds, dresidual;

  explicit DeviceArrays(const problems::Problem& p)
      : in(extent_of(p, source(p)), source_dtype(p), p.offset[source(p)]),
        y(extent_of(p, y_or_dy(p)), p.y_dtype, p.offset[y_or_dy(p)]),
        gamma(p.param_groups * p.cols, p.param_dtype, p.offset[0]),
        beta(p.is_forward() || p.from_y() ? p.param_groups * p.cols : 0, p.param_dtype,
             p.offset[0]),
        mean(p.rows, compute_dtype(p.x_dtype), p.offset[0]),
        rstd(p.rows, compute_dtype(p.x_dtype), p.offset[0]),
        dx(p.is_forward() ? 0 : extent_of(p, problems::kDx), p.x_dtype, p.offset[problems::kDx]),
        dgamma(p.is_forward() ? 0 : p.param_groups * p.cols, p.param_dtype, p.offset[0]),
        dbeta(p.is_forward() ? 0 : p.param_groups * p.cols, p.param_dtype, p.offset[0]) {
    const auto add = [&](std::optional<DeviceArray>* array, int index, bool exists) {
      if (exists) array->emplace(extent_of(p, index), p.residual_dtype, p.offset[index]);
    };
    add(&residual, problems::kResidual, p.is_forward() && p.has_residual);
    add(&sum, problems::kSum, p.is_forward() && p.has_residual);
    add(&ds, problems::kDs, !p.is_forward() && p.has_ds);
    add(&dresidual, problems::kDresidual, !p.is_forward() && p.out[3]);
  }

  bool exist() const {
    for (const DeviceArray* array : {&in, &y, &gamma, &beta, &mean, &rstd, &dx, &dgamma, &dbeta})
      if (!array->exists()) return false;
    for (const auto* array : {&residual, &sum, &ds, &dresidual})
      if (*array && !(*array)->exists()) return false;
    return true;
  }
  /// What the pass writes.
  const DeviceArray& out(const problems::Problem& p) const { return p.is_forward() ? y : dx; }
  ForwardBuffers forward(const problems::Problem& p) const {
    ForwardBuffers buffers;
    buffers.x = in.data();
    buffers.gamma = gamma.data_if(p.gamma != problems::Gamma::none);
    buffers.beta = beta.data_if(p.beta != problems::Beta::none);
    buffers.y = y.data();
    buffers.mean = mean.data_if(p.out[0]);
    buffers.rstd = rstd.data_if(p.out[1]);
    buffers.residual = data_of(residual);
    buffers.sum = data_of(sum);
    return buffers;
  }
  BackwardBuffers backward(const problems::Problem& p) const {
    BackwardBuffers buffers;
    buffers.dy = y.data_if(p.has_dy);
    buffers.x = in.data_if(!p.from_y());
    buffers.y = in.data_if(p.from_y());
    buffers.gamma = gamma.data_if(p.gamma != problems::Gamma::none);
    buffers.beta = beta.data_if(p.beta != problems::Beta::none && p.from_y());
    buffers.mean = mean.data_if(!p.from_y());
    buffers.rstd = rstd.data();
    buffers.dx = dx.data_if(p.out[0]);
    buffers.dgamma = dgamma.data_if(p.out[1]);
    buffers.dbeta = dbeta.data_if(p.out[2]);
    buffers.ds = data_of(ds);
    buffers.dresidual = data_of(dresidual);
    return buffers;
  }

 private:
  static int source(const problems::Problem& p) {
    return p.is_forward() ? static_cast<int>(problems::kX) : static_cast<int>(problems::kSource);
  }
  static int y_or_dy(const problems::Problem& p) {
    return p.is_forward() ? static_cast<int>(problems::kY) : static_cast<int>(problems::kDy);
  }
  static DType source_dtype(const problems::Problem& p) {
    return p.is_forward() ? p.x_dtype : p.from_y() ? p.y_dtype : p.row_dtype();
  }
  static std::byte* data_of(const std::optional<DeviceArray>& array) {
    return array ? array->data() : nullptr;
  }
};

}  // namespace fusednorm::bench
