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

/// How rows of `row_bytes` (everything read and written) are shared out.
Schedule choose(std::int64_t rows, std::int64_t row_bytes, bool too_long,
                std::int64_t tasks_of_rows, const Segments& segments, const Device& device) {
  if (device.threads == 1 ||
      row_bytes <= policy::calling_thread_bytes / std::max<std::int64_t>(rows, 1)) {
    return Schedule::calling_thread;
  }
  const bool too_few = tasks_of_rows < device.threads && segments.count >= device.threads;
  return too_long || too_few ? Schedule::segments : Schedule::rows;
}

bool streams(std::int64_t rows, std::int64_t row_bytes, const Device& device) {
  return rows > 0 && row_bytes > device.cache_shared / policy::streaming_share / rows;
}

}  // namespace

Result<ForwardPlan> plan(const ForwardProblem& problem, const Device& device) {
  if (auto status = validate(problem); !status) return status;
  if (auto status = check(device); !status) return status;
  ForwardPlan result{problem, device};
  const Segments segments = segments_of(problem.cols, problem.x_dtype);
  const auto row_bytes =
      problem.cols * static_cast<std::int64_t>(size_of(problem.x_dtype) + size_of(problem.y_dtype));
  // With few rows a thread, an uneven rest of them would cost more than sharing does.
  const std::int64_t x_bytes = problem.cols * static_cast<std::int64_t>(size_of(problem.x_dtype));
  const bool too_long = x_bytes > policy::shared_row_bytes ||
                        (problem.cols > policy::shared_row_cols &&
                         problem.rows < device.threads * policy::tasks_per_thread);
  result.schedule = choose(problem.rows, row_bytes, too_long, problem.rows, segments, device);
  result.streaming_stores = streams(problem.rows, row_bytes, device);
  const std::int64_t most = device.threads * policy::tasks_per_thread;
  if (result.schedule == Schedule::rows) {
    const std::int64_t rows_per_task = std::max<std::int64_t>(policy::task_bytes / row_bytes, 1);
    result.tasks = std::clamp<std::int64_t>(problem.rows / rows_per_task, 1, most);
  } else if (result.schedule == Schedule::segments) {
    result.tasks = std::min(most, segments.count);
  }
  Carver carver;
  result.kernels = forward_kernels(device.instruction_set.highway_target, problem.x_dtype,
                                   problem.param_dtype, problem.y_dtype);
  ForwardLayout(result, carver);
  result.workspace_bytes = carver.bytes();
  return result;
}

Result<BackwardPlan> plan(const BackwardProblem& problem, const Device& device) {
  if (auto status = validate(problem); !status) return status;
  if (auto status = check(device); !status) return status;
  BackwardPlan result{problem, device};
  const Segments segments = segments_of(problem.cols, problem.x_dtype);
  const auto row_bytes = problem.cols * static_cast<std::int64_t>(2 * size_of(problem.x_dtype) +
                                                                  size_of(problem.y_dtype));
  result.row_blocks =
      policy::row_blocks(problem.rows, problem.cols, compute_dtype(problem.x_dtype));
  result.schedule = choose(problem.rows, row_bytes, problem.cols > policy::shared_row_cols,
                           result.row_blocks, segments, device);
  // Only one block of rows can be shared by threads; more blocks are tasks of their own.
  if (result.schedule == Schedule::segments && result.row_blocks > 1)
    result.schedule = Schedule::rows;
  result.streaming_stores = problem.want_dx && streams(problem.rows, row_bytes, device);
  if (result.schedule == Schedule::rows) {
    result.tasks = std::min<std::int64_t>(device.threads, result.row_blocks);
  } else if (result.schedule == Schedule::segments) {
    result.tasks = std::min(device.threads * policy::tasks_per_thread, segments.count);
  }
  Carver carver;
  result.kernels =
      backward_kernels(device.instruction_set.highway_target, problem.x_dtype, problem.param_dtype,
                       problem.y_dtype, problem.source == Source::y);
  BackwardLayout(result, carver);
  result.workspace_bytes = carver.bytes();
  return result;
}

}  // namespace fusednorm::cpu
