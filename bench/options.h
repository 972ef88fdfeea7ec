// SPDX-License-Identifier: Apache-2.0
// The command line of fusednorm-bench.
#pragma once

#include <string>
#include <vector>

#include "problems/problem.h"

namespace fusednorm::bench {

struct Options {
  std::vector<problems::Problem> problems;
  std::string device = "cpu";
  int threads = 0;              ///< 0: all of the machine's
  double seconds = 0.6;         ///< to spend on each problem
  bool in_turns = false;        ///< a round of each problem in turns, not problem after problem
  std::string instruction_set;  ///< by its name; empty: the best
  std::string json;
  bool help = false;
};

/// Fills `options`; returns a sentence about the first mistake, or nothing.
std::string parse(int count, char** arguments, Options* options);

/// What --help prints.
std::string usage();

}  // namespace fusednorm::bench
