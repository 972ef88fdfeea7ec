// SPDX-License-Identifier: Apache-2.0
// The problems of problems/ under the tests' own namespace, and how large a problem a test takes.
#pragma once

#include <string>
#include <vector>

#include "problems/problem.h"

namespace fusednorm::testing {

using namespace fusednorm::problems;

/// How much work a problem is, so that slow devices can choose: elements, rows x max(cols, 1).
enum class Size {
  small,   ///< to 2^13 elements: an emulated device takes every one of these
  medium,  ///< to 2^18
  large,   ///< beyond
};
Size size_of(const Problem& problem);

/// The largest size that FUSEDNORM_TEST_SCALE (small, medium, large) admits; large when unset.
Size test_scale();

/// What of the family beyond LayerNorm a problem needs: "op=rms_norm", "beta of rms_norm",
/// "rounding", "gamma_offset", "residual", "groups", "inner", "16-bit parameters of f32 x".
std::vector<std::string> features_of(const Problem& problem);

/// Empty, or a sentence about the first of `missing` that the problem needs: for
/// Backend::leaves_out.
std::string lacks(const Problem& problem, const std::vector<std::string>& missing);

}  // namespace fusednorm::testing
