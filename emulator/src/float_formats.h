// SPDX-License-Identifier: Apache-2.0
// f16, bf16 and f32 bits <-> numbers, with every rounding of PTX, exactly.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace fusednorm::emulator {

enum class Rounding : uint8_t { NearestEven, Zero, Down, Up, NearestAway };

template <class To, class From>
inline To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

constexpr uint32_t kCanonicalNan =
    0x7fffffffu;  // what the device's f32 arithmetic returns for every NaN

inline float canonical(float x) {
  return x != x ? bit_cast<float>(kCanonicalNan) : x;
}
inline float flush(float x) {
  const uint32_t bits = bit_cast<uint32_t>(x);
  return (bits & 0x7f800000u) == 0 ? bit_cast<float>(bits & 0x80000000u) : x;
}

inline bool rounds_up(Rounding mode, bool negative, bool odd, double rest) {
  switch (mode) {
    case Rounding::NearestEven:
      return rest > 0.5 || (rest == 0.5 && odd);
    case Rounding::NearestAway:
      return rest >= 0.5;
    case Rounding::Up:
      return !negative && rest > 0;
    case Rounding::Down:
      return negative && rest > 0;
    default:
      return false;
  }
}

// The bits of x in a binary format of 1 + kExponent + kMantissa bits; NaN gives all ones but the
// sign.
template <int kExponent, int kMantissa>
inline uint32_t encode(double x, Rounding mode) {
  constexpr int kBias = (1 << (kExponent - 1)) - 1;
  constexpr uint32_t kInfinity = ((1u << kExponent) - 1) << kMantissa;
  constexpr uint32_t kSign = 1u << (kExponent + kMantissa);
  if (x != x) return kSign - 1;
  const bool negative = std::signbit(x);
  const uint32_t sign = negative ? kSign : 0;
  const double magnitude = std::fabs(x);
  if (magnitude == 0) return sign;
  if (std::isinf(x)) return sign | kInfinity;
  int exponent = std::ilogb(magnitude);
  if (exponent < 1 - kBias) exponent = 1 - kBias;
  if (exponent > kBias + 1) exponent = kBias + 1;
  const double scaled = std::ldexp(magnitude, kMantissa - exponent);
  double whole = std::floor(scaled);
  const bool odd = std::fmod(whole, 2) != 0;
  if (rounds_up(mode, negative, odd, scaled - whole)) whole += 1;
  const double implicit = static_cast<double>(1ull << kMantissa);
  uint64_t bits = whole < implicit ? static_cast<uint64_t>(whole)
                                   : (static_cast<uint64_t>(exponent + kBias) << kMantissa) +
                                         static_cast<uint64_t>(whole - implicit);
  if (bits >= kInfinity) {
    const bool to_infinity = mode == Rounding::NearestEven || mode == Rounding::NearestAway ||
                             (mode == Rounding::Up && !negative) ||
                             (mode == Rounding::Down && negative);
    bits = to_infinity ? kInfinity : kInfinity - 1;
  }
  return sign | static_cast<uint32_t>(bits);
}

inline uint16_t encode_half(double x, Rounding mode = Rounding::NearestEven) {
  return static_cast<uint16_t>(encode<5, 10>(x, mode));
}
inline uint16_t encode_bfloat(double x, Rounding mode = Rounding::NearestEven) {
  return static_cast<uint16_t>(encode<8, 7>(x, mode));
}
inline float encode_float(double x, Rounding mode) {
  return bit_cast<float>(encode<8, 23>(x, mode));
}

inline float decode_bfloat(uint16_t bits) {
  return bit_cast<float>(uint32_t{bits} << 16);
}

// Branch-free, so that loops over lanes vectorise.
inline float decode_half(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t rest = bits & 0x7fffu;
  // Shifted into place the number is 2^112 too small; the product puts that right, subnormals
  // included.
  const float scaled = bit_cast<float>(rest << 13) * 0x1p112f;
  const uint32_t special = (rest << 13) | 0x7f800000u;
  const uint32_t magnitude = rest >= 0x7c00u ? special : bit_cast<uint32_t>(scaled);
  return bit_cast<float>(sign | magnitude);
}

inline uint16_t bfloat_nearest(float x) {
  const uint32_t bits = bit_cast<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : rounded);
}

inline uint16_t half_nearest(float x) {
  const uint32_t bits = bit_cast<uint32_t>(x);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  // Normal results: drop 13 bits, to nearest even. Subnormal ones: let an addition do the rounding.
  const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1)) >> 13;
  const uint32_t subnormal = bit_cast<uint32_t>(bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  uint32_t out = magnitude < 0x38800000u ? subnormal : normal;
  out = magnitude >= 0x47800000u ? 0x7c00u : out;
  out = magnitude > 0x7f800000u ? 0x7fffu : out;
  return static_cast<uint16_t>(magnitude > 0x7f800000u ? out : (sign | out));
}

// a + b rounded to odd in double: a further rounding to any shorter format is then as if done once.
inline double add_to_odd(double a, double b) {
  const double sum = a + b;
  if (std::isinf(sum) || sum != sum) return sum;
  const double back = sum - a;
  const double error = (a - (sum - back)) + (b - back);
  uint64_t bits = bit_cast<uint64_t>(sum);
  if (error != 0 && (bits & 1) == 0) {
    const bool away = (error > 0) == (sum > 0);
    bits += away ? 1 : -1;
  }
  return bit_cast<double>(bits);
}

}  // namespace fusednorm::emulator
