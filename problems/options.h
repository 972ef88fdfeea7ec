// SPDX-License-Identifier: Apache-2.0
// The options of a problem, KEY=VALUE: how each is read and printed, and its default.
#pragma once

#include <array>
#include <string>

#include "problems/problem.h"

namespace fusednorm::problems {

/// In the order of DType's values.
inline constexpr const char* kDTypes[] = {"f64", "f32", "f16", "bf16"};

struct Option {
  const char* key;
  /// What was expected in the place of `text`, or nothing.
  std::string (*read)(const std::string& text, Problem* problem);
  std::string (*print)(const Problem& problem);
};

/// Every option, in the order in which it is printed.
extern const std::array<Option, 18> kOptions;

// Defaults that follow from other words.
Beta default_beta(const Problem& problem);
bool default_ds(const Problem& problem);
std::array<bool, 4> default_out(const Problem& problem);

/// The value that `option` has in a problem like this one that does not mention it.
std::string default_of(const Option& option, const Problem& problem);

}  // namespace fusednorm::problems
