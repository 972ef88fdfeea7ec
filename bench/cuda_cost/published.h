// SPDX-License-Identifier: Apache-2.0
// The model of time beside what is published for kernels of the same structure.
#pragma once

#include <string>

namespace fusednorm::cost {

class Assembler;

/// Prints predicted beside published, share of the peak bandwidth, and beside cycles of a
/// cycle-level simulation, of the subjects with `name` in theirs; returns the exit code.
int print_published(const std::string& name, Assembler* assembler);

}  // namespace fusednorm::cost
