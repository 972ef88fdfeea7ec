// Autograd of the forward operators: a C++ node for reverse mode and the tangents of forward mode.
//
// Each operator is differentiated as the function its schema says it is: mean and rstd are outputs
// with derivatives, and the backward operators have rules of their own (autograd_backward.cc). So
// second derivatives follow from the chain rule, and none is silently zero.
#include "autograd.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/DispatchKeySet.h>

#include "fusednorm/problem.h"

namespace fusednorm::operators::autograd {
namespace {

using derivatives::Dimensions;

/// From the gradients of y, mean and rstd (source x) or y and rstd (source y) to those of input,
/// weight and bias.
struct FusedLayerNormBackward : public torch::autograd::TraceableFunction {
  using TraceableFunction::TraceableFunction;

  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto self = getptr();
    const auto kept = kept_.unpack(source == Source::y ? self : nullptr);
    const auto weight = weight_.unpack();
    const auto bias = bias_.unpack();
    const auto [mean, rstd] = unpack_statistics(self);
    const auto& grad_out = gradients[0];
    const auto gradient = [&](size_t slot) {
      return slot < gradients.size() ? gradients[slot] : Tensor();
    };
    const auto grad_mean = source == Source::x ? gradient(1) : Tensor();
    const auto grad_rstd = gradient(source == Source::x ? 2 : 1);

    Three result;
    if (grad_out.defined()) {
      const Mask mask{task_should_compute_output(0), task_should_compute_output(1),
                      task_should_compute_output(2)};
      result = source == Source::x
                   ? backward_handle().call(grad_out, kept, normalized_shape, mean, rstd,
                                            optional(weight), optional(bias), mask)
                   : efficient_backward_handle().call(grad_out, kept, normalized_shape, rstd,
                                                      optional(weight), optional(bias), mask,
                                                      input_type);
    }
    auto& [dx, dweight, dbias] = result;
    if (task_should_compute_output(0) && (grad_mean.defined() || grad_rstd.defined())) {
      const auto saved = saved_values(source, kept, mean, rstd, weight, bias);
      const auto extra = derivatives::input_gradient_of_statistics(
          grad_mean, grad_rstd, saved, {static_cast<int64_t>(normalized_shape.size())});
      dx = derivatives::add(dx, cast(extra, input_type));
    }
    return {std::move(dx), std::move(dweight), std::move(dbias)};
  }

  std::string name() const override { return "FusedLayerNormBackward"; }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto* variable : {&kept_, &weight_, &bias_, &mean_, &rstd_}) variable->reset_data();
  }

  Source source = Source::x;
  bool statistics_are_outputs = true;
  at::ScalarType input_type = at::kFloat;
  std::vector<c10::SymInt> normalized_shape;
  SavedVariable kept_;  // the input, or the output
  SavedVariable weight_;
  SavedVariable bias_;
  SavedVariable mean_;
  SavedVariable rstd_;

 private:
  /// With their history, for second derivatives. Where the caller never saw mean and rstd they were
  /// saved without one, which is most of the time all that is needed and costs less; a graph of the
  /// backward pass then makes them outputs 1 and 2 of this node after all.
  std::tuple<Tensor, Tensor> unpack_statistics(const c10::intrusive_ptr<Node>& self) {
    if (statistics_are_outputs) {
      return {source == Source::x ? mean_.unpack(self) : Tensor(), rstd_.unpack(self)};
    }
    const auto mean = mean_.unpack();
    const auto rstd = rstd_.unpack();
    if (!c10::GradMode::is_enabled()) return {mean, rstd};
    if (num_inputs() == 1) {
      add_input_metadata(mean);
      add_input_metadata(rstd);
    }
    const auto as_output = [&](const Tensor& saved, uint32_t slot) {
      // Not detach(): that would drop tangents, also those of an outer torch.func transform.
      auto output = saved.tensor_data();
      torch::autograd::impl::set_gradient_edge(output, {self, slot});
      set_tangent(output, tangent(saved));
      return output;
    };
    return {as_output(mean, 1), as_output(rstd, 2)};
  }
};

/// The node before the operator runs.
c10::intrusive_ptr<FusedLayerNormBackward> make_node(Source source, const Tensor& input,
                                                     Shape normalized_shape, const Optional& weight,
                                                     const Optional& bias) {
  auto node = c10::make_intrusive<FusedLayerNormBackward>();
  node->set_next_edges(torch::autograd::collect_next_edges(input, weight, bias));
  node->source = source;
  node->input_type = input.scalar_type();
  node->normalized_shape = normalized_shape.vec();
  if (source == Source::x) node->kept_ = SavedVariable(input, /*is_output=*/false);
  if (given(weight)) node->weight_ = SavedVariable(*weight, /*is_output=*/false);
  if (given(bias)) node->bias_ = SavedVariable(*bias, /*is_output=*/false);
  return node;
}

/// What this call has to be recorded for.
struct Recording {
  Recording(const Tensor& input, const Optional& weight, const Optional& bias)
      : gradient(torch::autograd::compute_requires_grad(input, weight, bias)),
        tangent(torch::autograd::isFwGradDefined(input) ||
                torch::autograd::isFwGradDefined(weight) ||
                torch::autograd::isFwGradDefined(bias)) {}
  bool gradient;
  bool tangent;
};

/// Sets the tangents of the outputs. mean may be undefined: the memory-efficient pair has none, and
/// then h is known from y only where no weight is zero, so the mean is taken again.
void set_tangents(const Tensor& input, size_t inner_dims, const Optional& weight,
                  const Optional& bias, const Tensor& y, const Tensor& mean, const Tensor& rstd) {
  const auto compute = rstd.scalar_type();
  const Dimensions dimensions{static_cast<int64_t>(inner_dims)};
  const auto x = cast(primal(input), compute);
  std::vector<int64_t> columns(inner_dims);
  std::iota(columns.begin(), columns.end(), input.dim() - static_cast<int64_t>(inner_dims));
  const auto center = mean.defined() ? primal(mean) : x.mean(columns, /*keepdim=*/true);
  const auto saved = derivatives::saved_from_input(x, center, primal(rstd),
                                                   cast(primal(value_of(weight)), compute));
  const auto tangents = derivatives::forward_tangents(
      cast(tangent(input), compute), cast(tangent(value_of(weight)), compute),
      cast(tangent(value_of(bias)), compute), saved, dimensions);
  set_tangent(y, cast(tangents.output, y.scalar_type()));
  set_tangent(mean, tangents.mean);
  set_tangent(rstd, tangents.rstd);
}

Three record_forward(c10::DispatchKeySet keys, const Recording& recording, bool return_statistics,
                     const Tensor& input, Shape normalized_shape, const Optional& weight,
                     const Optional& bias, double eps, Dtype dtype) {
  c10::intrusive_ptr<FusedLayerNormBackward> node;
  if (recording.gradient) node = make_node(Source::x, input, normalized_shape, weight, bias);
  auto result = [&] {
    const at::AutoDispatchBelowADInplaceOrView guard;
    return forward_handle().redispatch(keys & c10::after_autograd_keyset, input, normalized_shape,
                                       weight, bias, eps, dtype);
  }();
  const auto& [y, mean, rstd] = result;
  if (node) {
    torch::autograd::set_history(y, node);
    if (return_statistics) {
      torch::autograd::set_history(mean, node);
      torch::autograd::set_history(rstd, node);
    }
  }
  if (recording.tangent) {
    set_tangents(input, normalized_shape.size(), weight, bias, y, mean, rstd);
  }
  if (node) {  // last, so that what is saved carries its tangent: forward over reverse needs it
    node->statistics_are_outputs = return_statistics;
    node->mean_ = SavedVariable(mean, /*is_output=*/return_statistics);
    node->rstd_ = SavedVariable(rstd, /*is_output=*/return_statistics);
  }
  return result;
}

}  // namespace

Three forward(c10::DispatchKeySet keys, const Tensor& input, Shape normalized_shape,
              const Optional& weight, const Optional& bias, double eps, Dtype dtype) {
  return record_forward(keys, Recording(input, weight, bias), /*return_statistics=*/true, input,
                        normalized_shape, weight, bias, eps, dtype);
}

Two efficient_forward(c10::DispatchKeySet keys, const Tensor& input, Shape normalized_shape,
                      const Optional& weight, const Optional& bias, double eps, Dtype dtype) {
  const Recording recording(input, weight, bias);
  c10::intrusive_ptr<FusedLayerNormBackward> node;
  if (recording.gradient) node = make_node(Source::y, input, normalized_shape, weight, bias);
  auto result = [&] {
    const at::AutoDispatchBelowADInplaceOrView guard;
    return efficient_forward_handle().redispatch(keys & c10::after_autograd_keyset, input,
                                                 normalized_shape, weight, bias, eps, dtype);
  }();
  const auto& [y, rstd] = result;
  if (node) {
    torch::autograd::set_history(y, node);
    torch::autograd::set_history(rstd, node);
  }
  if (recording.tangent) {
    set_tangents(input, normalized_shape.size(), weight, bias, y, Tensor(), rstd);
  }
  if (node) {
    node->kept_ = SavedVariable(y, /*is_output=*/true);
    node->rstd_ = SavedVariable(rstd, /*is_output=*/true);
  }
  return result;
}

Tensor layer_norm(c10::DispatchKeySet keys, const Tensor& input, Shape normalized_shape,
                  const Optional& weight, const Optional& bias, double eps) {
  // Statistics are computed only where a derivative will want them.
  const Recording recording(input, weight, bias);
  if (recording.gradient || recording.tangent) {
    return std::get<0>(record_forward(keys, recording, /*return_statistics=*/false, input,
                                      normalized_shape, weight, bias, eps, std::nullopt));
  }
  const at::AutoDispatchBelowADInplaceOrView guard;
  return layer_norm_handle().redispatch(keys & c10::after_autograd_keyset, input, normalized_shape,
                                        weight, bias, eps);
}

}  // namespace fusednorm::operators::autograd
