// SPDX-License-Identifier: Apache-2.0
// Runs a problem on an emulated device of any kind.
#pragma once

#include <string>

#include "problems/problem.h"

namespace fusednorm::cost {

using problems::Problem;

struct Device {
  int compute_capability = 90;
  int multiprocessors = 132;
};

/// What the plan says of itself.
struct PlanFacts {
  std::string explanation;
  int load_bytes_per_thread = 0;  ///< issued before the first is used
};

class Assembler;

/// Makes the emulated device this one, its kernels with the registers that ptxas gives them; it
/// asks `assembler` for these until another device is played. Returns an error, such as that the
/// program has a real libcudart.
std::string play(const Device& device, Assembler* assembler);

/// Runs `problem` once on the device that is played; the emulator's launches are those of the
/// problem afterwards. Returns an error.
std::string run(const Problem& problem, PlanFacts* facts);

}  // namespace fusednorm::cost
