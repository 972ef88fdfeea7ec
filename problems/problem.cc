// SPDX-License-Identifier: Apache-2.0
// A problem as the library takes it.
#include "problems/problem.h"

namespace fusednorm::problems {

ForwardProblem forward_problem(const Problem& problem) {
  ForwardProblem out;
  out.rows = problem.rows;
  out.cols = problem.cols;
  out.x_dtype = problem.x_dtype;
  out.y_dtype = problem.y_dtype;
  out.param_dtype = problem.param_dtype;
  out.has_gamma = problem.gamma != Gamma::none;
  out.has_beta = problem.beta != Beta::none;
  out.save_mean = problem.out[0];
  out.save_rstd = problem.out[1];
  out.eps = problem.eps;
  out.x_row_stride = problem.stride[0];
  out.y_row_stride = problem.stride[1];
  out.operation = problem.operation;
  return out;
}

BackwardProblem backward_problem(const Problem& problem) {
  BackwardProblem out;
  out.rows = problem.rows;
  out.cols = problem.cols;
  out.x_dtype = problem.x_dtype;
  out.y_dtype = problem.y_dtype;
  out.param_dtype = problem.param_dtype;
  out.source = problem.from_y() ? Source::y : Source::x;
  out.has_gamma = problem.gamma != Gamma::none;
  out.has_beta = problem.beta != Beta::none;
  out.want_dx = problem.out[0];
  out.want_dgamma = problem.out[1];
  out.want_dbeta = problem.out[2];
  out.dy_row_stride = problem.stride[0];
  out.source_row_stride = problem.stride[1];
  out.dx_row_stride = problem.stride[2];
  out.operation = problem.operation;
  return out;
}

}  // namespace fusednorm::problems
