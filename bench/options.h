// The command line of fusednorm-bench.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fusednorm/dtype.h"

namespace fusednorm::bench {

enum class Pass { forward, backward };
constexpr const char* name_of(Pass pass) {
  return pass == Pass::forward ? "forward" : "backward";
}

struct Shape {
  std::int64_t rows;
  std::int64_t cols;
};

struct Options {
  std::vector<Pass> passes;
  std::vector<DType> dtypes;
  std::vector<Shape> shapes;
  std::string param_dtype;  ///< empty: each dtype's own
  std::string device = "cpu";
  int threads = 0;  ///< 0: all of the machine's
  std::int64_t offset = 0;
  std::int64_t row_stride = 0;
  double seconds = 0.6;  ///< to spend on each case
  std::string json;
  bool help = false;
};

/// Fills `options`; returns a sentence about the first mistake, or nothing.
std::string parse(int count, char** arguments, Options* options);

/// What --help prints.
std::string usage();

/// The shapes of shapes.csv.
std::vector<Shape> listed_shapes();

}  // namespace fusednorm::bench
