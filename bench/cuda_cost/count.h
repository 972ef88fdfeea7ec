// SPDX-License-Identifier: Apache-2.0
// Counts what a problem costs on an emulated device: exact figures, the same on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emulated_run.h"

namespace fusednorm::cost {

struct Cost {
  std::string error;  ///< empty when counted
  std::string explanation;
  std::vector<std::string> kernels;  ///< mangled names, in the order of launching
  int launches = 0;
  std::int64_t blocks = 0;    ///< of the first launch
  int threads_per_block = 0;  ///< of the first launch
  double instructions = 0;    ///< thread instructions an element
  double issue_slots = 0;     ///< warp instructions x 32 an element
  double dram_bytes_over_minimum =
      0;  ///< 32 x (sectors first loaded + sectors stored) over the least possible
  double l2_reads_over_minimum =
      0;  ///< 32 x sectors that loads do not find in the L1 over the bytes that must be read
  double sectors_per_request = 0;  ///< of global memory
  double shared_conflicts = 0;     ///< wavefronts over the ideal, minus one
  double barriers_per_row = 0;     ///< arrivals of warps
  double shuffles_per_row = 0;     ///< warp instructions
  double dram_bytes = 0;
  double warp_instructions = 0;
  int load_bytes_per_thread = 0;  ///< issued before the first is used
  /// The rest is bytes_in_flight's of model.h, 0 before it was asked.
  double bytes_in_flight = 0;         ///< a multiprocessor, on average while rows are left to load
  double bytes_in_flight_needed = 0;  ///< by Little's law, on the device of that architecture
  double in_flight_over_needed = 0;   ///< for a bandwidth that loads alone would fill
  double in_flight_over_reads = 0;    ///< for the part of it that loads have in this problem
};

/// Runs `problem` once on the emulated device. An error when the program has a real libcudart.
Cost count(const Problem& problem, const Device& device, Assembler* assembler);

}  // namespace fusednorm::cost
