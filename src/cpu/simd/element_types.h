// SPDX-License-Identifier: Apache-2.0
// Element types as they lie in memory, the types that kernels compute in, and constants of these.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "cpu/plan/policy.h"
#include "fusednorm/dtype.h"

namespace fusednorm::cpu {

struct BFloat16 {
  std::uint16_t bits;
};
struct Float16 {
  std::uint16_t bits;
};

template <typename T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Segments are merged in a wider type than the compute type, so that merging adds no error.
template <typename C>
using Wide = std::conditional_t<std::is_same_v<C, double>, long double, double>;

/// The start of a sum: -0 + v is v in every bit, where 0 + -0 would be 0.
template <typename C>
inline constexpr C empty_sum = -C(0);

template <typename C>
constexpr std::array<C, policy::max_constants> filled(C value) {
  std::array<C, policy::max_constants> array{};
  for (auto& element : array) element = value;
  return array;
}

/// What kernels read for an absent gamma or beta.
template <typename C>
inline constexpr std::array<C, policy::max_constants> ones = filled(C(1));
template <typename C>
inline constexpr std::array<C, policy::max_constants> zeros = {};

template <typename T>
inline constexpr DType dtype_of = std::is_same_v<T, double>    ? DType::f64
                                  : std::is_same_v<T, float>   ? DType::f32
                                  : std::is_same_v<T, Float16> ? DType::f16
                                                               : DType::bf16;

}  // namespace fusednorm::cpu
