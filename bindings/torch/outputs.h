// SPDX-License-Identifier: Apache-2.0
// Shapes and dtypes of what the operators return, for kernels (integer sizes) and meta functions
// (symbolic sizes) alike. `empty(sizes, dtype)` allocates.
#pragma once

#include <c10/util/SmallVector.h>

#include <algorithm>

#include "arguments.h"

namespace fusednorm::operators {

template <typename Sizes, typename Empty>
ForwardResults allocate(const ForwardArguments& arguments, Sizes input_sizes, Empty empty) {
  ForwardResults results;
  if (!arguments.in_place) {
    results.output = empty(input_sizes, arguments.output_type());
    if (arguments.has_residual()) results.sum = empty(input_sizes, arguments.row().scalar_type());
  }
  if (!arguments.save_mean && !arguments.save_rstd) return results;
  using Size = typename Sizes::value_type;
  c10::SmallVector<Size, 6> sizes(input_sizes.begin(), input_sizes.end());
  const auto inner_dims = static_cast<std::ptrdiff_t>(arguments.normalized_shape.size());
  std::fill(sizes.end() - inner_dims, sizes.end(), Size(1));
  const auto dtype = compute_type(arguments.input_type());
  if (arguments.save_mean) results.mean = empty(Sizes(sizes), dtype);
  if (arguments.save_rstd) results.rstd = empty(Sizes(sizes), dtype);
  return results;
}

/// How many dimensions weight and bias have: more than are normalised where every head has its own.
template <typename Arguments>
size_t parameter_dims(const Arguments& arguments) {
  for (const auto* parameter : {arguments.weight, arguments.bias}) {
    if (parameter != nullptr) return static_cast<size_t>(parameter->dim());
  }
  return arguments.normalized_shape.size();
}

template <typename Sizes, typename Empty>
BackwardResults allocate(const BackwardArguments& arguments, Sizes saved_sizes, Empty empty) {
  BackwardResults results;
  const auto [want_input, want_residual, want_weight, want_bias] = arguments.mask;
  const auto parameter_sizes = saved_sizes.slice(saved_sizes.size() - parameter_dims(arguments));
  if (want_input) results.input = empty(saved_sizes, arguments.input_type());
  if (want_residual) results.residual = empty(saved_sizes, arguments.saved->scalar_type());
  if (want_weight) results.weight = empty(parameter_sizes, parameter_type(arguments));
  if (want_bias) results.bias = empty(parameter_sizes, parameter_type(arguments));
  return results;
}

}  // namespace fusednorm::operators
