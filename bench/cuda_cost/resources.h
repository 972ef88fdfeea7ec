// SPDX-License-Identifier: Apache-2.0
// What ptxas makes of the kernels in this program: registers, spills, and how many warps a
// multiprocessor holds.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "recorded.h"

namespace fusednorm::cost {

struct Resources {
  int registers = 0;
  int spill_bytes = 0;
  int stack_bytes = 0;
};

/// Runs ptxas on the PTX in this program.
class Assembler {
 public:
  Assembler();

  /// Assembles kernel `name` for sm_`architecture`, or every kernel when `name` is empty. Returns a
  /// kernel's name and resources each; empty, with a sentence in `error`, when ptxas cannot be run.
  std::vector<std::pair<std::string, Resources>> assemble(const std::string& name, int architecture,
                                                          std::string* error) const;

  /// Registers a thread of kernel `name`; 0 when ptxas cannot be run. Runs ptxas once a kernel and
  /// architecture.
  int registers_of(const std::string& name, int architecture);

 private:
  struct Module {
    int target;
    std::string text;
  };

  /// The PTX a driver would take for `architecture`: the newest that is not newer. 0: none.
  int best_target(int architecture) const;

  std::vector<Module> modules_;
  std::map<std::pair<std::string, int>, int> known_registers_;
};

/// Blocks of `threads` threads that a multiprocessor holds, by registers and threads.
int resident_blocks(const Resources& resources, int threads, int architecture);

void print_resources(const Row& row, const Assembler& assembler);

/// Assembles every kernel in this program for every architecture; prints those that spill or use
/// local memory and a summary. Returns the exit code.
int check_spills(const std::vector<int>& on, const Assembler& assembler);

/// Architectures that the library is built for.
inline constexpr int architectures[] = {75, 80, 86, 89, 90, 100, 120};

}  // namespace fusednorm::cost
