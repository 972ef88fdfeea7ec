// SPDX-License-Identifier: Apache-2.0
// Which problems a slow device leaves out.
#include "problem.h"

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

}  // namespace fusednorm::testing
