// SPDX-License-Identifier: Apache-2.0
// Chooses how a problem is cut into tasks, from the problem and the device alone.
#include <algorithm>

#include "cpu/plan/layout.h"
#include "fusednorm/cpu.h"
#include "validate.h"

namespace fusednorm::cpu {
namespace {

Status check(const Device& device) {
  if (device.threads < 1) {
    return Status::invalid_argument("device.threads = " + std::to_string(device.threads) +
                                    ": expected one or more");
  }
  const std::int64_t target = device.instruction_set.highway_target;
  if ((target & compiled_targets()) == 0 || (target & (target - 1)) != 0) {
    return Status::unsupported(
        "device.instruction_set = " + device.instruction_set.name() +
        ": expected one of fusednorm::cpu::instruction_sets(), as query() gives");
  }
  return {};
}

/// How rows of `row_bytes` (everything read and written) are shared out. Threads share rows only
/// where all have the same parameters.
Schedule choose(const RowOrder& order, std::int64_t row_bytes, bool too_long,
                std::int64_t tasks_of_rows, const Segments& segments, const Device& device) {
  if (device.threads == 1 ||
      row_bytes <= policy::calling_thread_bytes / std::max<std::int64_t>(order.rows, 1)) {
    return Schedule::calling_thread;
  }
  if (order.groups > 1) return Schedule::rows;
  const bool too_few = tasks_of_rows < device.threads && segments.count >= device.threads;
  return too_long || too_few ? Schedule::segments : Schedule::rows;
}

bool streams(std::int64_t rows, std::int64_t row_bytes, const Device& device) {
  return rows > 0 && row_bytes > device.cache_shared / policy::streaming_share / rows;
}

/// Everything that backward reads and writes of a row.
std::int64_t row_bytes_of(const BackwardProblem& p) {
  const DType row = row_dtype(p);
  return p.cols * ((p.has_dy ? bytes_of(p.y_dtype) + bytes_of(row) : 0) + bytes_of(p.x_dtype) +
                   (p.has_ds ? bytes_of(row) : 0) + (p.want_dresidual ? bytes_of(row) : 0));
}

/// Blocks of rows with partial sums of their own; where rows are taken by group, those of each
/// group. A function of the shape alone.
std::int64_t row_blocks(const BackwardProblem& p, const RowOrder& order) {
  const DType compute = compute_dtype(p.x_dtype);
  if (p.rows == 0) return 1;
  if (order.by_group()) {
    const std::int64_t most = std::max<std::int64_t>(policy::max_row_blocks / order.groups, 1);
    return std::min(policy::row_blocks(order.rows_of(0), p.cols, compute), most);
  }
  const std::int64_t blocks =
      policy::row_blocks(p.rows / order.groups, p.cols * order.groups, compute);
  return std::min(blocks, order.units());
}

}  // namespace

Result<ForwardPlan> plan(const ForwardProblem& problem, const Device& device) {
  if (auto status = validate(problem); !status) return status;
  if (auto status = check(device); !status) return status;
  ForwardPlan result{problem, device};
  const RowOrder order(problem);
  const DType row = row_dtype(problem), kernel_y = kernel_y_dtype(row, problem.y_dtype);
  const Segments segments = segments_of(problem.cols, row);
  const std::int64_t of_residual = problem.has_residual ? 2 * bytes_of(row) : 0;
  const std::int64_t row_bytes =
      problem.cols * (bytes_of(problem.x_dtype) + bytes_of(problem.y_dtype) + of_residual);
  // With few rows a thread, an uneven rest of them would cost more than sharing does.
  const bool too_long = problem.cols * bytes_of(row) > policy::shared_row_bytes ||
                        (problem.cols > policy::shared_row_cols &&
                         problem.rows < device.threads * policy::tasks_per_thread);
  result.schedule = choose(order, row_bytes, too_long, problem.rows, segments, device);
  result.streaming_stores = streams(problem.rows, row_bytes, device);
  const std::int64_t most = device.threads * policy::tasks_per_thread;
  if (result.schedule == Schedule::rows) {
    const std::int64_t rows_per_task = std::max<std::int64_t>(policy::task_bytes / row_bytes, 1);
    result.tasks =
        std::clamp<std::int64_t>(problem.rows / rows_per_task, 1, std::min(most, order.units()));
  } else if (result.schedule == Schedule::segments) {
    result.tasks = std::min(most, segments.count);
  }
  const std::int64_t target = device.instruction_set.highway_target;
  result.kernels = forward_kernels(target, row, problem.param_dtype, kernel_y);
  if (problem.has_residual) result.add_residual = add_rows(target, problem.x_dtype, row, row);
  if (kernel_y != problem.y_dtype)
    result.round_y = add_rows(target, kernel_y, kernel_y, problem.y_dtype);
  Carver carver;
  ForwardLayout(result, carver);
  result.workspace_bytes = carver.bytes();
  return result;
}

Result<BackwardPlan> plan(const BackwardProblem& problem, const Device& device) {
  if (auto status = validate(problem); !status) return status;
  if (auto status = check(device); !status) return status;
  BackwardPlan result{problem, device};
  const RowOrder order(problem);
  const DType row = row_dtype(problem), kernel_y = kernel_y_dtype(row, problem.y_dtype);
  const Segments segments = segments_of(problem.cols, row);
  result.row_blocks = row_blocks(problem, order);
  result.schedule = choose(order, row_bytes_of(problem), problem.cols > policy::shared_row_cols,
                           result.row_blocks, segments, device);
  // Only one block of rows can be shared by threads; more blocks are tasks of their own. Without dy
  // there is nothing to share but rows.
  if (result.schedule == Schedule::segments && (result.row_blocks > 1 || !problem.has_dy))
    result.schedule = Schedule::rows;
  result.streaming_stores = (problem.want_dx || problem.want_dresidual) &&
                            streams(problem.rows, row_bytes_of(problem), device);
  if (result.schedule == Schedule::rows) {
    const std::int64_t items = !problem.has_dy    ? order.rows
                               : order.by_group() ? order.groups * result.row_blocks
                                                  : result.row_blocks;
    result.tasks = std::min<std::int64_t>(device.threads, items);
  } else if (result.schedule == Schedule::segments) {
    result.tasks = std::min(device.threads * policy::tasks_per_thread, segments.count);
  }
  const std::int64_t target = device.instruction_set.highway_target;
  result.kernels =
      backward_kernels(target, row, problem.param_dtype, kernel_y, problem.source == Source::y);
  if (kernel_y != problem.y_dtype)
    result.widen_dy = add_rows(target, problem.y_dtype, kernel_y, kernel_y);
  if (keeps_dx(result) || !problem.has_dy)
    result.add_ds = add_rows(target, row, row, problem.want_dx ? problem.x_dtype : row);
  Carver carver;
  BackwardLayout(result, carver);
  result.workspace_bytes = carver.bytes();
  return result;
}

}  // namespace fusednorm::cpu
