// SPDX-License-Identifier: Apache-2.0
// What a counted cost leaves of the memory bandwidth of real devices.
#pragma once

#include "recorded.h"

namespace fusednorm::cost {

void print_bounds(const Row& row);

}  // namespace fusednorm::cost
