// SPDX-License-Identifier: Apache-2.0
// Autograd of the forward operators: a C++ node for reverse mode, and the tangents of forward mode.
#include <ATen/core/grad_mode.h>

#include <mutex>
#include <numeric>

#include "autograd.h"

namespace fusednorm::operators::autograd {
namespace {

using derivatives::Dimensions;

/// From the gradients of the output, mean (if the operation has one) and rstd to those of input,
/// weight and bias.
struct FusedNormBackward : public torch::autograd::TraceableFunction {
  using TraceableFunction::TraceableFunction;

  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto self = getptr();
    const auto saved = saved_.unpack(source == Source::y ? self : nullptr);
    const auto weight = weight_.unpack();
    const auto bias = bias_.unpack();
    const auto [mean, rstd] = unpack_statistics(self);
    const auto gradient_of = [&](size_t slot) {
      return slot < gradients.size() ? gradients[slot] : Tensor();
    };
    const auto grad_mean = has_mean ? gradient_of(1) : Tensor();
    const auto grad_rstd = gradient_of(rstd_slot());

    BackwardResults results;
    if (gradients[0].defined()) {
      BackwardArguments arguments;
      arguments.operation = operation;
      arguments.source = source;
      arguments.grad_out = &gradients[0];
      arguments.saved = &saved;
      arguments.mean = address_of(mean);
      arguments.rstd = &rstd;
      arguments.weight = address_of(weight);
      arguments.bias = address_of(bias);
      arguments.normalized_shape = normalized_shape;
      arguments.mask = {task_should_compute_output(0), task_should_compute_output(1),
                        task_should_compute_output(2)};
      arguments.dtype = input_type;
      results = derivative.backward(arguments);
    }
    if (task_should_compute_output(0) && (grad_mean.defined() || grad_rstd.defined())) {
      const auto extra = derivatives::input_gradient_of_statistics(
          grad_mean, grad_rstd, normalized_values(source, saved, mean, rstd, weight, bias),
          {inner_dims(normalized_shape)});
      results.input = derivatives::add(results.input, cast(extra, input_type));
    }
    return {std::move(results.input), std::move(results.weight), std::move(results.bias)};
  }

  std::string name() const override {
    return std::string("Fused") + class_name(operation) + "Backward";
  }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto* variable : {&saved_, &weight_, &bias_, &mean_, &rstd_}) variable->reset_data();
  }

  /// The node before the operator runs.
  void save_arguments(const ForwardArguments& arguments, Derivative how) {
    derivative = how;
    operation = arguments.operation;
    source = arguments.source;
    input_type = arguments.input_type();
    normalized_shape = arguments.normalized_shape.vec();
    if (source == Source::x) saved_ = save_input(arguments.input);
    weight_ = save_input(arguments.weight);
    bias_ = save_input(arguments.bias);
  }

  void save_results(const ForwardResults& results) {
    has_mean = results.mean.defined();
    const bool is_output = derivative.returns_statistics;
    if (source == Source::y) saved_ = SavedVariable(results.output, /*is_output=*/true);
    if (has_mean) mean_ = SavedVariable(results.mean, is_output);
    rstd_ = SavedVariable(results.rstd, is_output);
  }

 private:
  uint32_t rstd_slot() const { return has_mean ? 2 : 1; }

  /// The statistics with their history, for second derivatives. Where the caller never saw them
  /// they were saved without one: cheaper, and usually enough. If the backward pass is itself
  /// recorded, they become outputs of this node after all.
  std::tuple<Tensor, Tensor> unpack_statistics(const NodePointer& self) {
    if (derivative.returns_statistics) {
      return {has_mean ? mean_.unpack(self) : Tensor(), rstd_.unpack(self)};
    }
    const auto mean = mean_.unpack();
    const auto rstd = rstd_.unpack();
    if (!c10::GradMode::is_enabled()) return {mean, rstd};
    if (num_inputs() == 1) {
      if (has_mean) add_input_metadata(mean);
      add_input_metadata(rstd);
    }
    const auto as_output = [&](const Tensor& saved, uint32_t slot) {
      // Not detach(): that would drop tangents, also those of an outer torch.func transform.
      auto output = saved.tensor_data();
      torch::autograd::impl::set_gradient_edge(output, {self, slot});
      set_tangent(output, tangent(saved));
      return output;
    };
    return {has_mean ? as_output(mean, 1) : Tensor(), as_output(rstd, rstd_slot())};
  }

  Derivative derivative{};
  Operation operation = Operation::layer_norm;
  Source source = Source::x;
  bool has_mean = false;
  at::ScalarType input_type = at::kFloat;
  std::vector<c10::SymInt> normalized_shape;
  SavedVariable saved_;  // the input, or the output
  SavedVariable weight_;
  SavedVariable bias_;
  SavedVariable mean_;
  SavedVariable rstd_;
};

/// Sets the tangents of the results. The memory-efficient operator returns no mean, and its output
/// gives the normalised values only where no weight is zero, so the mean is computed again.
void set_tangents(const ForwardArguments& arguments, const ForwardResults& results) {
  const auto& input = *arguments.input;
  const auto compute = results.rstd.scalar_type();
  const auto inner = static_cast<int64_t>(arguments.normalized_shape.size());
  const auto weight = value_of(arguments.weight);
  const auto bias = value_of(arguments.bias);
  const auto x = cast(primal(input), compute);
  std::vector<int64_t> columns(inner);
  std::iota(columns.begin(), columns.end(), input.dim() - inner);
  const auto mean =
      results.mean.defined() ? primal(results.mean) : x.mean(columns, /*keepdim=*/true);
  const auto tangents = derivatives::forward_tangents(
      cast(tangent(input), compute), cast(tangent(weight), compute), cast(tangent(bias), compute),
      derivatives::saved_from_input(x, mean, primal(results.rstd), cast(primal(weight), compute)),
      {inner});
  set_tangent(results.output, tangents.output);
  set_tangent(results.mean, tangents.mean);
  set_tangent(results.rstd, tangents.rstd);
}

}  // namespace

ForwardResults record(const ForwardArguments& arguments, Recording recording, Derivative derivative,
                      c10::function_ref<ForwardResults()> run) {
  decltype(make_node<FusedNormBackward>(arguments.differentiable())) node;
  if (recording.gradient) {
    node = make_node<FusedNormBackward>(arguments.differentiable());
    node->save_arguments(arguments, derivative);
  }
  auto results = run();
  if (node) {
    torch::autograd::set_history(results.output, node);
    if (derivative.returns_statistics) {
      // An undefined mean would still take a slot.
      if (results.mean.defined()) torch::autograd::set_history(results.mean, node);
      torch::autograd::set_history(results.rstd, node);
    }
  }
  if (recording.tangent) set_tangents(arguments, results);
  // Last, so that what is saved carries its tangent: forward over reverse needs it.
  if (node) node->save_results(results);
  return results;
}

}  // namespace fusednorm::operators::autograd
