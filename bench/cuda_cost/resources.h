// SPDX-License-Identifier: Apache-2.0
// What ptxas makes of the kernels in this program: registers, spills, and how many warps a
// multiprocessor holds.
#pragma once

#include <string>
#include <vector>

#include "recorded.h"

namespace fusednorm::cost {

struct Resources {
  int registers = 0;
  int spill_bytes = 0;
  int stack_bytes = 0;
  int shared_bytes = 0;
};

/// Assembles kernel `name` for sm_`architecture`, or every kernel when `name` is empty, from the
/// PTX in this program. Returns a kernel's name and resources each; empty, with a sentence in
/// `error`, when ptxas cannot be run.
std::vector<std::pair<std::string, Resources>> assemble(const std::string& name, int architecture,
                                                        std::string* error);

/// Registers a thread of kernel `name`; 0 when ptxas cannot be run. Asked of ptxas once.
int registers_of(const std::string& name, int architecture);

/// Blocks of `threads` threads that a multiprocessor holds, by registers and threads.
int resident_blocks(const Resources& resources, int threads, int architecture);

void print_resources(const Row& row);

/// Assembles every kernel in this program for every architecture; prints those that spill or use
/// local memory and a summary. Returns the exit code.
int check_spills(const std::vector<int>& on);

/// Architectures that the library is built for.
inline constexpr int architectures[] = {75, 80, 86, 89, 90, 100, 120};

}  // namespace fusednorm::cost
