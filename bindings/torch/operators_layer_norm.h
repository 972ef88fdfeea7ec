// SPDX-License-Identifier: Apache-2.0
// LayerNorm's operators. dispatch.h explains the structs.
#pragma once

#include "dispatch.h"

namespace fusednorm::operators {

// Short names: these stand once for every argument of every operator.
using F = ForwardArguments;
using B = BackwardArguments;

inline constexpr std::tuple gradients{&BackwardResults::input, &BackwardResults::weight,
                                      &BackwardResults::bias};

struct LayerNormBackward {
  static constexpr auto name = "layer_norm_backward";
  static constexpr auto schema =
      "(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, Tensor rstd, "
      "Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)";
  static constexpr std::tuple arguments{&B::grad_out,       &B::saved,        &B::normalized_shape,
                                        &B::mean,           &B::rstd,         optional(&B::weight),
                                        optional(&B::bias), mask<3>(&B::mask)};
  static constexpr auto results = gradients;
  static B constants() { return {}; }
};

struct LayerNormForward {
  static constexpr auto name = "layer_norm_forward";
  static constexpr auto schema =
      "(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
      "float eps=1e-05, ScalarType? dtype=None) -> (Tensor, Tensor, Tensor)";
  static constexpr std::tuple arguments{
      &F::input,          &F::normalized_shape, optional(&F::weight),
      optional(&F::bias), required(&F::eps),    &F::dtype};
  static constexpr std::tuple results{&ForwardResults::output, &ForwardResults::mean,
                                      &ForwardResults::rstd};
  static F constants() { return {.save_mean = true, .save_rstd = true}; }
  using Recorded = LayerNormForward;
  using Derivative = LayerNormBackward;
};

/// Computes statistics only where a derivative needs them.
struct LayerNorm {
  static constexpr auto name = "layer_norm";
  static constexpr auto schema =
      "(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
      "float eps=1e-05) -> Tensor";
  static constexpr std::tuple arguments{&F::input, &F::normalized_shape, optional(&F::weight),
                                        optional(&F::bias), required(&F::eps)};
  static constexpr std::tuple results{&ForwardResults::output};
  static F constants() { return {}; }
  using Recorded = LayerNormForward;
  using Derivative = LayerNormBackward;
};

struct LayerNormMemoryEfficientBackward {
  static constexpr auto name = "layer_norm_memory_efficient_backward";
  static constexpr auto schema =
      "(Tensor grad_out, Tensor output, SymInt[] normalized_shape, Tensor rstd, Tensor? weight, "
      "Tensor? bias, bool[3] output_mask, ScalarType? dtype=None) -> (Tensor, Tensor, Tensor)";
  static constexpr std::tuple arguments{
      &B::grad_out,         &B::saved,          &B::normalized_shape, &B::rstd,
      optional(&B::weight), optional(&B::bias), mask<3>(&B::mask),    &B::dtype};
  static constexpr auto results = gradients;
  static B constants() { return {.source = Source::y}; }
};

/// Saves the output instead of the input for the backward pass.
struct LayerNormMemoryEfficientForward {
  static constexpr auto name = "layer_norm_memory_efficient_forward";
  static constexpr auto schema =
      "(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
      "float eps=1e-05, ScalarType? dtype=None) -> (Tensor, Tensor)";
  static constexpr auto arguments = LayerNormForward::arguments;
  static constexpr std::tuple results{&ForwardResults::output, &ForwardResults::rstd};
  static F constants() { return {.source = Source::y, .save_rstd = true}; }
  using Recorded = LayerNormMemoryEfficientForward;
  using Derivative = LayerNormMemoryEfficientBackward;
};

struct RoundedLayerNormBackward {
  static constexpr auto name = "layer_norm_rounded_backward";
  static constexpr auto schema =
      "(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, Tensor rstd, "
      "Tensor? weight, Tensor? bias, float offset, bool[3] output_mask) "
      "-> (Tensor, Tensor, Tensor)";
  static constexpr std::tuple arguments{&B::grad_out,       &B::saved,  &B::normalized_shape,
                                        &B::mean,           &B::rstd,   optional(&B::weight),
                                        optional(&B::bias), &B::offset, mask<3>(&B::mask)};
  static constexpr auto results = gradients;
  static B constants() { return {.narrow_parameters = true}; }
};

struct RoundedLayerNormForward {
  static constexpr auto name = "layer_norm_rounded_forward";
  static constexpr auto schema =
      "(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
      "float eps=1e-05, *, float offset=0., str rounding=\"once\", ScalarType? dtype=None) "
      "-> (Tensor, Tensor, Tensor)";
  static constexpr std::tuple arguments{
      &F::input,         &F::normalized_shape, optional(&F::weight), optional(&F::bias),
      required(&F::eps), &F::offset,           named(&F::rounding),  &F::dtype};
  static constexpr auto results = LayerNormForward::results;
  static F constants() { return {.save_mean = true, .save_rstd = true, .narrow_parameters = true}; }
  using Recorded = RoundedLayerNormForward;
  using Derivative = RoundedLayerNormBackward;
};

/// With what layer_norm's schema lacks: offset, rounding, dtype, and 16-bit parameters beside f32.
struct RoundedLayerNorm {
  static constexpr auto name = "layer_norm_rounded";
  static constexpr auto schema =
      "(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
      "float eps=1e-05, *, float offset=0., str rounding=\"once\", ScalarType? dtype=None) "
      "-> Tensor";
  static constexpr auto arguments = RoundedLayerNormForward::arguments;
  static constexpr std::tuple results{&ForwardResults::output};
  static F constants() { return {.narrow_parameters = true}; }
  using Recorded = RoundedLayerNormForward;
  using Derivative = RoundedLayerNormBackward;
};

}  // namespace fusednorm::operators
