// SPDX-License-Identifier: Apache-2.0
// Which problems a slow device leaves out.
#include "problem.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace fusednorm::testing {

Size size_of(const Problem& problem) {
  const std::int64_t elements = problem.rows * (problem.cols > 0 ? problem.cols : 1);
  return elements <= 1 << 13 ? Size::small : elements <= 1 << 18 ? Size::medium : Size::large;
}

Size test_scale() {
  const char* text = std::getenv("FUSEDNORM_TEST_SCALE");
  const std::string scale = text != nullptr ? text : "large";
  if (scale == "small") return Size::small;
  if (scale == "medium") return Size::medium;
  if (scale != "large") {
    std::fprintf(stderr, "FUSEDNORM_TEST_SCALE is \"%s\"; expected small, medium or large\n", text);
    std::abort();
  }
  return Size::large;
}

std::vector<std::string> features_of(const Problem& problem) {
  const bool rms_norm = problem.operation == Operation::rms_norm;
  const bool dbeta = !problem.is_forward() && problem.out[2];
  const std::pair<const char*, bool> all[] = {
      {"op=rms_norm", rms_norm},
      {"beta of rms_norm", rms_norm && (problem.beta != Beta::none || dbeta)},
      {"rounding", problem.rounding != Rounding::once},
      {"gamma_offset", problem.gamma_offset != 0},
      {"residual", problem.has_residual},
      {"groups", problem.param_groups != 1 || problem.rows_per_group != 1},
      {"inner", problem.inner_rows != 0},
      {"16-bit parameters of f32 x",
       problem.x_dtype == DType::f32 && problem.param_dtype != DType::f32},
  };
  std::vector<std::string> features;
  for (const auto& [name, needed] : all) {
    if (needed) features.push_back(name);
  }
  return features;
}

std::string lacks(const Problem& problem, const std::vector<std::string>& missing) {
  for (const std::string& feature : features_of(problem)) {
    if (std::count(missing.begin(), missing.end(), feature) > 0) return "no " + feature + " yet";
  }
  return {};
}

}  // namespace fusednorm::testing
