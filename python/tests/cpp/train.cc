// SPDX-License-Identifier: Apache-2.0
// Loads a TorchScript module with fusednorm layers, trains it for some steps, and checks a gradient
// of the operator that it calls through the dispatcher.
#include <torch/csrc/autograd/autograd.h>
#include <torch/script.h>

#include <cstdio>
#include <vector>

namespace {

double step(torch::jit::Module& module, const at::Tensor& x, const at::Tensor& target) {
  std::vector<at::Tensor> parameters;
  for (const auto& parameter : module.parameters()) parameters.push_back(parameter);
  const auto loss = (module.forward({x}).toTensor() - target).square().mean();
  const auto gradients = torch::autograd::grad({loss}, parameters);
  const at::NoGradGuard no_gradient;
  for (size_t i = 0; i < parameters.size(); ++i) parameters[i].sub_(gradients[i], 0.05);
  return loss.item<double>();
}

bool operator_has_gradients() {
  const auto x = torch::randn({3, 8}, at::requires_grad());
  using Signature =
      at::Tensor(const at::Tensor&, c10::SymIntArrayRef, const std::optional<at::Tensor>&,
                 const std::optional<at::Tensor>&, double);
  const auto layer_norm = c10::Dispatcher::singleton()
                              .findSchemaOrThrow("fusednorm::layer_norm", "")
                              .typed<Signature>();
  const std::vector<c10::SymInt> shape{8};
  const auto y = layer_norm.call(x, shape, std::nullopt, std::nullopt, 1e-5);
  const auto expected = at::layer_norm(x, {8});
  const auto dy = torch::randn_like(y);
  const auto ours = torch::autograd::grad({y}, {x}, {dy})[0];
  const auto native = torch::autograd::grad({expected}, {x}, {dy})[0];
  return at::allclose(y, expected, 1e-5, 1e-6) && at::allclose(ours, native, 1e-4, 1e-5);
}

}  // namespace

int main(int, char** arguments) {
  torch::manual_seed(0);
  if (!operator_has_gradients()) {
    std::puts("the operator's gradient differs from native's");
    return 1;
  }
  auto module = torch::jit::load(arguments[1]);
  const auto x = torch::randn({32, 8});
  const auto target = x.sum(1, /*keepdim=*/true);
  const double first = step(module, x, target);
  double last = first;
  for (int i = 0; i < 20; ++i) last = step(module, x, target);
  std::printf("loss %g -> %g\n", first, last);
  if (!(last < 0.8 * first)) return 1;
  std::puts("loss fell");
  return 0;
}
