// SPDX-License-Identifier: Apache-2.0
// Numbers as bits, and arithmetic done on the host in other ways than the emulator's.
#pragma once

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

using Bits = uint64_t;

template <class T>
T as(Bits bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T>
Bits bits(T value) {
  Bits out = 0;
  std::memcpy(&out, &value, sizeof value);
  return out;
}
inline float f(Bits b) {
  return as<float>(b);
}
inline double g(Bits b) {
  return as<double>(b);
}
// The device's NaNs are canonical in f32.
inline Bits single(float value) {
  return value != value ? 0x7fffffffu : bits(value);
}
inline float flushed(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}
inline float half(Bits b) {
  return static_cast<float>(as<_Float16>(b & 0xffff));
}
inline float bfloat(Bits b) {
  return f((b & 0xffff) << 16);
}

enum class Mode { Nearest, Zero, Down, Up };
constexpr Mode kModes[] = {Mode::Nearest, Mode::Zero, Mode::Down, Mode::Up};
inline int host_mode(Mode mode) {
  constexpr int kHost[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  return kHost[static_cast<int>(mode)];
}

// body() under a rounding mode of the host; what it computes must come from volatile variables.
template <class F>
auto rounded(Mode mode, F body) {
  std::fesetround(host_mode(mode));
  volatile auto result = body();
  std::fesetround(FE_TONEAREST);
  return static_cast<decltype(body())>(result);
}

// f16 or bf16 by looking the number up in the list of all of them, nothing like the emulator's way.
inline Bits nearest_16(long double value, bool brain, Mode mode) {
  if (value != value) return 0x7fff;
  const Bits sign = std::signbit(value) ? 0x8000 : 0, infinity = brain ? 0x7f80 : 0x7c00;
  const long double magnitude = std::fabs(value);
  if (std::isinf(value)) return sign | infinity;
  auto number = [&](Bits b) {
    // One past the largest finite number stands for infinity: where it would lie.
    if (b == infinity) return 2 * (brain ? 0x1p127L : 0x1p15L);
    return static_cast<long double>(brain ? bfloat(b) : half(b));
  };
  Bits low = 0, high = infinity;
  while (high - low > 1) (number((low + high) / 2) <= magnitude ? low : high) = (low + high) / 2;
  if (number(low) == magnitude) return sign | low;
  const long double middle = (number(low) + number(high)) / 2;
  const bool down = mode == Mode::Zero ? true
                    : mode == Mode::Up ? sign != 0
                    : mode == Mode::Down
                        ? sign == 0
                        : magnitude < middle || (magnitude == middle && low % 2 == 0);
  if (!down) return sign | high;
  return sign | low;
}
inline Bits to_half(long double value, Mode mode = Mode::Nearest) {
  return nearest_16(value, false, mode);
}
inline Bits to_bfloat(long double value, Mode mode = Mode::Nearest) {
  return nearest_16(value, true, mode);
}

// Of two numbers one of which may be NaN; -0 is less than 0.
template <class T>
T device_min(T a, T b) {
  return a != a ? b : b != b ? a : a == b ? (std::signbit(a) ? a : b) : std::min(a, b);
}
template <class T>
T device_max(T a, T b) {
  return a != a ? b : b != b ? a : a == b ? (std::signbit(a) ? b : a) : std::max(a, b);
}
