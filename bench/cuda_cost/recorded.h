// SPDX-License-Identifier: Apache-2.0
// Figures kept in the repository, so that a change that makes one worse is seen.
#pragma once

#include <string>
#include <vector>

#include "count.h"

namespace fusednorm::cost {

struct Row {
  Problem problem;
  Cost cost;
};

/// Counted when no problem is named: both passes of the shapes of the lists "peer" and "cost", and
/// once off alignment. The order is part of what is recorded: which addresses the emulated device
/// hands out depends on what was freed before, and l2_reads_over_minimum on the addresses.
std::vector<Problem> recorded_problems();

/// Both passes of the widths of real models, in f32 and bf16: the list "width". Their rows are few,
/// for a device of width_multiprocessors: 32 a multiprocessor, as 4224 rows are on an H100.
std::vector<Problem> width_problems();
inline constexpr int width_multiprocessors = 16;

bool write_json(const std::string& path, const std::vector<Row>& rows, const Device& device);
bool write_recorded(const std::string& path, const std::vector<Row>& rows, const Device& device);

/// Prints what is worse than recorded, or missing; returns the exit code.
int compare(const std::string& path, const std::vector<Row>& rows, const Device& device);

}  // namespace fusednorm::cost
