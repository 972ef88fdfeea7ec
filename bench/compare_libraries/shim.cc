// SPDX-License-Identifier: Apache-2.0
#include "shim.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "fusednorm/cpu.h"

namespace {

using namespace fusednorm;

struct Planned {
  cpu::ForwardPlan forward;
  cpu::BackwardPlan backward;
  bool is_backward;
  std::vector<std::byte> workspace;
};

template <typename T>
T checked(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.status().message().c_str());
    std::exit(1);
  }
  return *result;
}

}  // namespace

extern "C" {

void* shim_plan(const ShimProblem* p) {
  cpu::Device device = cpu::query();
  device.threads = p->threads;
  for (const auto& set : cpu::instruction_sets()) {
    if (p->instruction_set && set.name() == p->instruction_set) device.instruction_set = set;
  }
  auto* planned = new Planned;
  planned->is_backward = p->backward != 0;
  const auto fill = [&](auto problem) {
    problem.rows = p->rows;
    problem.cols = p->cols;
    problem.x_dtype = problem.y_dtype = static_cast<DType>(p->dtype);
    problem.param_dtype = static_cast<DType>(p->param_dtype);
    problem.operation = static_cast<Operation>(p->operation);
    problem.has_residual = p->residual != 0;
    problem.residual_dtype = problem.x_dtype;
    problem.param_groups = p->param_groups;
    return problem;
  };
  if (planned->is_backward) {
    BackwardProblem problem;
    problem.has_ds = p->residual != 0;
    planned->backward = checked(cpu::plan(fill(problem), device));
    planned->workspace.resize(planned->backward.workspace_bytes);
  } else {
    ForwardProblem problem;
    problem.save_rstd = true;
    problem.save_mean = p->operation == static_cast<int>(Operation::layer_norm);
    planned->forward = checked(cpu::plan(fill(problem), device));
    planned->workspace.resize(planned->forward.workspace_bytes);
  }
  return planned;
}

void shim_run(void* plan, const ShimBuffers* b) {
  auto& planned = *static_cast<Planned*>(plan);
  const Workspace workspace{planned.workspace.data(), planned.workspace.size()};
  BackwardBuffers backward;
  backward.dy = b->dy;
  backward.x = b->x;
  backward.gamma = b->gamma;
  backward.mean = b->mean;
  backward.rstd = b->rstd;
  backward.dx = b->dx;
  backward.dgamma = b->dgamma;
  backward.dbeta = b->dbeta;
  backward.ds = b->residual;
  const Status status =
      planned.is_backward
          ? cpu::run(planned.backward, backward, workspace)
          : cpu::run(planned.forward,
                     {b->x, b->gamma, b->beta, b->y, b->mean, b->rstd, b->residual, b->sum},
                     workspace);
  if (!status) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    std::exit(1);
  }
}

void shim_free(void* plan) {
  delete static_cast<Planned*>(plan);
}
}
