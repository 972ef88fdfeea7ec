// Runs a forward plan: checks, then hands pieces of work to parallel_for.
#include <algorithm>
#include <limits>
#include <utility>

#include "cpu/layout.h"
#include "hwy/cache_control.h"
#include "validate.h"

namespace fusednorm::cpu {
namespace {

/// The mean of no elements is 0 / 0.
template <typename C>
void fill_statistics(const ForwardProblem& problem, const ForwardBuffers& buffers) {
  const C undefined = std::numeric_limits<C>::quiet_NaN();
  if (problem.save_mean) std::fill_n(static_cast<C*>(buffers.mean), problem.rows, undefined);
  if (problem.save_rstd) std::fill_n(static_cast<C*>(buffers.rstd), problem.rows, undefined);
}

/// Group by group: while the segments of one are written, those of the next are read, so that
/// memory does both at once.
void run_shared_rows(const ForwardPlan& plan, const ForwardArguments& arguments,
                     const ForwardKernels& kernels, const ForwardLayout& layout,
                     ParallelFor parallel_for) {
  const std::int64_t rows = plan.problem.rows, group = layout.group;
  const std::int64_t segments = arguments.segments.count;
  const auto first = [&](std::int64_t task) { return split(segments, plan.tasks, task); };
  const auto after = [&](std::int64_t row) { return std::min(row + group, rows); };
  Moments *now = layout.moments, *next = now + group * segments;
  const auto read = [&](std::int64_t begin, std::int64_t segment, Moments* out) {
    for (std::int64_t row = begin; row < after(begin); ++row) {
      kernels.moments(arguments, row, segment, segment + 1, out + (row - begin) * segments);
    }
  };
  parallel_for(plan.tasks, [&](std::int64_t task) {
    for (std::int64_t s = first(task); s < first(task + 1); ++s) read(0, s, now);
  });
  bool forwards = false;
  for (std::int64_t begin = 0; begin < rows; begin += group, forwards = !forwards) {
    const std::int64_t end = after(begin);
    for (std::int64_t row = 0; row < end - begin; ++row) {
      now[row * segments] = kernels.merge(arguments, now + row * segments);
    }
    parallel_for(plan.tasks, [&](std::int64_t index) {
      // There and back, for what was read last is what the cache still holds.
      const std::int64_t task = forwards ? index : plan.tasks - 1 - index;
      for (std::int64_t i = first(task); i < first(task + 1); ++i) {
        const std::int64_t s = forwards ? i : first(task) + first(task + 1) - 1 - i;
        kernels.normalize(arguments, begin, end, s, now, end < rows ? group : 0);
        if (end < rows) read(end, s, next);
      }
      hwy::FlushStream();
    });
    std::swap(now, next);
  }
}

}  // namespace

Status run(const ForwardPlan& plan, const ForwardBuffers& buffers, Workspace workspace) {
  return run(plan, buffers, workspace, OpenMP{plan.device.threads});
}

Status run(const ForwardPlan& plan, const ForwardBuffers& buffers, Workspace workspace,
           ParallelFor parallel_for) {
  const ForwardProblem& p = plan.problem;
  if (auto status = validate(p, buffers, workspace, plan.workspace_bytes); !status) return status;
  const ForwardKernels* kernels = forward_kernels(plan.device.instruction_set.highway_target,
                                                  p.x_dtype, p.param_dtype, p.y_dtype);
  if (!kernels)
    return Status::invalid_argument("plan: expected the result of fusednorm::cpu::plan()");
  if (p.rows == 0) return {};
  if (p.cols == 0) {
    if (compute_dtype(p.x_dtype) == DType::f64)
      fill_statistics<double>(p, buffers);
    else
      fill_statistics<float>(p, buffers);
    return {};
  }
  ForwardArguments arguments{
      buffers.x, p.has_gamma ? buffers.gamma : nullptr, p.has_beta ? buffers.beta : nullptr,
      buffers.y, p.save_mean ? buffers.mean : nullptr, p.save_rstd ? buffers.rstd : nullptr, p.cols,
      resolved_stride(p.x_row_stride, p.cols), resolved_stride(p.y_row_stride, p.cols), p.eps,
      // In place, the lines to write are in the cache already.
      plan.streaming_stores && buffers.x != buffers.y, segments_of(p.cols, p.x_dtype),
      kernels->expand, static_cast<std::int64_t>(size_of(p.param_dtype)), as_given(p)};
  Carver carver(workspace.data);
  const ForwardLayout layout(plan, kernels->expand != nullptr, carver);
  if (layout.gamma) {
    kernels->expand(arguments.gamma, 1, p.cols, layout.gamma);
    kernels->expand(arguments.beta, 0, p.cols, layout.beta);
    arguments.gamma = layout.gamma;
    arguments.beta = layout.beta;
  }
  switch (plan.schedule) {
    case Schedule::calling_thread:
      kernels->rows(arguments, 0, p.rows);
      break;
    case Schedule::rows:
      parallel_for(plan.tasks, [&](std::int64_t task) {
        kernels->rows(arguments, split(p.rows, plan.tasks, task),
                      split(p.rows, plan.tasks, task + 1));
      });
      break;
    case Schedule::segments:
      run_shared_rows(plan, arguments, *kernels, layout, parallel_for);
      break;
  }
  return {};
}

}  // namespace fusednorm::cpu
