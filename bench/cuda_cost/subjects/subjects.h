// SPDX-License-Identifier: Apache-2.0
// Kernels of known structure, written for the model of time alone: it is held against what is
// published for kernels of the same structure.
#pragma once

#include <string>
#include <vector>

namespace fusednorm::cost {

struct Shape {
  int rows, cols;
  bool bf16;
};

/// A kernel or two; `launch` runs them once on arrays of its own and returns an error.
struct Subject {
  const char* name;
  const char* structure;
  double streams;  ///< arrays of rows x cols that must be read or written at least
  std::string (*launch)(const Shape& shape, int multiprocessors);
};

std::string launch_copy(const Shape& shape, int multiprocessors);
std::string launch_welford_forward(const Shape& shape, int multiprocessors);
std::string launch_registers_forward(const Shape& shape, int multiprocessors);
std::string launch_two_pass_backward(const Shape& shape, int multiprocessors);
std::string launch_split_backward(const Shape& shape, int multiprocessors);

inline constexpr Subject subjects[] = {
    {"copy", "a thread copies four 16-byte vectors", 2, launch_copy},
    {"welford forward",
     "a block of 128 threads a row, vectors of 4 elements, Welford, x read twice", 2,
     launch_welford_forward},
    {"registers forward",
     "a warp or block a row, blocks that stay, 16-byte vectors, row in registers", 2,
     launch_registers_forward},
    {"two-pass backward", "dx: a block a row, x and dy read twice; dgamma, dbeta: a second launch",
     3, launch_two_pass_backward},
    {"split backward", "the same, with the rows of the second launch shared out, and a third", 3,
     launch_split_backward},
};

}  // namespace fusednorm::cost
