// Element types as the CPU kernels see them in memory, and constants of the compute types.
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

/// The sum of nothing: whatever is added to it, be it 0 or -0, comes out as it is.
template <typename C>
inline constexpr C nothing = -C(0);

template <typename C>
constexpr std::array<C, max_constants> filled(C value) {
  std::array<C, max_constants> array{};
  for (auto& element : array) element = value;
  return array;
}

template <typename C>
inline constexpr std::array<C, max_constants> ones = filled(C(1));
template <typename C>
inline constexpr std::array<C, max_constants> zeros = {};

template <typename T>
struct Type {
  using type = T;
};

template <typename T>
inline constexpr DType dtype_of = std::is_same_v<T, double>    ? DType::f64
                                  : std::is_same_v<T, float>   ? DType::f32
                                  : std::is_same_v<T, Float16> ? DType::f16
                                                               : DType::bf16;

/// Calls body(Type<TP>, Type<TY>) for the dtypes that go with TX; null for any other.
template <typename TX, typename Body>
auto with_types(DType param, DType y, const Body& body) -> decltype(body(Type<TX>(), Type<TX>())) {
  constexpr DType x = dtype_of<TX>;
  if (param == x && y == x) return body(Type<TX>(), Type<TX>());
  if constexpr (x != DType::f32) {
    if (param == DType::f32 && y == x) return body(Type<float>(), Type<TX>());
    if (param == DType::f32 && y == DType::f32) return body(Type<float>(), Type<float>());
  }
  return nullptr;
}

}  // namespace fusednorm::cpu
