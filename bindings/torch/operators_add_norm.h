// SPDX-License-Identifier: Apache-2.0
// The norm of input + residual: the sum is rounded to the dtype of residual, normalised as it is
// stored, and returned beside the output. The gradient of input serves residual too where they
// share a dtype; then output_mask[1] is false.
#pragma once

#include "operators_layer_norm.h"

namespace fusednorm::operators {

inline constexpr std::tuple gradients_of_sum{&BackwardResults::input, &BackwardResults::residual,
                                             &BackwardResults::weight, &BackwardResults::bias};
inline constexpr std::tuple output_and_sum{&ForwardResults::output, &ForwardResults::sum};

// ---- RMSNorm

struct AddRmsNormBackward {
  static constexpr auto name = "add_rms_norm_backward";
  static constexpr auto schema =
      "(Tensor? grad_out, Tensor? grad_sum, Tensor sum, SymInt[] normalized_shape, Tensor rstd, "
      "Tensor? weight, Tensor? bias, float offset, bool[4] output_mask, ScalarType? dtype=None) "
      "-> (Tensor, Tensor, Tensor, Tensor)";
  static constexpr std::tuple arguments{
      optional(&B::grad_out), optional(&B::grad_sum), &B::saved,  &B::normalized_shape, &B::rstd,
      optional(&B::weight),   optional(&B::bias),     &B::offset, mask<4>(&B::mask),    &B::dtype};
  static constexpr auto results = gradients_of_sum;
  static B constants() {
    return {.operation = Operation::rms_norm, .of_sum = true, .narrow_parameters = true};
  }
};

struct AddRmsNormForward {
  static constexpr auto name = "add_rms_norm_forward";
  static constexpr auto schema =
      "(Tensor input, Tensor residual, SymInt[] normalized_shape, Tensor? weight=None, "
      "float? eps=None, Tensor? bias=None, *, float offset=0., str rounding=\"once\") "
      "-> (Tensor, Tensor, Tensor)";
  static constexpr std::tuple arguments{
      &F::input, &F::residual,       &F::normalized_shape, optional(&F::weight),
      &F::eps,   optional(&F::bias), &F::offset,           named(&F::rounding)};
  static constexpr std::tuple results{&ForwardResults::output, &ForwardResults::sum,
                                      &ForwardResults::rstd};
  static F constants() {
    return {.operation = Operation::rms_norm, .save_rstd = true, .narrow_parameters = true};
  }
  using Recorded = AddRmsNormForward;
  using Derivative = AddRmsNormBackward;
};

struct AddRmsNorm {
  static constexpr auto name = "add_rms_norm";
  static constexpr auto schema =
      "(Tensor input, Tensor residual, SymInt[] normalized_shape, Tensor? weight=None, "
      "float? eps=None, Tensor? bias=None, *, float offset=0., str rounding=\"once\") "
      "-> (Tensor, Tensor)";
  static constexpr auto arguments = AddRmsNormForward::arguments;
  static constexpr auto results = output_and_sum;
  static F constants() { return {.operation = Operation::rms_norm, .narrow_parameters = true}; }
  using Recorded = AddRmsNormForward;
  using Derivative = AddRmsNormBackward;
};

struct AddRmsNormInPlace {
  static constexpr auto name = "add_rms_norm_";
  static constexpr auto schema =
      "(Tensor(a!) input, Tensor(b!) residual, SymInt[] normalized_shape, Tensor? weight=None, "
      "float? eps=None, Tensor? bias=None, *, float offset=0., str rounding=\"once\") -> ()";
  static constexpr auto arguments = AddRmsNormForward::arguments;
  static constexpr std::tuple<> results{};
  static F constants() {
    return {.operation = Operation::rms_norm, .in_place = true, .narrow_parameters = true};
  }
};

// ---- LayerNorm

struct AddLayerNormBackward {
  static constexpr auto name = "add_layer_norm_backward";
  static constexpr auto schema =
      "(Tensor? grad_out, Tensor? grad_sum, Tensor sum, SymInt[] normalized_shape, Tensor mean, "
      "Tensor rstd, Tensor? weight, Tensor? bias, float offset, bool[4] output_mask, "
      "ScalarType? dtype=None) -> (Tensor, Tensor, Tensor, Tensor)";
  static constexpr std::tuple arguments{optional(&B::grad_out),
                                        optional(&B::grad_sum),
                                        &B::saved,
                                        &B::normalized_shape,
                                        &B::mean,
                                        &B::rstd,
                                        optional(&B::weight),
                                        optional(&B::bias),
                                        &B::offset,
                                        mask<4>(&B::mask),
                                        &B::dtype};
  static constexpr auto results = gradients_of_sum;
  static B constants() { return {.of_sum = true, .narrow_parameters = true}; }
};

struct AddLayerNormForward {
  static constexpr auto name = "add_layer_norm_forward";
  static constexpr auto schema =
      "(Tensor input, Tensor residual, SymInt[] normalized_shape, Tensor? weight=None, "
      "Tensor? bias=None, float eps=1e-05, *, float offset=0., str rounding=\"once\") "
      "-> (Tensor, Tensor, Tensor, Tensor)";
  static constexpr std::tuple arguments{
      &F::input,          &F::residual,      &F::normalized_shape, optional(&F::weight),
      optional(&F::bias), required(&F::eps), &F::offset,           named(&F::rounding)};
  static constexpr std::tuple results{&ForwardResults::output, &ForwardResults::sum,
                                      &ForwardResults::mean, &ForwardResults::rstd};
  static F constants() { return {.save_mean = true, .save_rstd = true, .narrow_parameters = true}; }
  using Recorded = AddLayerNormForward;
  using Derivative = AddLayerNormBackward;
};

struct AddLayerNorm {
  static constexpr auto name = "add_layer_norm";
  static constexpr auto schema =
      "(Tensor input, Tensor residual, SymInt[] normalized_shape, Tensor? weight=None, "
      "Tensor? bias=None, float eps=1e-05, *, float offset=0., str rounding=\"once\") "
      "-> (Tensor, Tensor)";
  static constexpr auto arguments = AddLayerNormForward::arguments;
  static constexpr auto results = output_and_sum;
  static F constants() { return {.narrow_parameters = true}; }
  using Recorded = AddLayerNormForward;
  using Derivative = AddLayerNormBackward;
};

struct AddLayerNormInPlace {
  static constexpr auto name = "add_layer_norm_";
  static constexpr auto schema =
      "(Tensor(a!) input, Tensor(b!) residual, SymInt[] normalized_shape, Tensor? weight=None, "
      "Tensor? bias=None, float eps=1e-05, *, float offset=0., str rounding=\"once\") -> ()";
  static constexpr auto arguments = AddLayerNormForward::arguments;
  static constexpr std::tuple<> results{};
  static F constants() { return {.in_place = true, .narrow_parameters = true}; }
};

}  // namespace fusednorm::operators
