// What lies in a plan's workspace, in bytes from its (aligned) start.
#pragma once

#include <cstdint>

#include "fusednorm/cuda.h"
#include "geometry.h"

namespace fusednorm::cuda {

inline constexpr std::size_t workspace_alignment = 32;

inline std::size_t align_up(std::size_t bytes) {
  return (bytes + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
}

inline std::byte* aligned(void* workspace) {
  return reinterpret_cast<std::byte*>(align_up(reinterpret_cast<std::uintptr_t>(workspace)));
}

/// Room to align the caller's address included; nothing where nothing is needed.
inline std::size_t with_slack(std::size_t bytes) {
  return bytes == 0 ? 0 : bytes + workspace_alignment - 1;
}

inline Geometry forward_geometry(const ForwardProblem& p) {
  return geometry_of(p.cols, static_cast<int>(size_of(p.x_dtype)), forward_lane_registers);
}

/// A backward from y has no registers to spare for longer lanes.
inline Geometry backward_geometry(const BackwardProblem& p) {
  return geometry_of(p.cols, static_cast<int>(size_of(p.x_dtype)), backward_lane_registers,
                     p.source == Source::x);
}

/// Bytes of a lane's part of a row in the compute type.
inline int tile_bytes_of(const Geometry& g, DType x_dtype) {
  return g.vectors * g.vector_elements * static_cast<int>(size_of(compute_dtype(x_dtype)));
}

/// Whether a backward's lanes hold a quarter more than usual. They have no registers for the kernel
/// of whole rows, and run the one for all others.
inline bool stretched(const Geometry& g, DType x_dtype) {
  return tile_bytes_of(g, x_dtype) > 4 * backward_lane_registers;
}

/// Dynamic shared memory of forward_wide: beta where rows are not whole segments, and gamma where
/// lanes are stretched.
inline std::size_t forward_wide_shared(const ForwardProblem& p, int threads, bool whole) {
  const int tile_bytes = tile_bytes_of(forward_geometry(p), p.x_dtype);
  const bool stretched = tile_bytes > 4 * forward_lane_registers;
  return static_cast<std::size_t>(threads) * tile_bytes * (stretched ? 2 : whole ? 0 : 1);
}

/// Dynamic shared memory of the backward kernels that hold rows in registers: beta from y, gamma
/// where registers do not suffice, and half the groups' sums of dgamma and dbeta. A narrow block's
/// groups are its warps.
inline std::size_t backward_shared(const BackwardProblem& p, int threads, int groups, bool whole) {
  const Geometry g = backward_geometry(p);
  const int tile_bytes = tile_bytes_of(g, p.x_dtype);
  const int kept = (p.source == Source::y ? 1 : 0) +
                   (stretched(g, p.x_dtype) || (g.segments > 1 && !whole) ? 1 : 0);
  return static_cast<std::size_t>(threads) * tile_bytes * kept +
         static_cast<std::size_t>(groups / 2) * (threads / groups) * 2 * tile_bytes;
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
  std::byte* partials = nullptr;  ///< dgamma [partials, cols], then dbeta
  std::byte* row_sums = nullptr;  ///< strips: [rows, segments] pairs
  std::size_t bytes = 0;

  BackwardLayout(const BackwardPlan& plan, void* workspace) {
    const BackwardProblem& p = plan.problem;
    const std::size_t element = size_of(compute_dtype(p.x_dtype));
    const std::size_t sums =
        align_up(2 * static_cast<std::size_t>(plan.partials * p.cols) * element);
    std::size_t pairs = 0;
    if (plan.launch.kernel == Kernel::split) {
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
