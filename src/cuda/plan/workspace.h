// SPDX-License-Identifier: Apache-2.0
// What lies in a plan's workspace, in bytes from its (aligned) start.
#pragma once

#include <cstdint>

#include "fusednorm/cuda.h"
#include "plan/shared_memory.h"

namespace fusednorm::cuda {

inline constexpr std::size_t workspace_alignment = 32;

inline std::size_t align_up(std::size_t bytes) {
  return (bytes + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
}

inline std::byte* aligned(void* workspace) {
  return reinterpret_cast<std::byte*>(align_up(reinterpret_cast<std::uintptr_t>(workspace)));
}

/// No workspace has more; what would, a plan refuses.
inline constexpr std::size_t most_workspace = std::size_t{1} << 56;

/// a * b, or most_workspace where that is less: many parameter groups of many rows each, of which
/// few are used, can ask for more partials than can be counted.
inline std::size_t bounded_product(std::size_t a, std::size_t b) {
  return b != 0 && a > most_workspace / b ? most_workspace : a * b;
}

/// Room to align the caller's address included; nothing where nothing is needed.
inline std::size_t with_slack(std::size_t bytes) {
  return bytes == 0 ? 0 : bytes + workspace_alignment - 1;
}

/// Split rows: four numbers a segment.
inline std::size_t forward_workspace(const ForwardPlan& plan) {
  if (plan.launch.kernel != Kernel::split) return 0;
  const ForwardProblem& p = plan.problem;
  const Geometry g = forward_geometry(p);
  return with_slack(static_cast<std::size_t>(p.rows * g.segments) * 4 *
                    size_of(compute_dtype(p.x_dtype)));
}

struct BackwardLayout {
  std::byte* partials = nullptr;  ///< dgamma [groups * partials, cols], then dbeta
  std::byte* row_sums = nullptr;  ///< strips: [rows, segments] pairs
  std::size_t bytes = 0;

  BackwardLayout(const BackwardPlan& plan, void* workspace) {
    const BackwardProblem& p = plan.problem;
    const std::size_t element = size_of(compute_dtype(p.x_dtype));
    const std::size_t sums =
        align_up(bounded_product(bounded_product(static_cast<std::size_t>(p.param_groups),
                                                 static_cast<std::size_t>(plan.partials)),
                                 2 * element * static_cast<std::size_t>(p.cols)));
    std::size_t pairs = 0;
    if (plan.launch.kernel == Kernel::strips) {
      const Geometry g = backward_geometry(p);
      pairs = static_cast<std::size_t>(p.rows * g.segments) * 2 * element;
    }
    if (workspace) {
      if (sums > 0) partials = aligned(workspace);
      if (pairs > 0) row_sums = aligned(workspace) + sums;
    }
    bytes = with_slack(sums + pairs);
  }
};

}  // namespace fusednorm::cuda
