// SPDX-License-Identifier: Apache-2.0
// A problem as the library takes it.
#include "problems/problem.h"

#include "row_layout.h"

namespace fusednorm::problems {

namespace {

/// What the problems of both passes share.
template <typename Out>
void set_shared(const Problem& problem, Out* out) {
  out->rows = problem.rows;
  out->cols = problem.cols;
  out->x_dtype = problem.x_dtype;
  out->y_dtype = problem.y_dtype;
  out->param_dtype = problem.param_dtype;
  out->has_gamma = problem.gamma != Gamma::none;
  out->has_beta = problem.beta != Beta::none;
  out->operation = problem.operation;
  out->rounding = problem.rounding;
  out->gamma_offset = problem.gamma_offset;
  out->has_residual = problem.has_residual;
  out->residual_dtype = problem.residual_dtype;
  out->param_groups = problem.param_groups;
  out->rows_per_group = problem.rows_per_group;
  out->inner_rows = problem.inner_rows;
}

}  // namespace

std::int64_t extent_of(const Problem& problem, int array) {
  if (problem.rows == 0 || problem.cols == 0) return 0;
  const RowLayout layout =
      row_layout(problem.cols, problem.stride[array], problem.inner_rows, problem.outer[array]);
  const std::int64_t inner = problem.inner_rows > 0 ? problem.inner_rows : problem.rows;
  const std::int64_t outer = problem.rows / inner;
  return (outer - 1) * layout.outer_stride + (inner - 1) * layout.row_stride + problem.cols;
}

ForwardProblem forward_problem(const Problem& problem) {
  ForwardProblem out;
  set_shared(problem, &out);
  out.save_mean = problem.out[0];
  out.save_rstd = problem.out[1];
  out.eps = problem.eps;
  out.x_row_stride = problem.stride[kX];
  out.y_row_stride = problem.stride[kY];
  out.residual_row_stride = problem.stride[kResidual];
  out.sum_row_stride = problem.stride[kSum];
  out.x_outer_stride = problem.outer[kX];
  out.y_outer_stride = problem.outer[kY];
  out.residual_outer_stride = problem.outer[kResidual];
  out.sum_outer_stride = problem.outer[kSum];
  return out;
}

BackwardProblem backward_problem(const Problem& problem) {
  BackwardProblem out;
  set_shared(problem, &out);
  out.source = problem.from_y() ? Source::y : Source::x;
  out.want_dx = problem.out[0];
  out.want_dgamma = problem.out[1];
  out.want_dbeta = problem.out[2];
  out.want_dresidual = problem.out[3];
  out.has_dy = problem.has_dy;
  out.has_ds = problem.has_ds;
  out.dy_row_stride = problem.stride[kDy];
  out.source_row_stride = problem.stride[kSource];
  out.dx_row_stride = problem.stride[kDx];
  out.ds_row_stride = problem.stride[kDs];
  out.dresidual_row_stride = problem.stride[kDresidual];
  out.dy_outer_stride = problem.outer[kDy];
  out.source_outer_stride = problem.outer[kSource];
  out.dx_outer_stride = problem.outer[kDx];
  out.ds_outer_stride = problem.outer[kDs];
  out.dresidual_outer_stride = problem.outer[kDresidual];
  return out;
}

}  // namespace fusednorm::problems
