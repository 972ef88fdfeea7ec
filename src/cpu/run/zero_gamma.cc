// SPDX-License-Identifier: Apache-2.0
// Looks for a gamma + gamma_offset that is zero, in the compute type, as kernels have it.
#include "cpu/run/zero_gamma.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "cpu/simd/element_types.h"

namespace fusednorm::cpu {
namespace {

double value_of(double element) {
  return element;
}
float value_of(float element) {
  return element;
}
float value_of(BFloat16 element) {
  const std::uint32_t bits = std::uint32_t{element.bits} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
/// Exponent and mantissa, moved into place, are 2^112 too small. A NaN becomes an infinity, which
/// is no zero either.
float value_of(Float16 element) {
  const std::uint32_t bits = (std::uint32_t{element.bits} & 0x7fffu) << 13;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  value *= 0x1p112f;
  if (value >= 65536.0f) value = std::numeric_limits<float>::infinity();
  return (element.bits & 0x8000) != 0 ? -value : value;
}

/// The first of `count` elements, or -1. C is the compute type.
template <typename T, typename C>
std::int64_t first_zero(const void* gamma, std::int64_t count, double offset) {
  const auto* begin = static_cast<const T*>(gamma);
  const C added = static_cast<C>(offset);
  const auto is_zero = [added](T g) { return static_cast<C>(value_of(g)) + added == 0; };
  // Block by block without a branch, which compilers make vectors of.
  constexpr std::int64_t block = 1024;
  for (std::int64_t at = 0; at < count; at += block) {
    const T *first = begin + at, *last = begin + std::min(at + block, count);
    bool found = false;
    for (const T* g = first; g != last; ++g) found |= is_zero(*g);
    if (found) return std::find_if(first, last, is_zero) - begin;
  }
  return -1;
}

std::int64_t first_zero(const BackwardProblem& p, const void* gamma) {
  const std::int64_t count = p.param_groups * p.cols;
  const bool wide = p.x_dtype == DType::f64;
  switch (p.param_dtype) {
    case DType::f64:
      return first_zero<double, double>(gamma, count, p.gamma_offset);
    case DType::f32:
      return wide ? first_zero<float, double>(gamma, count, p.gamma_offset)
                  : first_zero<float, float>(gamma, count, p.gamma_offset);
    case DType::f16:
      return first_zero<Float16, float>(gamma, count, p.gamma_offset);
    case DType::bf16:
      return first_zero<BFloat16, float>(gamma, count, p.gamma_offset);
  }
  return -1;
}

}  // namespace

Status check_no_zero(const BackwardProblem& p, const void* gamma) {
  if (p.source != Source::y || !p.has_gamma || !p.has_dy) return {};
  const std::int64_t at = first_zero(p, gamma);
  if (at < 0) return {};
  const std::string group = p.param_groups > 1 ? std::to_string(at / p.cols) + ", " : std::string();
  return Status::invalid_argument("gamma[" + group + std::to_string(at % p.cols) + "]" +
                                  (p.gamma_offset != 0 ? " + gamma_offset" : "") +
                                  " = 0: expected no zero when source is y, for there y says "
                                  "nothing of x; use source x");
}

}  // namespace fusednorm::cpu
