// SPDX-License-Identifier: Apache-2.0
// What lies in a plan's workspace.
#pragma once

#include "cpu/dispatch/kernels.h"
#include "cpu/plan/policy.h"
#include "cpu/plan/row_order.h"
#include "cpu/run/workspace.h"
#include "fusednorm/cpu.h"

namespace fusednorm::cpu {

/// Where part `index` of `count` things in `parts` even parts begins.
constexpr std::int64_t split(std::int64_t count, std::int64_t parts, std::int64_t index) {
  const std::int64_t rest = count % parts;
  return count / parts * index + (index < rest ? index : rest);
}

/// Rows that stay in `room` bytes of the shared cache between the two passes of shared rows.
inline std::int64_t shared_group(std::int64_t rows, std::int64_t row_bytes, std::int64_t room) {
  const std::int64_t fit = room / (row_bytes > 0 ? row_bytes : 1);
  return fit < 1 ? 1 : fit > rows ? rows : fit;
}

inline std::int64_t bytes_of(DType dtype) {
  return static_cast<std::int64_t>(size_of(dtype));
}

/// The dtype of y and dy in kernels: that of f32 and f64 rows themselves. A narrower y is an add
/// pass away.
constexpr DType kernel_y_dtype(DType row, DType y) {
  return size_of(row) == 2 ? y : row;
}

/// Room for a parameter in the compute type and the layout of any kernel's lanes.
inline std::int64_t expanded_bytes(std::int64_t cols, DType x_dtype) {
  return policy::room(cols) * bytes_of(compute_dtype(x_dtype));
}

/// Elements from one row to the next of rows kept aside: whole cache lines of any dtype.
constexpr std::int64_t kept_stride(std::int64_t cols) {
  return policy::padded(cols);
}

/// Whether forward reads 16-bit gamma and beta as the caller has them, instead of expanding them
/// once a run. That is 4 instructions more a step, and pays where the expanded ones would fill the
/// first-level cache: 3 to 15 %, and 40 % for one long row. An absent beta, which RMSNorm has, is
/// then a row of 16-bit zeros; threads that share rows expand it chunk by chunk.
inline bool as_given(const ForwardPlan& plan) {
  const ForwardProblem& p = plan.problem;
  return size_of(row_dtype(p)) == 2 && p.param_dtype == row_dtype(p) && p.has_gamma &&
         (p.has_beta || plan.schedule != Schedule::segments) && p.gamma_offset == 0 &&
         p.rounding == Rounding::once &&
         2 * expanded_bytes(p.cols, p.x_dtype) > policy::first_level_bytes;
}

static_assert(2 * policy::room(policy::max_constants) * 4 <= policy::first_level_bytes,
              "rows that are taken whole are read with expanded parameters");

/// Expanded gamma and beta; null: read as given, or expanded chunk by chunk.
struct ExpandedParameters {
  std::byte* gamma = nullptr;
  std::byte* beta = nullptr;
  std::int64_t row_bytes = 0;
  bool own = false;  ///< one row a task, of the group that it works on; otherwise one a group

  void take(Carver& carver, bool wants_gamma, bool wants_beta, const RowOrder& order,
            std::int64_t bytes, std::int64_t tasks) {
    row_bytes = bytes;
    own = order.by_group();
    const std::int64_t count = own ? tasks : order.groups;
    if (wants_gamma) gamma = carver.take<std::byte>(count * bytes);
    if (wants_beta) beta = carver.take<std::byte>(count * bytes);
  }
};

/// Rows that are kept between an add pass and the passes of a norm: some arrays of them a task.
struct KeptRows {
  std::int64_t rows = 0;   ///< that are taken together; 0: all of a run
  std::int64_t bytes = 0;  ///< of an array

  /// Arrays of `elements` bytes a column, in all; `largest` of them in one.
  KeptRows() = default;
  KeptRows(std::int64_t cols, std::int64_t elements, std::int64_t largest) {
    const std::int64_t row_bytes = kept_stride(cols) * elements;
    rows = std::clamp<std::int64_t>(policy::kept_bytes / std::max<std::int64_t>(row_bytes, 1), 1,
                                    policy::rows_per_sum);
    bytes = rows * kept_stride(cols) * largest;
  }
};

struct ForwardLayout {
  RowOrder order;
  std::int64_t group = 0;      ///< rows worked on together when threads share rows
  Moments* moments = nullptr;  ///< [2, group, segments]
  ExpandedParameters parameters;
  std::byte* zeros = nullptr;  ///< beta where it is absent and parameters are read as given
  std::int64_t zero_bytes = 0;
  KeptRows kept;
  std::byte* sums = nullptr;  ///< kept rows of a task; null: read from the stored sum
  std::byte* y = nullptr;     ///< y in the dtype of rows, kept rows of a task

  ForwardLayout(const ForwardPlan& plan, Carver& carver) : order(plan.problem) {
    const ForwardProblem& p = plan.problem;
    const DType row = row_dtype(p);
    if (p.rows == 0 || p.cols == 0) return;
    if (plan.schedule == Schedule::segments) {
      group = std::min(policy::max_shared_rows,
                       shared_group(p.rows, p.cols * bytes_of(row),
                                    plan.device.cache_shared / policy::forward_group_share));
      moments = carver.take<Moments>(2 * group * segments_of(p.cols, row).count);
      return;
    }
    if (as_given(plan)) {
      zero_bytes = p.has_beta ? 0 : p.cols * bytes_of(p.param_dtype);
      if (zero_bytes > 0) zeros = carver.take<std::byte>(zero_bytes);
    } else {
      const bool takes_given = plan.kernels->takes_given;
      parameters.take(carver, !takes_given || (p.has_gamma && p.gamma_offset != 0), !takes_given,
                      order, expanded_bytes(p.cols, row), plan.tasks);
    }
    if (!p.has_residual && !plan.round_y) return;
    const bool keeps = p.has_residual && plan.streaming_stores &&
                       kept_stride(p.cols) * bytes_of(row) <= policy::longest_kept_bytes;
    const std::int64_t of_sum = p.has_residual ? bytes_of(row) : 0,
                       of_y = plan.round_y ? bytes_of(row) : 0;
    kept = KeptRows(p.cols, of_sum + of_y, std::max(of_sum, of_y));
    if (keeps) sums = carver.take<std::byte>(plan.tasks * kept.bytes);
    if (plan.round_y) y = carver.take<std::byte>(plan.tasks * kept.bytes);
  }
};

/// Whether kernels add ds to dx: those of 16-bit rows do, and of f32 and f64 rows the loop that
/// training uses.
inline bool adds_ds(const BackwardPlan& plan) {
  const BackwardProblem& p = plan.problem;
  return size_of(row_dtype(p)) == 2 ||
         (plan.schedule != Schedule::segments && p.source == Source::x && p.has_dy &&
          (p.want_dgamma || p.want_dbeta));
}

/// Whether dx leaves the kernel in the compute type, for an add pass that writes dx and dresidual.
inline bool keeps_dx(const BackwardPlan& plan) {
  const BackwardProblem& p = plan.problem;
  const bool wants = p.want_dx || p.want_dresidual;
  return wants && ((p.has_ds && !adds_ds(plan)) || (p.want_dx && p.x_dtype != row_dtype(p)));
}

struct BackwardLayout {
  RowOrder order;
  std::int64_t pitch = 0;        ///< elements between arrays of column sums
  std::int64_t group = 0;        ///< rows worked on together when threads share rows
  bool several_sums = false;     ///< a block's rows need more than one plain sum
  std::int64_t live = 1;         ///< groups of parameters whose sums a block of rows has
  GradientSums* sums = nullptr;  ///< [2, group, segments]
  /// dgamma [partial_count, pitch], then dbeta. An array for each block and group, in this order;
  /// where rows are taken by group, for each group and block, or if that is one, for each task.
  std::byte* partials = nullptr;
  std::int64_t partial_count = 0;
  /// A task's plain sums, then high and low parts, for dgamma and dbeta: [6, live, pitch].
  std::byte* scratch = nullptr;
  ExpandedParameters parameters;
  KeptRows kept;
  std::byte* dy = nullptr;      ///< in the compute type, kept rows of a task
  std::byte* source = nullptr;  ///< y in the compute type
  std::byte* dx = nullptr;      ///< in the compute type

  BackwardLayout(const BackwardPlan& plan, Carver& carver) : order(plan.problem) {
    const BackwardProblem& p = plan.problem;
    if (p.rows == 0 || p.cols == 0 || !p.has_dy) return;
    pitch = policy::room(p.cols);
    const std::int64_t units = order.by_group() ? order.rows_of(0) : order.units();
    several_sums = order.rows_of_group((units - 1) / plan.row_blocks + 1) > policy::rows_per_sum;
    if (plan.schedule == Schedule::segments)
      lay_out_shared(plan, carver);
    else
      lay_out_rows(plan, carver);
  }

 private:
  void lay_out_rows(const BackwardPlan& plan, Carver& carver) {
    const BackwardProblem& p = plan.problem;
    const std::int64_t element = bytes_of(compute_dtype(p.x_dtype));
    const bool takes_given = plan.kernels->takes_given, from_y = p.source == Source::y;
    parameters.take(carver, !takes_given || !p.has_gamma || p.gamma_offset != 0,
                    from_y && (!takes_given || !p.has_beta), order,
                    expanded_bytes(p.cols, p.x_dtype), plan.tasks);
    if (p.want_dgamma || p.want_dbeta) {
      live = order.by_group() ? 1 : order.groups;
      partial_count =
          order.by_group() && plan.row_blocks == 1 ? plan.tasks : plan.row_blocks * order.groups;
      partials = carver.take<std::byte>(2 * partial_count * pitch * element);
      if (several_sums) scratch = carver.take<std::byte>(plan.tasks * 6 * live * pitch * element);
    }
    const bool keeps = keeps_dx(plan);
    if (!plan.widen_dy && !keeps) return;
    const std::int64_t arrays = (plan.widen_dy ? (from_y ? 2 : 1) : 0) + (keeps ? 1 : 0);
    kept = KeptRows(p.cols, arrays * element, element);
    if (plan.widen_dy) dy = carver.take<std::byte>(plan.tasks * kept.bytes);
    if (plan.widen_dy && from_y) source = carver.take<std::byte>(plan.tasks * kept.bytes);
    if (keeps) dx = carver.take<std::byte>(plan.tasks * kept.bytes);
  }

  void lay_out_shared(const BackwardPlan& plan, Carver& carver) {
    const BackwardProblem& p = plan.problem;
    const std::int64_t element = bytes_of(compute_dtype(p.x_dtype));
    const auto row_bytes = p.cols * (bytes_of(row_dtype(p)) + bytes_of(p.y_dtype));
    // In one group, column sums live and die in the first-level cache: 1.2 to 1.7 times as fast,
    // even where the rows come from memory twice.
    group = p.rows <= policy::max_shared_rows
                ? p.rows
                : std::min(policy::max_shared_rows,
                           shared_group(p.rows, row_bytes,
                                        plan.device.cache_shared / policy::backward_group_share));
    const Segments segments = segments_of(p.cols, row_dtype(p));
    sums = carver.take<GradientSums>(2 * group * segments.count);
    // With one group a segment's sums live and die on its task's stack.
    if ((p.want_dgamma || p.want_dbeta) && (group < p.rows || several_sums)) {
      pitch = segments.count * policy::room(segments.length);
      scratch = carver.take<std::byte>((several_sums ? 6 : 2) * pitch * element);
    }
  }
};

}  // namespace fusednorm::cpu
