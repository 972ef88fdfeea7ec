// SPDX-License-Identifier: Apache-2.0
// A stranger's program: forward, then backward, from an installed fusednorm.
#include <fusednorm/fusednorm.h>

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <vector>

int main() {
  const std::vector<float> x{1, 2, 3, 4, 10, 20, 30, 40}, gamma{1, 1, 1, 1}, beta{0, 0, 0, 0};
  std::vector<float> y(8), mean(2), rstd(2), dx(8), dgamma(4), dbeta(4);
  const auto device = fusednorm::cpu::query();

  fusednorm::ForwardProblem forward;
  forward.rows = 2;
  forward.cols = 4;
  forward.save_mean = forward.save_rstd = true;
  const auto forward_plan = fusednorm::cpu::plan(forward, device);
  if (!forward_plan) {
    std::printf("%s\n", forward_plan.status().message().c_str());
    return 1;
  }
  std::vector<std::byte> workspace(forward_plan->workspace_bytes);
  auto status = fusednorm::cpu::run(
      *forward_plan, {x.data(), gamma.data(), beta.data(), y.data(), mean.data(), rstd.data()},
      {workspace.data(), workspace.size()});
  if (!status || std::fabs(y[0] + 1.3416408f) > 1e-4f || mean[1] != 25) {
    std::printf("forward: %s y[0] = %f\n", status.message().c_str(), static_cast<double>(y[0]));
    return 1;
  }

  fusednorm::BackwardProblem backward;
  backward.rows = 2;
  backward.cols = 4;
  const auto backward_plan = fusednorm::cpu::plan(backward, device);
  if (!backward_plan) {
    std::printf("%s\n", backward_plan.status().message().c_str());
    return 1;
  }
  workspace.resize(backward_plan->workspace_bytes);
  fusednorm::BackwardBuffers buffers;
  buffers.dy = y.data();
  buffers.x = x.data();
  buffers.gamma = gamma.data();
  buffers.mean = mean.data();
  buffers.rstd = rstd.data();
  buffers.dx = dx.data();
  buffers.dgamma = dgamma.data();
  buffers.dbeta = dbeta.data();
  status = fusednorm::cpu::run(*backward_plan, buffers, {workspace.data(), workspace.size()});
  // dy = xhat: dx vanishes, dbeta = 0, dgamma = sum of squares.
  if (!status || std::fabs(dx[5]) > 1e-3f || std::fabs(dgamma[0] - 3.6f) > 1e-3f) {
    std::printf("backward: %s dgamma[0] = %f\n", status.message().c_str(),
                static_cast<double>(dgamma[0]));
    return 1;
  }
  std::printf("%s\n", fusednorm::cpu::explain(*backward_plan).c_str());
  return 0;
}
