// The checks that every backend makes before it writes anything.
#pragma once

#include "fusednorm/problem.h"
#include "fusednorm/status.h"

namespace fusednorm {

/// Sizes, strides, dtypes and eps, which need no addresses.
Status validate(const ForwardProblem& problem);
Status validate(const BackwardProblem& problem);

/// Addresses: present where the problem has the array, aligned to the element, not overlapping; and
/// a workspace of at least `needed` bytes, apart from all of them.
Status validate(const ForwardProblem& problem, const ForwardBuffers& buffers,
                const Workspace& workspace, std::size_t needed);
Status validate(const BackwardProblem& problem, const BackwardBuffers& buffers,
                const Workspace& workspace, std::size_t needed);

/// A row stride with `packed` resolved.
constexpr std::int64_t resolved_stride(std::int64_t stride, std::int64_t cols) {
  return stride == packed ? cols : stride;
}

}  // namespace fusednorm
