// SPDX-License-Identifier: Apache-2.0
// From y alone nothing is known of x where gamma + gamma_offset is zero: that is refused.
#pragma once

#include "fusednorm/problem.h"
#include "fusednorm/status.h"

namespace fusednorm::cpu {

Status check_no_zero(const BackwardProblem& problem, const void* gamma);

}  // namespace fusednorm::cpu
