// SPDX-License-Identifier: Apache-2.0
// One build of the library behind three C functions, so that one process can hold two builds.
#pragma once

#include <cstdint>

struct ShimProblem {
  int backward;
  int dtype;  // of x, y and parameters: fusednorm::DType's value
  int param_dtype;
  int operation;  // fusednorm::Operation's value
  int residual;   // with one of the dtype of x: sum, or ds
  std::int64_t rows, cols, param_groups;
  int threads;
  const char* instruction_set;  // null: the best
};

struct ShimBuffers {
  const void *x, *dy, *gamma, *beta;
  void *y, *mean, *rstd, *dx, *dgamma, *dbeta;
  const void* residual;  // or ds
  void* sum;
};

extern "C" {
void* shim_plan(const ShimProblem* problem);
void shim_run(void* plan, const ShimBuffers* buffers);
void shim_free(void* plan);
}
