// SPDX-License-Identifier: Apache-2.0
// Backward where threads share rows, segment by segment.
#pragma once

#include "cpu/run/backward_arrays.h"

namespace fusednorm::cpu {

void share_rows(const BackwardRun& run, ParallelFor parallel_for);

}  // namespace fusednorm::cpu
