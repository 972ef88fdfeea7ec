// SPDX-License-Identifier: Apache-2.0
// Autograd of the backward operators: second derivatives, and tangents of first derivatives.
#include <mutex>

#include "autograd.h"

namespace fusednorm::operators::autograd {
namespace {

using derivatives::Norm;
using derivatives::sum_columns;
using derivatives::sum_of;
using derivatives::sum_rows;

Tensor centred(const Tensor& values, const Tensor& mean) {
  return mean.defined() ? values - mean : values;
}

/// From the gradients of dx, dresidual, dweight and dbias to those of the backward operator's
/// tensors, in the order of BackwardArguments::differentiable().
struct FusedNormBackwardBackward : public torch::autograd::TraceableFunction {
  using TraceableFunction::TraceableFunction;

  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto grad_out = grad_out_.unpack();
    const auto grad_sum = grad_sum_.unpack();
    const auto saved = saved_.unpack();
    const auto mean = mean_.unpack();
    const auto rstd = rstd_.unpack();
    const auto weight = weight_.unpack();
    const auto bias = bias_.unpack();
    const auto compute = rstd.scalar_type();
    const auto values = normalized_values(source, offset, saved, mean, rstd, weight, bias);
    const auto grad_dx = sum_of(cast(gradients[0], compute), cast(gradients[1], compute));
    const auto terms = derivatives::backward_gradients(grad_dx, cast(gradients[2], compute),
                                                       cast(gradients[3], compute),
                                                       cast(grad_out, compute), values, norm);

    auto to_weight = terms.weight;
    auto to_rstd = terms.rstd;
    Tensor to_saved, to_mean, to_bias;
    const auto& through = terms.normalized;
    if (through.defined() && source == Source::x) {
      // h = (x - mean) rstd, or x rstd
      to_saved = through * rstd;
      if (mean.defined()) to_mean = -sum_columns(to_saved, norm);
      to_rstd = sum_of(to_rstd, sum_columns(through * centred(cast(saved, compute), mean), norm));
    } else if (through.defined()) {
      // h = (y - b) / w
      to_saved = values.weight.defined() ? through / values.weight : through;
      if (bias.defined()) to_bias = -sum_rows(to_saved, norm);
      if (weight.defined()) {
        to_weight = sum_of(to_weight, -sum_rows(to_saved * values.normalized, norm));
      }
    }

    variable_list result;
    result.reserve(7);
    const auto append = [&](const Tensor& gradient, const Tensor& of) {
      const bool wanted = gradient.defined() && task_should_compute_output(result.size());
      result.push_back(wanted ? cast(gradient, of.scalar_type()) : Tensor());
    };
    append(terms.grad_out, grad_out);
    append(grad_sum.defined() ? grad_dx : Tensor(), grad_sum);
    append(to_saved, saved);
    append(to_mean, mean);
    append(to_rstd, rstd);
    append(to_weight, weight);
    append(to_bias, bias);
    return result;
  }

  std::string name() const override {
    return std::string("Fused") + class_name(norm.operation) + "BackwardBackward";
  }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto* variable : {&grad_out_, &grad_sum_, &saved_, &mean_, &rstd_, &weight_, &bias_}) {
      variable->reset_data();
    }
  }

  void save_arguments(const BackwardArguments& arguments) {
    source = arguments.source;
    offset = arguments.offset;
    norm = derivatives::norm_of(arguments);
    grad_out_ = save_input(arguments.grad_out);
    grad_sum_ = save_input(arguments.grad_sum);
    saved_ = save_input(arguments.saved);
    mean_ = save_input(arguments.mean);
    rstd_ = save_input(arguments.rstd);
    weight_ = save_input(arguments.weight);
    bias_ = save_input(arguments.bias);
  }

 private:
  Source source = Source::x;
  double offset = 0;
  Norm norm;
  SavedVariable grad_out_;
  SavedVariable grad_sum_;
  SavedVariable saved_;
  SavedVariable mean_;
  SavedVariable rstd_;
  SavedVariable weight_;
  SavedVariable bias_;
};

/// The tangent of the normalised values h, from those of what h is computed from.
Tensor normalized_tangent(const BackwardArguments& arguments, const derivatives::Saved& values) {
  const auto compute = values.rstd.scalar_type();
  const auto& saved = *arguments.saved;
  auto through = cast(tangent(saved), compute);
  if (arguments.source == Source::x) {
    // h = (x - mean) rstd, or x rstd
    const auto mean = value_of(arguments.mean);
    const auto rstd_tangent = tangent(*arguments.rstd);
    if (through.defined()) through = through * values.rstd;
    if (mean.defined() && tangent(mean).defined()) {
      through = sum_of(through, -(tangent(mean) * values.rstd).expand_as(values.normalized));
    }
    if (rstd_tangent.defined()) {
      through = sum_of(through, centred(cast(primal(saved), compute), primal(mean)) * rstd_tangent);
    }
    return through;
  }
  // h = (y - b) / w
  const auto bias_tangent = cast(tangent(value_of(arguments.bias)), compute);
  const auto weight_tangent = cast(tangent(value_of(arguments.weight)), compute);
  if (bias_tangent.defined()) {
    through = sum_of(through, -bias_tangent.expand_as(values.normalized));
  }
  if (weight_tangent.defined()) through = sum_of(through, -(values.normalized * weight_tangent));
  if (through.defined() && values.weight.defined()) through = through / values.weight;
  return through;
}

void set_tangents(const BackwardArguments& arguments, const BackwardResults& results) {
  const auto weight = value_of(arguments.weight);
  const auto grad_out = value_of(arguments.grad_out);
  const auto& rstd = *arguments.rstd;
  const auto compute = rstd.scalar_type();
  const auto values =
      normalized_values(arguments.source, arguments.offset, primal(*arguments.saved),
                        primal(value_of(arguments.mean)), primal(rstd), primal(weight),
                        primal(value_of(arguments.bias)));
  auto tangents = derivatives::backward_tangents(
      cast(tangent(grad_out), compute), normalized_tangent(arguments, values), tangent(rstd),
      cast(tangent(weight), compute), cast(primal(grad_out), compute), values,
      derivatives::norm_of(arguments));
  const auto grad_sum = value_of(arguments.grad_sum);
  const auto dx = sum_of(tangents.input, cast(tangent(grad_sum), compute));
  set_tangent(results.input, dx);
  set_tangent(results.residual, dx);
  set_tangent(results.weight, tangents.weight);
  set_tangent(results.bias, tangents.bias);
}

}  // namespace

BackwardResults record(const BackwardArguments& arguments, Recording recording,
                       c10::function_ref<BackwardResults()> run) {
  decltype(make_node<FusedNormBackwardBackward>(arguments.differentiable())) node;
  if (recording.gradient) {
    node = make_node<FusedNormBackwardBackward>(arguments.differentiable());
    node->save_arguments(arguments);
  }
  auto results = run();
  if (node) {
    torch::autograd::set_history(results.input, node);
    torch::autograd::set_history(results.residual, node);
    torch::autograd::set_history(results.weight, node);
    torch::autograd::set_history(results.bias, node);
  }
  if (recording.tangent) set_tangents(arguments, results);
  return results;
}

}  // namespace fusednorm::operators::autograd
