// SPDX-License-Identifier: Apache-2.0
// What a counted cost leaves of the memory bandwidth of real devices.
#pragma once

#include "recorded.h"
#include "resources.h"

namespace fusednorm::cost {

void print_bounds(const Row& row, Assembler* assembler);

}  // namespace fusednorm::cost
