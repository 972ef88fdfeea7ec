// SPDX-License-Identifier: Apache-2.0
// LayerNorm in C++ without any framework: gamma and beta are learned by gradient descent, so that
// the normalised rows match a target that was made with other ones.
#include <fusednorm/fusednorm.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

namespace {

using fusednorm::Status;
namespace cpu = fusednorm::cpu;

constexpr std::int64_t rows = 256, cols = 192;

/// A LayerNorm with its plans, parameters and buffers. Everything is a plain member: there is no
/// handle to create and nothing to free.
struct Layer {
  cpu::ForwardPlan forward_plan;
  cpu::BackwardPlan backward_plan;
  std::vector<float> gamma, beta, dgamma, dbeta, y, mean, rstd;
  std::vector<std::byte> workspace;

  Status forward(const std::vector<float>& x) {
    fusednorm::ForwardBuffers buffers;
    buffers.x = x.data();
    buffers.gamma = gamma.data();
    buffers.beta = beta.data();
    buffers.y = y.data();
    buffers.mean = mean.data();
    buffers.rstd = rstd.data();
    return cpu::run(forward_plan, buffers, {workspace.data(), workspace.size()});
  }

  Status backward(const std::vector<float>& x, const std::vector<float>& dy) {
    fusednorm::BackwardBuffers buffers;
    buffers.dy = dy.data();
    buffers.x = x.data();
    buffers.gamma = gamma.data();
    buffers.mean = mean.data();
    buffers.rstd = rstd.data();
    buffers.dgamma = dgamma.data();
    buffers.dbeta = dbeta.data();
    return cpu::run(backward_plan, buffers, {workspace.data(), workspace.size()});
  }
};

fusednorm::Result<Layer> make_layer(const cpu::Device& device) {
  fusednorm::ForwardProblem forward;
  forward.rows = rows;
  forward.cols = cols;
  forward.save_mean = forward.save_rstd = true;
  fusednorm::BackwardProblem backward;
  backward.rows = rows;
  backward.cols = cols;
  backward.want_dx = false;  // nothing is below this layer
  const auto forward_plan = cpu::plan(forward, device);
  if (!forward_plan) return forward_plan.status();
  const auto backward_plan = cpu::plan(backward, device);
  if (!backward_plan) return backward_plan.status();
  Layer layer{*forward_plan,
              *backward_plan,
              std::vector<float>(cols, 1.0f),
              std::vector<float>(cols, 0.0f),
              std::vector<float>(cols),
              std::vector<float>(cols),
              std::vector<float>(rows * cols),
              std::vector<float>(rows),
              std::vector<float>(rows),
              {}};
  // One workspace serves both, one after the other.
  layer.workspace.resize(std::max(forward_plan->workspace_bytes, backward_plan->workspace_bytes));
  return layer;
}

int failed(const Status& status) {
  std::fprintf(stderr, "%s\n", status.message().c_str());
  return 1;
}

}  // namespace

int main() {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(3.0f, 2.0f);
  std::vector<float> x(rows * cols), target(rows * cols), dy(rows * cols);
  for (float& value : x) value = normal(random);

  auto layer = make_layer(cpu::query());
  if (!layer) return failed(layer.status());
  std::printf("%s\n", cpu::explain(layer->backward_plan).c_str());

  // The target: the same rows with gamma = 2 and beta falling from 1 to 0.
  std::vector<float> wanted_beta(cols);
  for (std::int64_t c = 0; c < cols; ++c) wanted_beta[c] = 1.0f - static_cast<float>(c) / cols;
  layer->gamma.assign(cols, 2.0f);
  layer->beta = wanted_beta;
  if (auto status = layer->forward(x); !status) return failed(status);
  target = layer->y;

  layer->gamma.assign(cols, 1.0f);
  layer->beta.assign(cols, 0.0f);
  double first = 0, loss = 0;
  for (int step = 0; step < 40; ++step) {
    if (auto status = layer->forward(x); !status) return failed(status);
    loss = 0;
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      const float difference = layer->y[i] - target[i];
      loss += difference * difference / (rows * cols);
      dy[i] = 2.0f * difference / rows;
    }
    if (step == 0) first = loss;
    if (step % 10 == 0) std::printf("step %2d  loss %.6f\n", step, loss);
    if (auto status = layer->backward(x, dy); !status) return failed(status);
    for (std::int64_t c = 0; c < cols; ++c) {
      layer->gamma[c] -= 0.2f * layer->dgamma[c];
      layer->beta[c] -= 0.2f * layer->dbeta[c];
    }
  }
  std::printf("loss %.6f -> %.9f, gamma[0] %.4f (wanted 2), beta[0] %.4f (wanted 1)\n", first, loss,
              static_cast<double>(layer->gamma[0]), static_cast<double>(layer->beta[0]));
  return loss < 1e-6 && std::fabs(layer->gamma[0] - 2.0f) < 1e-2f ? 0 : 1;
}
