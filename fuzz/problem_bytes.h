// SPDX-License-Identifier: Apache-2.0
// Problems out of a fuzzer's bytes: every field takes any value it can hold, plausible ones more
// often.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "fusednorm/problem.h"

namespace fusednorm::fuzz {

/// Takes values off the front; what is used up gives zeros.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  template <typename T>
  T any() {
    T value{};
    const std::size_t taken = size_ < sizeof value ? size_ : sizeof value;
    if (taken > 0) std::memcpy(&value, data_, taken);
    data_ += taken;
    size_ -= taken;
    return value;
  }

  bool flag() { return (any<std::uint8_t>() & 1) != 0; }

  /// A byte says which: small, a power of two give or take one, or any of 2^64.
  std::int64_t size() {
    const auto kind = any<std::uint8_t>();
    if (kind < 96) return any<std::uint8_t>();
    if (kind < 160) return any<std::uint16_t>();
    if (kind < 224) {
      const std::uint64_t power = std::uint64_t{1} << (any<std::uint8_t>() & 63);
      return static_cast<std::int64_t>(power + kind % 3 - 1);
    }
    return any<std::int64_t>();
  }

  /// 0 (packed) half of the time.
  std::int64_t stride() { return flag() ? size() : 0; }

  /// One of `count` enumerators; one time in 32 any byte.
  template <typename Enum>
  Enum choice(int count) {
    const auto value = any<std::uint8_t>();
    return static_cast<Enum>(value < 248 ? value % count : any<std::uint8_t>());
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

/// What both problems have.
template <typename Problem>
void fill_shared(Bytes& bytes, Problem& p) {
  p.rows = bytes.size();
  p.cols = bytes.size();
  p.x_dtype = bytes.choice<DType>(4);
  p.param_dtype = bytes.flag() ? p.x_dtype : bytes.choice<DType>(4);
  p.y_dtype = bytes.flag() ? p.x_dtype : bytes.choice<DType>(4);
  p.has_gamma = bytes.flag();
  p.has_beta = bytes.flag();
  p.operation = bytes.choice<Operation>(2);
  p.rounding = bytes.flag() ? Rounding::once : bytes.choice<Rounding>(3);
  p.gamma_offset = bytes.flag() ? 0.0 : bytes.any<double>();
  p.has_residual = bytes.flag();
  p.residual_dtype = bytes.flag() ? p.x_dtype : bytes.choice<DType>(4);
  p.param_groups = bytes.flag() ? 1 : bytes.size();
  p.rows_per_group = bytes.flag() ? 1 : bytes.size();
  p.inner_rows = bytes.flag() ? 0 : bytes.size();
}

/// Whether any machine could hold an array of the problem: address spaces end at 2^57 bytes. Beyond
/// that a plan must not crash, but its workspace, of f32 where data may be 16-bit, may not be
/// counted.
template <typename Problem>
bool addressable(const Problem& p) {
  const std::int64_t most = std::int64_t{1} << 52;
  return p.cols <= most && (p.cols == 0 || p.rows <= most / p.cols);
}

inline ForwardProblem forward_problem(Bytes& bytes) {
  ForwardProblem p;
  fill_shared(bytes, p);
  p.save_mean = bytes.flag();
  p.save_rstd = bytes.flag();
  p.eps = bytes.flag() ? 1e-5 : bytes.any<double>();
  for (std::int64_t* stride :
       {&p.x_row_stride, &p.y_row_stride, &p.residual_row_stride, &p.sum_row_stride,
        &p.x_outer_stride, &p.y_outer_stride, &p.residual_outer_stride, &p.sum_outer_stride}) {
    *stride = bytes.stride();
  }
  return p;
}

inline BackwardProblem backward_problem(Bytes& bytes) {
  BackwardProblem p;
  fill_shared(bytes, p);
  p.source = bytes.choice<Source>(2);
  p.want_dx = bytes.flag();
  p.want_dgamma = bytes.flag();
  p.want_dbeta = bytes.flag();
  p.has_dy = !bytes.flag();
  p.has_ds = bytes.flag();
  p.want_dresidual = bytes.flag();
  for (std::int64_t* stride :
       {&p.dy_row_stride, &p.source_row_stride, &p.dx_row_stride, &p.ds_row_stride,
        &p.dresidual_row_stride, &p.dy_outer_stride, &p.source_outer_stride, &p.dx_outer_stride,
        &p.ds_outer_stride, &p.dresidual_outer_stride}) {
    *stride = bytes.stride();
  }
  return p;
}

}  // namespace fusednorm::fuzz
