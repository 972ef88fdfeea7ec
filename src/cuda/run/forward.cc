// SPDX-License-Identifier: Apache-2.0
// Runs forward plans: checks, arguments, one or two launches. Nothing is allocated, synchronised or
// read back.
#include <algorithm>

#include "plan/workspace.h"
#include "run/launch.h"
#include "run/rows.h"
#include "validate.h"

namespace fusednorm::cuda {
namespace {

/// NaN in all bytes set: the mean of no elements is 0 / 0.
Status fill_undefined(const ForwardProblem& p, const ForwardBuffers& buffers, Stream stream) {
  const std::size_t bytes = static_cast<std::size_t>(p.rows) * size_of(compute_dtype(p.x_dtype));
  for (void* statistics :
       {p.save_mean ? buffers.mean : nullptr, p.save_rstd ? buffers.rstd : nullptr}) {
    if (statistics == nullptr) continue;
    const cudaError_t error = cudaMemsetAsync(statistics, 0xff, bytes, stream);
    if (error != cudaSuccess) return failed("cudaMemsetAsync", error);
  }
  return {};
}

ForwardArguments arguments_of(const ForwardPlan& plan, const ForwardBuffers& buffers,
                              Workspace workspace) {
  const ForwardProblem& p = plan.problem;
  const Launch& l = plan.launch;
  const Geometry g = forward_geometry(p);
  const auto rows = [&](const void* data, std::int64_t stride, std::int64_t outer, DType dtype) {
    return row_array(data, row_layout(p.cols, stride, p.inner_rows, outer), dtype);
  };
  ForwardArguments a{};
  a.x = rows(buffers.x, p.x_row_stride, p.x_outer_stride, p.x_dtype);
  a.y = rows(buffers.y, p.y_row_stride, p.y_outer_stride, p.y_dtype);
  if (p.has_residual) {
    a.residual =
        rows(buffers.residual, p.residual_row_stride, p.residual_outer_stride, p.residual_dtype);
    a.sum = rows(buffers.sum, p.sum_row_stride, p.sum_outer_stride, p.residual_dtype);
  }
  a.parameters =
      parameters_of(p, p.has_gamma ? buffers.gamma : nullptr, p.has_beta ? buffers.beta : nullptr);
  a.map = RowMap::of(p);
  a.mean = p.save_mean ? buffers.mean : nullptr;
  a.rstd = p.save_rstd ? buffers.rstd : nullptr;
  a.moments = plan.workspace_bytes > 0 ? aligned(workspace.data) : nullptr;
  a.cols = p.cols;
  a.row_step = l.kernel == Kernel::narrow ? l.blocks * (l.threads_per_block / l.lanes_per_row)
                                          : l.blocks / std::max(1, l.blocks_per_row);
  set_steps(a.map, a.row_step, {&a.x, &a.y, &a.residual, &a.sum});
  a.segments = g.segments;
  a.eps = Number(p.eps);
  a.reciprocal_cols = Number(1.0 / static_cast<double>(p.cols));
  a.vectors = g.vectors;
  a.lanes_log2 = log2_of(g.lanes);
  a.blocks_per_row = l.blocks_per_row;
  a.access = access_of(a.map, p.cols, row_dtype(p), {&a.x, &a.y, &a.residual, &a.sum});
  const bool skews = a.access != Access::vectors &&
                     outputs_apart(a.map, p.cols, {&a.x, &a.residual}, {&a.y, &a.sum});
  a.ring = ring_of_run(l, a.access, skews);
  a.whole = a.access == Access::vectors && is_plain(p) &&
            p.cols == g.lanes * forward_narrow_vectors(p) * g.vector_elements;
  a.operation = p.operation;
  a.rounding = p.rounding;
  a.row_dtype = row_dtype(p);
  a.xhat_dtype = p.rounding == Rounding::via_param ? p.param_dtype : row_dtype(p);
  return a;
}

}  // namespace

Status run(const ForwardPlan& plan, const ForwardBuffers& buffers, Workspace workspace,
           Stream stream) {
  const ForwardProblem& p = plan.problem;
  if (auto status = validate(p, buffers, workspace, plan.workspace_bytes); !status) return status;
  if (auto status = check_device(plan.device, workspace, plan.workspace_bytes); !status)
    return status;
  if (p.rows == 0) return {};
  if (p.cols == 0) return fill_undefined(p, buffers, stream);
  ForwardArguments arguments = arguments_of(plan, buffers, workspace);
  void* pointers[] = {&arguments};
  const bool aligned_rows = arguments.access == Access::vectors;
  if (auto status = launch("forward", plan.launch, aligned_rows, pointers, stream); !status)
    return status;
  if (plan.second.kernel == Kernel::none) return {};
  return launch("forward, second launch", plan.second, aligned_rows, pointers, stream);
}

}  // namespace fusednorm::cuda
