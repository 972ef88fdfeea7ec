// SPDX-License-Identifier: Apache-2.0
// What lies in a plan's workspace.
#pragma once

#include "cpu/dispatch/kernels.h"
#include "cpu/plan/policy.h"
#include "cpu/run/workspace.h"
#include "fusednorm/cpu.h"

namespace fusednorm::cpu {

/// Where part `index` of `count` things in `parts` even parts begins.
constexpr std::int64_t split(std::int64_t count, std::int64_t parts, std::int64_t index) {
  const std::int64_t rest = count % parts;
  return count / parts * index + (index < rest ? index : rest);
}

/// Rows that stay in `room` bytes of the shared cache between the two passes of shared rows.
inline std::int64_t rows_per_group(std::int64_t rows, std::int64_t row_bytes, std::int64_t room) {
  const std::int64_t fit = room / (row_bytes > 0 ? row_bytes : 1);
  return fit < 1 ? 1 : fit > rows ? rows : fit;
}

/// Room for a parameter in the compute type and the layout of any kernel's lanes.
inline std::int64_t expanded_bytes(std::int64_t cols, DType x_dtype) {
  return policy::room(cols) * static_cast<std::int64_t>(size_of(compute_dtype(x_dtype)));
}

/// Whether forward reads 16-bit gamma and beta as the caller has them, instead of expanding them
/// once a run. That is 4 instructions more a step, and pays where the expanded ones would fill the
/// first-level cache: 3 to 15 %, and 40 % for one long row.
inline bool as_given(const ForwardProblem& p) {
  return size_of(p.x_dtype) == 2 && p.param_dtype == p.x_dtype && p.has_gamma && p.has_beta &&
         2 * expanded_bytes(p.cols, p.x_dtype) > policy::first_level_bytes;
}

static_assert(2 * policy::room(policy::max_constants) * 4 <= policy::first_level_bytes,
              "rows that are taken whole are read with expanded parameters");

struct ForwardLayout {
  std::int64_t group = 0;      ///< rows worked on together when threads share rows
  Moments* moments = nullptr;  ///< [2, group, segments]
  void* gamma = nullptr;       ///< expanded; null: read as given, or expanded chunk by chunk
  void* beta = nullptr;

  ForwardLayout(const ForwardPlan& plan, Carver& carver) {
    const ForwardProblem& p = plan.problem;
    if (plan.schedule != Schedule::segments) {
      if (!plan.kernels->expand || p.rows == 0 || as_given(p)) return;
      const auto bytes = static_cast<std::size_t>(expanded_bytes(p.cols, p.x_dtype));
      gamma = carver.take_bytes(bytes);
      beta = carver.take_bytes(bytes);
      return;
    }
    group = std::min(policy::max_shared_rows,
                     rows_per_group(p.rows, p.cols * static_cast<std::int64_t>(size_of(p.x_dtype)),
                                    plan.device.cache_shared / policy::forward_group_share));
    moments = carver.take<Moments>(2 * group * segments_of(p.cols, p.x_dtype).count);
  }
};

struct BackwardLayout {
  std::int64_t pitch = 0;         ///< elements between arrays of column sums
  std::int64_t group = 0;         ///< rows worked on together when threads share rows
  bool several_sums = false;      ///< a block's rows need more than one plain sum
  GradientSums* sums = nullptr;   ///< [2, group, segments]
  std::byte* partials = nullptr;  ///< dgamma [row_blocks, pitch], then dbeta
  /// A task's plain sums, then high and low parts, for dgamma and dbeta: [6, pitch].
  std::byte* scratch = nullptr;

  void* gamma = nullptr;  ///< expanded; null: read as given, or expanded chunk by chunk
  void* beta = nullptr;

  BackwardLayout(const BackwardPlan& plan, Carver& carver) {
    const BackwardProblem& p = plan.problem;
    const auto element = static_cast<std::int64_t>(size_of(compute_dtype(p.x_dtype)));
    const std::int64_t rows_per_block =
        plan.row_blocks > 0 ? (p.rows - 1) / plan.row_blocks + 1 : 0;
    const bool want_sums = p.want_dgamma || p.want_dbeta, takes_given = plan.kernels->takes_given;
    several_sums = rows_per_block > policy::rows_per_sum;
    pitch = policy::room(p.cols);
    if (p.rows > 0 && plan.schedule != Schedule::segments) {
      const auto bytes = static_cast<std::size_t>(expanded_bytes(p.cols, p.x_dtype));
      if (!takes_given || !p.has_gamma) gamma = carver.take_bytes(bytes);
      if (p.source == Source::y && (!takes_given || !p.has_beta)) beta = carver.take_bytes(bytes);
    }
    if (plan.schedule == Schedule::segments) {
      const auto row_bytes =
          p.cols * static_cast<std::int64_t>(size_of(p.x_dtype) + size_of(p.y_dtype));
      // In one group, column sums live and die in the first-level cache: 1.2 to 1.7 times as fast,
      // even where the rows come from memory twice.
      group =
          p.rows <= policy::max_shared_rows
              ? p.rows
              : std::min(policy::max_shared_rows,
                         rows_per_group(p.rows, row_bytes,
                                        plan.device.cache_shared / policy::backward_group_share));
      const Segments segments = segments_of(p.cols, p.x_dtype);
      sums = carver.take<GradientSums>(2 * group * segments.count);
      // With one group a segment's sums live and die on its task's stack.
      if (want_sums && (group < p.rows || several_sums)) {
        pitch = segments.count * policy::room(segments.length);
        scratch = static_cast<std::byte*>(
            carver.take_bytes(static_cast<std::size_t>((several_sums ? 6 : 2) * pitch * element)));
      }
    } else if (want_sums) {
      partials = static_cast<std::byte*>(
          carver.take_bytes(static_cast<std::size_t>(2 * plan.row_blocks * pitch * element)));
      if (several_sums) {
        scratch = static_cast<std::byte*>(
            carver.take_bytes(static_cast<std::size_t>(plan.tasks * 6 * pitch * element)));
      }
    }
  }
};

}  // namespace fusednorm::cpu
