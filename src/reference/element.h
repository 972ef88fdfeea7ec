// SPDX-License-Identifier: Apache-2.0
// Exact conversion of every element type to f64, and from f64 with one rounding to nearest even.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

#include "fusednorm/dtype.h"

namespace fusednorm::reference {

/// A 16-bit binary format, by its two field widths.
struct Format16 {
  int exponent_bits;
  int mantissa_bits;
  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};
inline constexpr Format16 format_f16{5, 10};
inline constexpr Format16 format_bf16{8, 7};

inline double decode(std::uint16_t code, Format16 format) {
  const int exponent_mask = (1 << format.exponent_bits) - 1;
  const int exponent = (code >> format.mantissa_bits) & exponent_mask;
  const int mantissa = code & ((1 << format.mantissa_bits) - 1);
  const double sign = (code >> 15) != 0 ? -1.0 : 1.0;
  if (exponent == exponent_mask) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  const int hidden = exponent != 0 ? 1 << format.mantissa_bits : 0;
  const int scale = (exponent != 0 ? exponent : 1) - format.bias() - format.mantissa_bits;
  const std::uint64_t power_bits = static_cast<std::uint64_t>(scale + 1023) << 52;
  double power;
  std::memcpy(&power, &power_bits, sizeof power);
  return sign * (hidden + mantissa) * power;
}

/// Drops `shift` low bits, rounding to nearest, ties to even. 1 <= shift <= 63.
inline std::uint64_t round_off(std::uint64_t value, int shift) {
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  return (value + half - 1 + ((value >> shift) & 1)) >> shift;
}

inline std::uint16_t encode(double value, Format16 format) {
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const std::uint64_t sign = bits >> 63 << 15;
  const std::uint64_t magnitude = bits & ~(std::uint64_t{1} << 63);
  const std::uint64_t infinity = ((std::uint64_t{1} << format.exponent_bits) - 1)
                                 << format.mantissa_bits;
  if (value != value) {
    return static_cast<std::uint16_t>(sign | infinity | infinity >> 1);
  }
  const int dropped = 52 - format.mantissa_bits;
  const int exponent = static_cast<int>(magnitude >> 52) - 1023;
  const int smallest = 1 - format.bias();
  std::uint64_t code;
  if (exponent >= smallest) {
    const std::uint64_t rebias = static_cast<std::uint64_t>(1023 - format.bias()) << 52;
    code = round_off(magnitude - rebias, dropped);
  } else {
    const std::uint64_t hidden = std::uint64_t{1} << 52;
    const int shift = dropped + smallest - exponent;
    code = shift > 54 ? 0 : round_off((magnitude & (hidden - 1)) | hidden, shift);
  }
  return static_cast<std::uint16_t>(sign | (code < infinity ? code : infinity));
}

/// Element `index` of an array of `dtype`, exactly.
inline double load(DType dtype, const void* array, std::int64_t index) {
  const char* address =
      static_cast<const char*>(array) + index * static_cast<std::int64_t>(size_of(dtype));
  if (dtype == DType::f64) {
    double value;
    std::memcpy(&value, address, sizeof value);
    return value;
  }
  if (dtype == DType::f32) {
    float value;
    std::memcpy(&value, address, sizeof value);
    return value;
  }
  std::uint16_t code;
  std::memcpy(&code, address, sizeof code);
  return decode(code, dtype == DType::f16 ? format_f16 : format_bf16);
}

/// Writes element `index`, rounded once.
inline void store(DType dtype, void* array, std::int64_t index, double value) {
  char* address = static_cast<char*>(array) + index * static_cast<std::int64_t>(size_of(dtype));
  if (dtype == DType::f64) {
    std::memcpy(address, &value, sizeof value);
  } else if (dtype == DType::f32) {
    const float rounded = static_cast<float>(value);
    std::memcpy(address, &rounded, sizeof rounded);
  } else {
    const std::uint16_t code = encode(value, dtype == DType::f16 ? format_f16 : format_bf16);
    std::memcpy(address, &code, sizeof code);
  }
}

/// The value that `dtype` keeps of `value`.
inline double rounded(DType dtype, double value) {
  switch (dtype) {
    case DType::f64:
      return value;
    case DType::f32:
      return static_cast<float>(value);
    case DType::f16:
      return decode(encode(value, format_f16), format_f16);
    case DType::bf16:
      return decode(encode(value, format_bf16), format_bf16);
  }
  return value;
}

}  // namespace fusednorm::reference
