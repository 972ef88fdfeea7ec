// SPDX-License-Identifier: Apache-2.0
// Autograd of the forward operators: a C++ node for reverse mode, and the tangents of forward mode.
#include <ATen/core/grad_mode.h>

#include <mutex>
#include <numeric>

#include "autograd.h"

namespace fusednorm::operators::autograd {
namespace {

/// From the gradients of the output, the sum (of an operator with a residual), mean (if the
/// operation has one) and rstd to those of input, residual, weight and bias.
struct FusedNormBackward : public torch::autograd::TraceableFunction {
  using TraceableFunction::TraceableFunction;

  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto self = getptr();
    const auto saved = saved_.unpack(saved_is_output() ? self : nullptr);
    const auto weight = weight_.unpack();
    const auto bias = bias_.unpack();
    const auto [mean, rstd] = unpack_statistics(self);
    const auto gradient_of = [&](size_t slot) {
      return slot < gradients.size() ? gradients[slot] : Tensor();
    };
    const auto grad_sum = has_residual() ? gradient_of(1) : Tensor();
    const auto grad_mean = has_mean ? gradient_of(mean_slot()) : Tensor();
    const auto grad_rstd = gradient_of(rstd_slot());
    const bool want_input = task_should_compute_output(0);
    const bool want_residual = task_should_compute_output(1);

    BackwardArguments arguments;
    arguments.operation = norm.operation;
    arguments.source = source;
    arguments.of_sum = has_residual();
    arguments.grad_out = address_of(gradients[0]);
    arguments.grad_sum = address_of(grad_sum);
    arguments.saved = &saved;
    arguments.mean = address_of(mean);
    arguments.rstd = &rstd;
    arguments.weight = address_of(weight);
    arguments.bias = address_of(bias);
    arguments.normalized_shape = normalized_shape;
    arguments.offset = offset;
    // One array serves input and residual where they share a dtype.
    arguments.mask.input = want_input || (want_residual && !residual_apart());
    arguments.mask.residual = want_residual && residual_apart();
    arguments.mask.weight = task_should_compute_output(2) && gradients[0].defined();
    arguments.mask.bias = task_should_compute_output(3) && gradients[0].defined();
    arguments.dtype = input_type;

    BackwardResults results;
    if (gradients[0].defined() || grad_sum.defined()) results = derivative.backward(arguments);
    if ((want_input || want_residual) && (grad_mean.defined() || grad_rstd.defined())) {
      const auto extra = derivatives::input_gradient_of_statistics(
          grad_mean, grad_rstd, normalized_values(source, offset, saved, mean, rstd, weight, bias),
          norm);
      if (arguments.mask.input) {
        results.input = derivatives::sum_of(results.input, cast(extra, input_type));
      }
      if (arguments.mask.residual) {
        results.residual = derivatives::sum_of(results.residual, cast(extra, *residual_type));
      }
    }
    if (want_residual && !residual_apart()) results.residual = results.input;
    if (!want_input) results.input = Tensor();
    return {std::move(results.input), std::move(results.residual), std::move(results.weight),
            std::move(results.bias)};
  }

  std::string name() const override {
    return std::string(has_residual() ? "FusedAdd" : "Fused") + class_name(norm.operation) +
           "Backward";
  }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto* variable : {&saved_, &weight_, &bias_, &mean_, &rstd_}) variable->reset_data();
  }

  /// The node before the operator runs.
  void save_arguments(const ForwardArguments& arguments, Derivative how) {
    derivative = how;
    norm = derivatives::norm_of(arguments);
    source = arguments.source;
    offset = arguments.offset;
    input_type = arguments.input_type();
    if (arguments.has_residual()) residual_type = arguments.residual->scalar_type();
    normalized_shape = arguments.normalized_shape.vec();
    if (!saved_is_output()) saved_ = save_input(arguments.input);
    weight_ = save_input(arguments.weight);
    bias_ = save_input(arguments.bias);
  }

  void save_results(const ForwardResults& results) {
    has_mean = results.mean.defined();
    const bool is_output = derivative.returns_statistics;
    if (saved_is_output()) {
      saved_ = SavedVariable(source == Source::y ? results.output : results.sum,
                             /*is_output=*/true);
    }
    if (has_mean) mean_ = SavedVariable(results.mean, is_output);
    rstd_ = SavedVariable(results.rstd, is_output);
  }

 private:
  bool has_residual() const { return residual_type.has_value(); }
  bool residual_apart() const { return has_residual() && *residual_type != input_type; }
  /// What backward starts from is the output or the sum, not the input.
  bool saved_is_output() const { return source == Source::y || has_residual(); }
  uint32_t mean_slot() const { return has_residual() ? 2 : 1; }
  uint32_t rstd_slot() const { return mean_slot() + (has_mean ? 1 : 0); }

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
    if (num_inputs() == mean_slot()) {
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
    return {has_mean ? as_output(mean, mean_slot()) : Tensor(), as_output(rstd, rstd_slot())};
  }

  Derivative derivative{};
  derivatives::Norm norm;
  Source source = Source::x;
  bool has_mean = false;
  double offset = 0;
  at::ScalarType input_type = at::kFloat;
  Dtype residual_type{};
  std::vector<c10::SymInt> normalized_shape;
  SavedVariable saved_;  // the input, the sum or the output
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
  const auto norm = derivatives::norm_of(arguments);
  const auto residual = value_of(arguments.residual);
  const auto weight = value_of(arguments.weight);
  const auto bias = value_of(arguments.bias);
  const auto x = cast(results.sum.defined() ? primal(results.sum) : primal(input), compute);
  auto mean = results.mean.defined() ? primal(results.mean) : Tensor();
  if (!mean.defined() && norm.operation == Operation::layer_norm) {
    std::vector<int64_t> columns(norm.inner);
    std::iota(columns.begin(), columns.end(), input.dim() - norm.inner);
    mean = x.mean(columns, /*keepdim=*/true);
  }
  const auto gamma = with_offset(cast(primal(weight), compute), arguments.offset);
  const auto tangents = derivatives::forward_tangents(
      derivatives::sum_of(cast(tangent(input), compute), cast(tangent(residual), compute)),
      cast(tangent(weight), compute), cast(tangent(bias), compute),
      derivatives::saved_from_input(x, mean, primal(results.rstd), gamma), norm);
  set_tangent(results.output, tangents.output);
  set_tangent(results.sum, tangents.sum);
  set_tangent(results.mean, tangents.mean);
  set_tangent(results.rstd, tangents.rstd);
}

}  // namespace

void refuse_in_place(const ForwardArguments& arguments, Recording recording) {
  const auto* op = operator_name(arguments);
  TORCH_CHECK(!recording, op, "_: works in place and has no derivative, but ",
              recording.gradient ? "a tensor requires a gradient" : "a tensor carries a tangent",
              ": use ", op, ", or torch.no_grad()");
}

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
    if (results.sum.defined()) torch::autograd::set_history(results.sum, node);
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
