// SPDX-License-Identifier: Apache-2.0
// Numbers for the problems: every value is a function of seed, pattern and position alone.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "problem.h"

namespace fusednorm::testing {

/// SplitMix64: a counter-based generator, so an element's value does not depend on the others.
inline std::uint64_t random_bits(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t bits = (index + 1) * 0x9E3779B97F4A7C15u + seed * 0xD1B54A32D192ED03u;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
  return bits ^ (bits >> 31);
}

/// Near enough to normal: four 16-bit uniforms, variance 1, |value| < 3.47.
inline double random_normal(std::uint64_t seed, std::uint64_t index) {
  const std::uint64_t bits = random_bits(seed, index);
  const double sum = static_cast<double>((bits & 0xFFFF) + (bits >> 16 & 0xFFFF) +
                                         (bits >> 32 & 0xFFFF) + (bits >> 48));
  return (sum / 65536.0 - 2.0) * 1.7320508075688772;
}

/// x, packed and rounded to x_dtype.
std::vector<double> make_x(const Problem& problem);
/// dy, packed and rounded to y_dtype.
std::vector<double> make_dy(const Problem& problem);
/// Empty when the problem has none. The patterns of x and of dy, rounded to residual_dtype.
std::vector<double> make_residual(const Problem& problem);
std::vector<double> make_ds(const Problem& problem);
/// Empty when the problem has none. Tables of param_groups rows.
std::vector<double> make_gamma(const Problem& problem);
std::vector<double> make_beta(const Problem& problem);

}  // namespace fusednorm::testing
