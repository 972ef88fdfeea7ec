// SPDX-License-Identifier: Apache-2.0
// Trains a classifier in C++ with libtorch: a module whose norm is the operator
// fusednorm::layer_norm, beside one with native's, from the same weights. Autograd is that of the
// operator, in C++; there is no Python in the process.
#include <torch/torch.h>

#include <cstdio>

namespace {

/// The operator, found by its schema once.
at::Tensor fused_layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  using Signature =
      at::Tensor(const at::Tensor&, c10::SymIntArrayRef, const std::optional<at::Tensor>&,
                 const std::optional<at::Tensor>&, double);
  static const auto layer_norm = c10::Dispatcher::singleton()
                                     .findSchemaOrThrow("fusednorm::layer_norm", "")
                                     .typed<Signature>();
  const c10::SymInt shape[] = {weight.size(0)};
  return layer_norm.call(x, shape, weight, bias, 1e-5);
}

struct Net : torch::nn::Module {
  explicit Net(bool is_fused) : fused(is_fused) {
    up = register_module("up", torch::nn::Linear(16, 64));
    weight = register_parameter("weight", torch::ones(64));
    bias = register_parameter("bias", torch::zeros(64));
    down = register_module("down", torch::nn::Linear(64, 4));
  }
  at::Tensor forward(const at::Tensor& x) {
    const auto h = up(x);
    const auto normed =
        fused ? fused_layer_norm(h, weight, bias) : torch::layer_norm(h, {64}, weight, bias, 1e-5);
    return down(torch::gelu(normed));
  }
  bool fused;
  torch::nn::Linear up{nullptr}, down{nullptr};
  at::Tensor weight, bias;
};

double train(Net& net, const at::Tensor& x, const at::Tensor& labels, int steps) {
  torch::optim::Adam optimizer(net.parameters(), 1e-2);
  double loss = 0;
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    const auto value = torch::nn::functional::cross_entropy(net.forward(x), labels);
    value.backward();
    optimizer.step();
    loss = value.item<double>();
  }
  return loss;
}

}  // namespace

int main() {
  torch::manual_seed(0);
  const auto x = torch::randn({256, 16});
  const auto labels = x.slice(1, 0, 4).argmax(1);
  Net native(false), fused(true);
  {
    const torch::NoGradGuard no_gradient;
    const auto from = native.parameters(), to = fused.parameters();
    for (size_t i = 0; i < from.size(); ++i) to[i].copy_(from[i]);
  }
  const double first =
      torch::nn::functional::cross_entropy(fused.forward(x), labels).item<double>();
  const double native_loss = train(native, x, labels, 30), fused_loss = train(fused, x, labels, 30);
  std::printf("loss %.4f -> %.6f with native, %.6f with fusednorm\n", first, native_loss,
              fused_loss);
  return fused_loss < 0.5 * first && std::abs(fused_loss - native_loss) < 1e-3 ? 0 : 1;
}
