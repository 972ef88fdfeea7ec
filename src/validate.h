// The checks that every backend makes before it writes anything.
#pragma once

#include "fusednorm/problem.h"
#include "fusednorm/status.h"

namespace fusednorm {

/// Operation, sizes, strides, dtypes and eps, which need no addresses. `newest` is the last
/// operation of the enumeration that the backend implements.
Status validate(const ForwardProblem& problem, Operation newest = Operation::layer_norm);
Status validate(const BackwardProblem& problem, Operation newest = Operation::layer_norm);

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
