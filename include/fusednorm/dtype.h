// SPDX-License-Identifier: Apache-2.0
// The element types that fusednorm reads and writes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fusednorm {

enum class DType : std::uint8_t { f64, f32, f16, bf16 };

constexpr std::size_t size_of(DType dtype) {
  return dtype == DType::f64 ? 8 : dtype == DType::f32 ? 4 : 2;
}

constexpr const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "f64";
    case DType::f32:
      return "f32";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
  }
  return "unknown dtype";
}

/// The type of every sum, of mean and rstd, and of all arithmetic on data of `dtype`.
constexpr DType compute_dtype(DType dtype) {
  return dtype == DType::f64 ? DType::f64 : DType::f32;
}

}  // namespace fusednorm
