// SPDX-License-Identifier: Apache-2.0
// Runs a forward plan: checks, then hands pieces of work to parallel_for.
#include <algorithm>
#include <limits>

#include "cpu/plan/layout.h"
#include "cpu/run/shared_rows.h"
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

ForwardArguments arguments_of(const ForwardPlan& plan, const ForwardBuffers& buffers) {
  const ForwardProblem& p = plan.problem;
  ForwardArguments a;
  a.operation = p.operation;
  a.x = buffers.x;
  a.gamma = p.has_gamma ? buffers.gamma : nullptr;
  a.beta = p.has_beta ? buffers.beta : nullptr;
  a.y = buffers.y;
  a.mean = p.save_mean ? buffers.mean : nullptr;
  a.rstd = p.save_rstd ? buffers.rstd : nullptr;
  a.cols = p.cols;
  a.x_stride = resolved_stride(p.x_row_stride, p.cols);
  a.y_stride = resolved_stride(p.y_row_stride, p.cols);
  a.eps = p.eps;
  // In place, the lines to write are in the cache already.
  a.streaming = plan.streaming_stores && buffers.x != buffers.y;
  a.segments = segments_of(p.cols, p.x_dtype);
  a.expand = plan.kernels->expand;
  a.param_size = static_cast<std::int64_t>(size_of(p.param_dtype));
  a.as_given = as_given(p);
  return a;
}

void share_rows(const ForwardPlan& plan, const ForwardArguments& a, const ForwardLayout& layout,
                ParallelFor parallel_for) {
  const ForwardKernels& kernels = *plan.kernels;
  const std::int64_t rows = plan.problem.rows, segments = a.segments.count;
  run_shared_rows(
      SharedRows<Moments>{rows, layout.group, segments, plan.tasks, layout.moments,
                          layout.moments + layout.group * segments},
      true, parallel_for,
      [&](std::int64_t begin, std::int64_t end, std::int64_t segment, Moments* out) {
        for (std::int64_t row = begin; row < end; ++row)
          out[(row - begin) * segments + segment] = kernels.moments(a, row, segment);
      },
      [&](const Moments* parts) { return kernels.merge(a, parts); },
      [&](std::int64_t begin, std::int64_t end, std::int64_t segment, const Moments* of_rows) {
        kernels.write(a, begin, end, segment, of_rows, end < rows ? layout.group : 0);
      });
}

}  // namespace

Status run(const ForwardPlan& plan, const ForwardBuffers& buffers, Workspace workspace) {
  return run(plan, buffers, workspace, OpenMP{plan.device.threads});
}

Status run(const ForwardPlan& plan, const ForwardBuffers& buffers, Workspace workspace,
           ParallelFor parallel_for) {
  const ForwardProblem& p = plan.problem;
  if (!plan.kernels)
    return Status::invalid_argument("plan: expected the result of fusednorm::cpu::plan()");
  if (auto status = validate(p, buffers, workspace, plan.workspace_bytes); !status) return status;
  if (p.rows == 0) return {};
  if (p.cols == 0) {
    if (compute_dtype(p.x_dtype) == DType::f64)
      fill_statistics<double>(p, buffers);
    else
      fill_statistics<float>(p, buffers);
    return {};
  }
  ForwardArguments a = arguments_of(plan, buffers);
  Carver carver(workspace.data);
  const ForwardLayout layout(plan, carver);
  if (layout.gamma) {
    a.expand(a.gamma, 1, p.cols, layout.gamma);
    a.expand(a.beta, 0, p.cols, layout.beta);
    a.gamma = layout.gamma;
    a.beta = layout.beta;
  }
  switch (plan.schedule) {
    case Schedule::calling_thread:
      plan.kernels->rows(a, 0, p.rows);
      break;
    case Schedule::rows:
      parallel_for(plan.tasks, [&](std::int64_t task) {
        plan.kernels->rows(a, split(p.rows, plan.tasks, task), split(p.rows, plan.tasks, task + 1));
      });
      break;
    case Schedule::segments:
      share_rows(plan, a, layout, parallel_for);
      break;
  }
  return {};
}

}  // namespace fusednorm::cpu
