// Element types as the CPU kernels see them in memory, and constant arrays of each.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "cpu/kernels.h"

namespace fusednorm::cpu {

struct BFloat16 {
  std::uint16_t bits;
};
struct Float16 {
  std::uint16_t bits;
};

template <typename T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Segments are merged in a type wider than the compute type, so that merging adds no error of its
/// own.
template <typename C>
using Wide = std::conditional_t<std::is_same_v<C, double>, long double, double>;

template <typename T>
constexpr T one() {
  if constexpr (std::is_same_v<T, BFloat16>)
    return {0x3f80};
  else if constexpr (std::is_same_v<T, Float16>)
    return {0x3c00};
  else
    return T(1);
}

template <typename T>
constexpr std::array<T, max_chunk> filled(T value) {
  std::array<T, max_chunk> array{};
  for (auto& element : array) element = value;
  return array;
}

template <typename T>
inline constexpr std::array<T, max_chunk> ones = filled(one<T>());
template <typename T>
inline constexpr std::array<T, max_chunk> zeros = {};

template <typename T>
struct Type {
  using type = T;
};

/// Calls body(Type<TX>, Type<TP>, Type<TY>) for a supported triple of dtypes; null for any other.
template <typename Body>
auto with_types(DType x, DType param, DType y, const Body& body)
    -> decltype(body(Type<float>(), Type<float>(), Type<float>())) {
  const auto given_x = [&](auto tx) -> decltype(body(tx, tx, tx)) {
    if (param == x && y == x) return body(tx, tx, tx);
    if constexpr (!std::is_same_v<decltype(tx), Type<float>>) {
      if (param == DType::f32 && y == x) return body(tx, Type<float>(), tx);
      if (param == DType::f32 && y == DType::f32) return body(tx, Type<float>(), Type<float>());
    }
    return nullptr;
  };
  switch (x) {
    case DType::f64:
      return given_x(Type<double>());
    case DType::f32:
      return given_x(Type<float>());
    case DType::f16:
      return given_x(Type<Float16>());
    case DType::bf16:
      return given_x(Type<BFloat16>());
  }
  return nullptr;
}

}  // namespace fusednorm::cpu
