// Plans for the CUDA backend: the policy's choice and the workspace it needs.
#include "fusednorm/cuda.h"
#include "layout.h"
#include "policy.h"
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
  if (device.shared_bytes_per_block < least_shared_bytes) {
    return Status::invalid_argument(
        "device.shared_bytes_per_block = " + std::to_string(device.shared_bytes_per_block) +
        ": expected " + std::to_string(least_shared_bytes) + " or more");
  }
  return {};
}

}  // namespace

Result<ForwardPlan> plan(const ForwardProblem& problem, const Device& device) {
  if (auto status = validate(problem); !status) return status;
  if (auto status = check(device); !status) return status;
  ForwardPlan result{problem, device, policy::forward(problem, device)};
  result.workspace_bytes = forward_workspace(result);
  return result;
}

Result<BackwardPlan> plan(const BackwardProblem& problem, const Device& device) {
  if (auto status = validate(problem); !status) return status;
  if (auto status = check(device); !status) return status;
  const auto choice = policy::backward(problem, device);
  BackwardPlan result{problem, device, choice.launch, choice.partials};
  result.workspace_bytes = BackwardLayout(result, nullptr).bytes;
  return result;
}

}  // namespace fusednorm::cuda
