// SPDX-License-Identifier: Apache-2.0
// The checks that every backend makes before it writes anything.
#pragma once

#include "fusednorm/problem.h"
#include "fusednorm/status.h"
#include "row_layout.h"

namespace fusednorm {

/// Everything that needs no addresses: operation, sizes, strides, dtypes, numbers and which arrays
/// go together.
Status validate(const ForwardProblem& problem);
Status validate(const BackwardProblem& problem);

/// Addresses: present where the problem has the array, aligned to the element, not overlapping; and
/// a workspace of at least `needed` bytes, apart from all of them. The problem is a valid one.
Status validate(const ForwardProblem& problem, const ForwardBuffers& buffers,
                const Workspace& workspace, std::size_t needed);
Status validate(const BackwardProblem& problem, const BackwardBuffers& buffers,
                const Workspace& workspace, std::size_t needed);

}  // namespace fusednorm
