// SPDX-License-Identifier: Apache-2.0
// The list of shapes.csv, which says what each list in it is for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fusednorm::problems {

struct Shape {
  std::string name;
  std::int64_t rows;
  std::int64_t cols;
  std::vector<std::string> lists;
};

const std::vector<Shape>& listed_shapes();

/// The shapes of one list: "bench", "quick", "peer", "cost" or "width".
std::vector<Shape> listed_shapes(const std::string& list);

}  // namespace fusednorm::problems
