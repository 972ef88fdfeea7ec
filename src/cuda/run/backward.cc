// SPDX-License-Identifier: Apache-2.0
// Runs backward plans: checks, arguments, one or two launches. Nothing is allocated, synchronised
// or read back.
#include <algorithm>

#include "plan/workspace.h"
#include "run/launch.h"
#include "run/rows.h"
#include "validate.h"

namespace fusednorm::cuda {
namespace {

Status clear_gradients(const BackwardProblem& p, const BackwardBuffers& buffers, Stream stream) {
  const std::size_t bytes =
      static_cast<std::size_t>(p.param_groups * p.cols) * size_of(p.param_dtype);
  for (void* gradient :
       {p.want_dgamma ? buffers.dgamma : nullptr, p.want_dbeta ? buffers.dbeta : nullptr}) {
    if (gradient == nullptr) continue;
    const cudaError_t error = cudaMemsetAsync(gradient, 0, bytes, stream);
    if (error != cudaSuccess) return failed("cudaMemsetAsync", error);
  }
  return {};
}

/// Rows of the data between `index_step` rows of one group; 0: not the same for all of them.
std::int64_t row_step_of(const RowMap& map, std::int64_t index_step) {
  if (map.groups == 1 || map.per_cycle.quotient(map.rows - 1) == 0) return index_step;
  return index_step % map.rows_per_group == 0 ? index_step * map.groups : 0;
}

void set_rows(BackwardArguments& a, const BackwardPlan& plan, const BackwardBuffers& buffers) {
  const BackwardProblem& p = plan.problem;
  const Launch& l = plan.launch;
  const bool from_y = p.source == Source::y;
  const DType row = row_dtype(p);
  const auto rows = [&](const void* data, std::int64_t stride, std::int64_t outer, DType dtype) {
    return row_array(data, row_layout(p.cols, stride, p.inner_rows, outer), dtype);
  };
  a.source = rows(from_y ? buffers.y : buffers.x, p.source_row_stride, p.source_outer_stride,
                  from_y ? p.y_dtype : row);
  if (p.has_dy) a.dy = rows(buffers.dy, p.dy_row_stride, p.dy_outer_stride, p.y_dtype);
  if (p.want_dx) a.dx = rows(buffers.dx, p.dx_row_stride, p.dx_outer_stride, p.x_dtype);
  if (p.has_ds && (p.want_dx || p.want_dresidual))
    a.ds = rows(buffers.ds, p.ds_row_stride, p.ds_outer_stride, row);
  if (p.want_dresidual) {
    a.dresidual = rows(buffers.dresidual, p.dresidual_row_stride, p.dresidual_outer_stride, row);
  }
  a.map = RowMap::of(p);
  // A cluster takes one row at a time, a block as many as it has groups of lanes.
  const std::int64_t rows_at_once =
      l.kernel == Kernel::cluster ? 1 : l.threads_per_block / l.lanes_per_row;
  a.writers = plan.writers;
  a.chunks = static_cast<int>(plan.chunks);
  a.index_step = plan.writers * rows_at_once;
  a.per_step = Divider(l.kernel == Kernel::copy ? p.cols : a.index_step);
  const std::int64_t row_step = row_step_of(a.map, a.index_step);
  a.statistics_step = row_step * static_cast<std::int64_t>(size_of(compute_dtype(p.x_dtype)));
  set_steps(a.map, row_step, {&a.dy, &a.source, &a.dx, &a.ds, &a.dresidual});
  a.access = access_of(a.map, p.cols, row, {&a.dy, &a.source, &a.dx, &a.ds, &a.dresidual});
}

BackwardArguments arguments_of(const BackwardPlan& plan, const BackwardBuffers& buffers,
                               const BackwardLayout& layout) {
  const BackwardProblem& p = plan.problem;
  const Geometry g = backward_geometry(p);
  const bool from_y = p.source == Source::y;
  BackwardArguments a{};
  set_rows(a, plan, buffers);
  a.parameters = parameters_of(p, p.has_gamma ? buffers.gamma : nullptr,
                               from_y && p.has_beta ? buffers.beta : nullptr);
  a.mean = from_y || p.operation == Operation::rms_norm ? nullptr : buffers.mean;
  a.rstd = buffers.rstd;
  a.partials = layout.partials;
  a.row_sums = layout.row_sums;
  a.cols = p.cols;
  a.segments = g.segments;
  a.partial_count = plan.partials;
  a.reciprocal_cols = Number(1.0 / static_cast<double>(p.cols));
  a.vectors = g.vectors;
  a.lanes_log2 = log2_of(g.lanes);
  a.blocks_per_row = plan.launch.blocks_per_row;
  const bool skews = a.access != Access::vectors && has_skewed_ring(size_of(row_dtype(p)), true) &&
                     outputs_apart(a.map, p.cols, {&a.dy, &a.source, &a.ds}, {&a.dx, &a.dresidual});
  a.ring = ring_of_run(plan.launch, a.access, skews);
  a.whole = a.access == Access::vectors && is_plain(p) &&
            p.cols == g.lanes * backward_vectors(p, false, false) * g.vector_elements;
  a.operation = p.operation;
  a.row_dtype = row_dtype(p);
  return a;
}

}  // namespace

Status run(const BackwardPlan& plan, const BackwardBuffers& buffers, Workspace workspace,
           Stream stream) {
  const BackwardProblem& p = plan.problem;
  if (auto status = validate(p, buffers, workspace, plan.workspace_bytes); !status) return status;
  if (auto status = check_device(plan.device, workspace, plan.workspace_bytes); !status)
    return status;
  if (p.cols == 0) return {};
  if (p.rows == 0 || !p.has_dy) {
    if (auto status = clear_gradients(p, buffers, stream); !status) return status;
  }
  if (plan.launch.kernel == Kernel::none) return {};
  const BackwardLayout layout(plan, workspace.data);
  BackwardArguments arguments = arguments_of(plan, buffers, layout);
  void* first[] = {&arguments};
  if (auto status =
          launch("backward", plan.launch, arguments.access == Access::vectors, first, stream);
      !status) {
    return status;
  }
  ColumnArguments columns{layout.partials,
                          p.want_dgamma ? buffers.dgamma : nullptr,
                          p.want_dbeta ? buffers.dbeta : nullptr,
                          p.param_groups,
                          plan.partials,
                          p.cols,
                          p.param_dtype};
  if (plan.second.kernel == Kernel::columns) {
    void* second[] = {&columns};
    return launch("backward, column sums", plan.second, false, second, stream);
  }
  if (plan.second.kernel == Kernel::strips) {
    int column_blocks = static_cast<int>(plan.column_blocks);
    void* second[] = {&arguments, &columns, &column_blocks};
    return launch("backward, dx of strips", plan.second, false, second, stream);
  }
  return {};
}

}  // namespace fusednorm::cuda
