// SPDX-License-Identifier: Apache-2.0
// What the operators return, without computing it: shapes and dtypes for meta tensors, FakeTensor,
// torch.compile and torch.export, with symbolic sizes kept symbolic.
#include <ATen/ops/empty.h>

#include "checks.h"
#include "outputs.h"

namespace fusednorm::operators::meta {
namespace {

auto empty_as(const Tensor& tensor) {
  return [&tensor](Shape sizes, at::ScalarType dtype) {
    return at::empty_symint(sizes, tensor.options().dtype(dtype));
  };
}

}  // namespace

ForwardResults run(const ForwardArguments& arguments) {
  check(arguments, arguments.normalized_shape);
  return allocate(arguments, arguments.input->sym_sizes(), empty_as(*arguments.input));
}

BackwardResults run(const BackwardArguments& arguments) {
  check(arguments, arguments.normalized_shape);
  return allocate(arguments, arguments.saved->sym_sizes(), empty_as(*arguments.saved));
}

}  // namespace fusednorm::operators::meta
