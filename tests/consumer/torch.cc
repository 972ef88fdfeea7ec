// SPDX-License-Identifier: Apache-2.0
// A stranger's program with libtorch: linking fusednorm::torch is enough for the dispatcher to know
// the operators and their derivatives.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/ones.h>

#include <cstdio>

int main() {
  using Signature =
      at::Tensor(const at::Tensor&, c10::SymIntArrayRef, const std::optional<at::Tensor>&,
                 const std::optional<at::Tensor>&, double);
  const auto found = c10::Dispatcher::singleton().findSchema({"fusednorm::layer_norm", ""});
  if (!found) {
    std::puts("fusednorm::layer_norm is not registered");
    return 1;
  }
  const auto x = at::ones({2, 4}).set_requires_grad(true);
  const auto bias = at::ones({4}).set_requires_grad(true);
  const c10::SymInt shape[] = {4};
  const auto y = found->typed<Signature>().call(x, shape, std::nullopt, bias, 1e-5);
  y.backward(at::ones({2, 4}));
  // A constant row has nothing but the bias left; the bias's gradient is the number of rows.
  const float value = y.data_ptr<float>()[7], gradient = bias.grad().data_ptr<float>()[0];
  std::printf("y = %g, dbeta = %g\n", static_cast<double>(value), static_cast<double>(gradient));
  return value == 1 && gradient == 2 ? 0 : 1;
}
