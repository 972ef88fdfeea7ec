// SPDX-License-Identifier: Apache-2.0
// RMSNorm's operators. The first four arguments have the names and the order of aten::rms_norm.
#pragma once

#include "operators_layer_norm.h"

namespace fusednorm::operators {

struct RmsNormBackward {
  static constexpr auto name = "rms_norm_backward";
  static constexpr auto schema =
      "(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor rstd, Tensor? weight, "
      "Tensor? bias, float offset, bool[3] output_mask) -> (Tensor, Tensor, Tensor)";
  static constexpr std::tuple arguments{
      &B::grad_out,         &B::saved,          &B::normalized_shape, &B::rstd,
      optional(&B::weight), optional(&B::bias), &B::offset,           mask<3>(&B::mask)};
  static constexpr auto results = gradients;
  static B constants() { return {.operation = Operation::rms_norm, .narrow_parameters = true}; }
};

struct RmsNormForward {
  static constexpr auto name = "rms_norm_forward";
  static constexpr auto schema =
      "(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None, "
      "Tensor? bias=None, *, float offset=0., str rounding=\"once\", ScalarType? dtype=None) "
      "-> (Tensor, Tensor)";
  static constexpr std::tuple arguments{
      &F::input,          &F::normalized_shape, optional(&F::weight), &F::eps,
      optional(&F::bias), &F::offset,           named(&F::rounding),  &F::dtype};
  static constexpr std::tuple results{&ForwardResults::output, &ForwardResults::rstd};
  static F constants() {
    return {.operation = Operation::rms_norm, .save_rstd = true, .narrow_parameters = true};
  }
  using Recorded = RmsNormForward;
  using Derivative = RmsNormBackward;
};

/// Computes statistics only where a derivative needs them.
struct RmsNorm {
  static constexpr auto name = "rms_norm";
  static constexpr auto schema =
      "(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None, "
      "Tensor? bias=None, *, float offset=0., str rounding=\"once\", ScalarType? dtype=None) "
      "-> Tensor";
  static constexpr auto arguments = RmsNormForward::arguments;
  static constexpr std::tuple results{&ForwardResults::output};
  static F constants() { return {.operation = Operation::rms_norm, .narrow_parameters = true}; }
  using Recorded = RmsNormForward;
  using Derivative = RmsNormBackward;
};

struct RmsNormMemoryEfficientBackward {
  static constexpr auto name = "rms_norm_memory_efficient_backward";
  static constexpr auto schema =
      "(Tensor grad_out, Tensor output, SymInt[] normalized_shape, Tensor rstd, Tensor? weight, "
      "Tensor? bias, float offset, bool[3] output_mask, ScalarType? dtype=None) "
      "-> (Tensor, Tensor, Tensor)";
  static constexpr std::tuple arguments{
      &B::grad_out,       &B::saved,  &B::normalized_shape, &B::rstd, optional(&B::weight),
      optional(&B::bias), &B::offset, mask<3>(&B::mask),    &B::dtype};
  static constexpr auto results = gradients;
  static B constants() {
    return {.operation = Operation::rms_norm, .source = Source::y, .narrow_parameters = true};
  }
};

/// Saves the output instead of the input for the backward pass.
struct RmsNormMemoryEfficientForward {
  static constexpr auto name = "rms_norm_memory_efficient_forward";
  static constexpr auto schema = RmsNormForward::schema;
  static constexpr auto arguments = RmsNormForward::arguments;
  static constexpr auto results = RmsNormForward::results;
  static F constants() {
    return {.operation = Operation::rms_norm,
            .source = Source::y,
            .save_rstd = true,
            .narrow_parameters = true};
  }
  using Recorded = RmsNormMemoryEfficientForward;
  using Derivative = RmsNormMemoryEfficientBackward;
};

}  // namespace fusednorm::operators
