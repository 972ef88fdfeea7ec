// SPDX-License-Identifier: Apache-2.0
// The geometry of a problem, the tile of the kernel that it gets, and the dynamic shared memory
// that this kernel asks for.
#pragma once

#include "fusednorm/problem.h"
#include "plan/geometry.h"
#include "plan/sizes.h"

namespace fusednorm::cuda {

static_assert(most_stretched_warps * warp_lanes == stretched_threads);

inline int element_of(DType dtype) {
  return static_cast<int>(size_of(dtype));
}

/// What the kernels of whole rows are made for.
inline bool is_plain(const ForwardProblem& p) {
  return !p.has_residual && p.y_dtype == p.x_dtype && p.rounding == Rounding::once;
}
inline bool is_plain(const BackwardProblem& p) {
  return p.has_dy && p.y_dtype == row_dtype(p) && p.x_dtype == row_dtype(p) && !p.has_ds &&
         !p.want_dresidual;
}

inline Geometry forward_geometry(const ForwardProblem& p) {
  return geometry_of(p.cols, element_of(row_dtype(p)), forward_lane_registers);
}

/// A backward from y has no registers to spare for longer lanes.
inline Geometry backward_geometry(const BackwardProblem& p) {
  return geometry_of(p.cols, element_of(row_dtype(p)), backward_lane_registers,
                     p.source == Source::x);
}

/// Bytes of `vectors` vectors of a lane in the compute type.
inline int tile_bytes(int vectors, DType row) {
  return vectors * (vector_bytes / element_of(row)) * element_of(compute_dtype(row));
}

/// Whether a lane of this many bytes leaves no registers for gamma and beta in a forward pass.
inline bool stretched(int bytes, int lane_registers) {
  return bytes > 4 * lane_registers;
}

/// Vectors of the kernel's tile: those of the geometry, or room for more.
inline int narrow_tile_vectors(const Geometry& g, DType row, int longest) {
  return roomy_kernels(element_of(row)) && g.lanes == warp_lanes ? longest : g.vectors;
}
inline int wide_tile_vectors(const Geometry& g, DType row, bool clustered, int longest) {
  return roomy_kernels(element_of(row)) || clustered ? longest : g.vectors;
}
inline int forward_narrow_vectors(const ForwardProblem& p) {
  const DType row = row_dtype(p);
  return narrow_tile_vectors(forward_geometry(p), row,
                             longest_vectors(element_of(row), forward_lane_registers, true));
}
/// Of ragged rows of clusters: rows with longer lanes are never given to clusters in a forward
/// pass.
inline int forward_room(DType row) {
  const int element = element_of(row);
  return roomy_kernels(element) ? longest_vectors(element, forward_lane_registers, true)
                                : widest_vectors(element, forward_lane_registers);
}
inline int backward_room(const BackwardProblem& p) {
  return longest_vectors(element_of(row_dtype(p)), backward_lane_registers, p.source == Source::x);
}

/// Narrow rows of one parameter group: gamma and beta, once a block. Of several: for each warp what
/// is not kept in registers.
inline std::size_t forward_narrow_shared(const ForwardProblem& p) {
  const DType row = row_dtype(p);
  const int bytes = tile_bytes(forward_narrow_vectors(p), row);
  const int kept = narrow_keeps_gamma(bytes / 4, size_of(row))  ? 2
                   : narrow_keeps_beta(bytes / 4, size_of(row)) ? 1
                                                                : 0;
  const int tiles = p.param_groups == 1 ? 2 * warp_lanes : kept * narrow_threads;
  return static_cast<std::size_t>(tiles) * bytes;
}

inline int forward_wide_vectors(const ForwardProblem& p, bool clustered, bool whole) {
  const Geometry g = forward_geometry(p);
  const DType row = row_dtype(p);
  return whole ? g.vectors : wide_tile_vectors(g, row, clustered, forward_room(row));
}

/// Beta where rows are not whole segments, and gamma where lanes are stretched.
inline std::size_t forward_wide_shared(const ForwardProblem& p, int threads, bool clustered,
                                       bool whole) {
  const DType row = row_dtype(p);
  const int vectors = forward_wide_vectors(p, clustered, whole);
  const int bytes = tile_bytes(vectors, row);
  const bool gamma =
      stretched(bytes, forward_lane_registers) || wide_keeps_gamma(size_of(row), clustered, whole);
  const bool beta = !whole || wide_keeps_beta(size_of(row), vectors, clustered);
  const int arrays = gamma ? 2 : beta ? 1 : 0;
  return static_cast<std::size_t>(threads) * bytes * arrays;
}

/// A lane's tile in the backward kernels that hold rows in registers.
inline int backward_vectors(const BackwardProblem& p, bool clustered, bool whole) {
  const DType row = row_dtype(p);
  const Geometry g = backward_geometry(p);
  const int room = backward_room(p);
  return g.segments == 1 ? narrow_tile_vectors(g, row, room)
         : whole         ? g.vectors
                         : wide_tile_vectors(g, row, clustered, room);
}
inline int backward_tile_bytes(const BackwardProblem& p, bool clustered, bool whole) {
  return tile_bytes(backward_vectors(p, clustered, whole), row_dtype(p));
}

/// Beta from y; then gamma where registers do not suffice, or half the groups' sums of dgamma and
/// dbeta, which take gamma's place and no more. A narrow block's groups are its warps.
inline std::size_t backward_shared(const BackwardProblem& p, int threads, int groups,
                                   bool clustered, bool whole) {
  const int bytes = backward_tile_bytes(p, clustered, whole);
  const bool ragged = backward_geometry(p).segments > 1 && !whole;
  const std::size_t tiles = static_cast<std::size_t>(threads) * bytes;
  const std::size_t sums = static_cast<std::size_t>(groups / 2) * (threads / groups) * 2 * bytes;
  return (p.source == Source::y ? tiles : 0) +
         (ragged || backward_keeps_gamma(bytes / 4) ? tiles : sums);
}

}  // namespace fusednorm::cuda
