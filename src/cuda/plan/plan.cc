// SPDX-License-Identifier: Apache-2.0
// Plans for the CUDA backend: the policy's choice, the kernels it needs, looked up once, and the
// workspace.
#include "fusednorm/cuda.h"
#include "kernels/kernels.h"
#include "plan/policy.h"
#include "plan/workspace.h"
#include "validate.h"

namespace fusednorm::cuda {
namespace {

/// The oldest architecture that the kernels are compiled for.
constexpr int least_compute_capability = 75;

/// What a block gets on any device without asking for more; the smallest blocks of kernels fit it.
constexpr std::int64_t least_shared_bytes = 48 << 10;

Status check(const Device& device) {
  if (device.compute_capability < least_compute_capability) {
    return Status::unsupported(
        "device.compute_capability = " + std::to_string(device.compute_capability) + ": expected " +
        std::to_string(least_compute_capability) + " or later");
  }
  if (device.multiprocessors < 1) {
    return Status::invalid_argument(
        "device.multiprocessors = " + std::to_string(device.multiprocessors) +
        ": expected one or more");
  }
  if (device.reserved_multiprocessors < 0 ||
      device.reserved_multiprocessors >= device.multiprocessors) {
    return Status::invalid_argument(
        "device.reserved_multiprocessors = " + std::to_string(device.reserved_multiprocessors) +
        ": expected 0 to " + std::to_string(device.multiprocessors - 1));
  }
  if (device.shared_bytes_per_block < least_shared_bytes) {
    return Status::invalid_argument(
        "device.shared_bytes_per_block = " + std::to_string(device.shared_bytes_per_block) +
        ": expected " + std::to_string(least_shared_bytes) + " or more");
  }
  return {};
}

void find_kernels(ForwardPlan& plan) {
  const ForwardProblem& p = plan.problem;
  Launch& launch = plan.launch;
  const Geometry g = forward_geometry(p);
  const ForwardFinder kernels = forward_kernels_of(row_dtype(p));
  const bool clustered = launch.kernel == Kernel::cluster;
  switch (launch.kernel) {
    case Kernel::narrow:
      launch.function = kernels.narrow(g.lanes, g.vectors);
      break;
    case Kernel::wide:
    case Kernel::cluster:
      launch.function = kernels.wide({g.vectors, clustered, false});
      if (policy::has_aligned_kernel(p, launch)) {
        launch.aligned_function = kernels.wide({g.vectors, clustered, true});
        set_aligned_ring(launch, forward_wide_shared(p, launch.threads_per_block, clustered, true),
                         policy::forward_wide_ring(p, launch, true, plan.device));
      }
      break;
    case Kernel::reread:
      launch.function = kernels.reread;
      break;
    case Kernel::split:
      plan.second = launch;
      plan.second.function = kernels.split_finish;
      launch.function = kernels.split_moments;
      launch.blocks = policy::split_moments_blocks(p.rows * g.segments, plan.device);
      break;
    default:
      break;
  }
}

void find_kernels(BackwardPlan& plan) {
  const BackwardProblem& p = plan.problem;
  Launch& launch = plan.launch;
  const Geometry g = backward_geometry(p);
  const BackwardFinder kernels = backward_kernels_of(row_dtype(p), p.source == Source::y);
  const bool clustered = launch.kernel == Kernel::cluster;
  if (launch.kernel == Kernel::none) return;
  if (plan.partials > 0) {
    plan.second = policy::columns(p, plan.partials, plan.device);
    plan.second.function = columns_kernel(compute_dtype(p.x_dtype));
  }
  if (launch.kernel == Kernel::copy) {
    launch.function = copy_kernel(compute_dtype(p.x_dtype));
  } else if (launch.kernel == Kernel::narrow) {
    launch.function = kernels.narrow(g.lanes, g.vectors);
  } else if (launch.kernel != Kernel::strips) {
    launch.function = kernels.wide({g.vectors, clustered, false});
    if (policy::has_aligned_kernel(p, launch)) {
      const int groups = clustered ? 1 : launch.threads_per_block / launch.lanes_per_row;
      launch.aligned_function = kernels.wide({g.vectors, clustered, true});
      set_aligned_ring(launch,
                       backward_shared(p, launch.threads_per_block, groups, clustered, true),
                       policy::backward_ring(p, launch, groups, true, plan.most_rows, plan.device));
    }
  } else {
    launch.function = kernels.strip_sums;
    if (p.want_dx || p.want_dresidual) {
      if (plan.partials > 0) {
        plan.column_blocks = std::min<std::int64_t>(divide_up(p.cols, warp_lanes) * p.param_groups,
                                                    policy::usable(plan.device));
      }
      plan.second = policy::strip_dx(p, launch, plan.column_blocks, plan.device);
      plan.second.function = kernels.strip_dx;
    }
  }
}

}  // namespace

Result<ForwardPlan> plan(const ForwardProblem& problem, const Device& device) {
  if (auto status = validate(problem); !status) return status;
  if (auto status = check(device); !status) return status;
  ForwardPlan result;
  result.problem = problem;
  result.device = device;
  result.launch = policy::forward(problem, device);
  find_kernels(result);
  result.workspace_bytes = forward_workspace(result);
  return result;
}

Result<BackwardPlan> plan(const BackwardProblem& problem, const Device& device) {
  if (auto status = validate(problem); !status) return status;
  if (auto status = check(device); !status) return status;
  const policy::BackwardChoice choice = policy::backward(problem, device);
  BackwardPlan result;
  result.problem = problem;
  result.device = device;
  result.launch = choice.launch;
  result.writers = choice.writers;
  result.chunks = choice.chunks;
  result.most_rows = choice.most_rows;
  if (policy::wants_sums(problem)) result.partials = choice.writers * choice.chunks;
  find_kernels(result);
  result.workspace_bytes = BackwardLayout(result, nullptr).bytes;
  if (result.workspace_bytes >= most_workspace) {
    return Status::unsupported("param_groups = " + std::to_string(problem.param_groups) + " with " +
                               std::to_string(result.partials) +
                               " partial sums of cols = " + std::to_string(problem.cols) +
                               " each: expected a workspace of fewer than 2^56 bytes");
  }
  return result;
}

}  // namespace fusednorm::cuda
