// Autograd of the backward operators: second derivatives and tangents of first derivatives.
#include "autograd.h"

namespace fusednorm::operators::autograd {
namespace {

using derivatives::Dimensions;

/// From the gradients of dx, dweight and dbias to those of the backward operator's tensors.
/// Edges: grad_out, kept, [mean,] rstd, weight, bias, with mean only where the source is x.
struct FusedLayerNormBackwardBackward : public torch::autograd::TraceableFunction {
  using TraceableFunction::TraceableFunction;

  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto grad_out = grad_out_.unpack();
    const auto kept = kept_.unpack();
    const auto mean = mean_.unpack();
    const auto rstd = rstd_.unpack();
    const auto weight = weight_.unpack();
    const auto bias = bias_.unpack();
    const auto compute = rstd.scalar_type();
    const Dimensions dimensions{inner_dims};
    const auto saved = saved_values(source, kept, mean, rstd, weight, bias);
    const auto terms = derivatives::backward_gradients(
        cast(gradients[0], compute), cast(gradients[1], compute), cast(gradients[2], compute),
        cast(grad_out, compute), saved, dimensions);

    auto to_weight = terms.weight;
    auto to_rstd = terms.rstd;
    Tensor to_kept, to_mean, to_bias;
    const auto& through = terms.normalized;
    if (through.defined() && source == Source::x) {
      // h = (x - mean) rstd
      to_kept = through * rstd;
      to_mean = -derivatives::sum_columns(to_kept, dimensions);
      to_rstd = derivatives::add(
          to_rstd, derivatives::sum_columns(through * (cast(kept, compute) - mean), dimensions));
    } else if (through.defined()) {
      // h = (y - b) / w
      to_kept = saved.weight.defined() ? through / saved.weight : through;
      if (bias.defined()) to_bias = -derivatives::sum_rows(to_kept, dimensions);
      if (weight.defined()) {
        to_weight = derivatives::add(
            to_weight, -derivatives::sum_rows(to_kept * saved.normalized, dimensions));
      }
    }

    variable_list result;
    result.reserve(6);
    const auto append = [&](const Tensor& gradient, const Tensor& of) {
      const bool wanted = gradient.defined() && task_should_compute_output(result.size());
      result.push_back(wanted ? cast(gradient, of.scalar_type()) : Tensor());
    };
    append(terms.grad_out, grad_out);
    append(to_kept, kept);
    if (source == Source::x) append(to_mean, mean);
    append(to_rstd, rstd);
    append(to_weight, weight);
    append(to_bias, bias);
    return result;
  }

  std::string name() const override { return "FusedLayerNormBackwardBackward"; }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto* variable : {&grad_out_, &kept_, &mean_, &rstd_, &weight_, &bias_}) {
      variable->reset_data();
    }
  }

  Source source = Source::x;
  int64_t inner_dims = 0;
  SavedVariable grad_out_;
  SavedVariable kept_;
  SavedVariable mean_;
  SavedVariable rstd_;
  SavedVariable weight_;
  SavedVariable bias_;
};

struct Arguments {
  Source source;
  int64_t inner_dims;
  const Tensor& grad_out;
  const Tensor& kept;
  Tensor mean;  // undefined where the source is y
  const Tensor& rstd;
  const Optional& weight;
  const Optional& bias;
};

/// Below autograd in the common case of one backward pass: neither node nor tangent.
template <typename Redispatch>
Three differentiate(const Arguments& arguments, Redispatch redispatch) {
  const auto& [source, inner_dims, grad_out, kept, mean, rstd, weight, bias] = arguments;
  c10::intrusive_ptr<FusedLayerNormBackwardBackward> node;
  if (torch::autograd::compute_requires_grad(grad_out, kept, mean, rstd, weight, bias)) {
    node = c10::make_intrusive<FusedLayerNormBackwardBackward>();
    node->set_next_edges(
        source == Source::x
            ? torch::autograd::collect_next_edges(grad_out, kept, mean, rstd, weight, bias)
            : torch::autograd::collect_next_edges(grad_out, kept, rstd, weight, bias));
    node->source = source;
    node->inner_dims = inner_dims;
    node->grad_out_ = SavedVariable(grad_out, /*is_output=*/false);
    node->kept_ = SavedVariable(kept, /*is_output=*/false);
    if (mean.defined()) node->mean_ = SavedVariable(mean, /*is_output=*/false);
    node->rstd_ = SavedVariable(rstd, /*is_output=*/false);
    if (given(weight)) node->weight_ = SavedVariable(*weight, /*is_output=*/false);
    if (given(bias)) node->bias_ = SavedVariable(*bias, /*is_output=*/false);
  }
  auto result = [&] {
    const at::AutoDispatchBelowADInplaceOrView guard;
    return redispatch();
  }();
  if (node) {
    torch::autograd::set_history(std::get<0>(result), node);
    torch::autograd::set_history(std::get<1>(result), node);
    torch::autograd::set_history(std::get<2>(result), node);
  }
  bool any = torch::autograd::isFwGradDefined(weight) || torch::autograd::isFwGradDefined(bias);
  for (const auto* tensor : {&grad_out, &kept, &mean, &rstd}) {
    any = any || torch::autograd::isFwGradDefined(*tensor);
  }
  if (any) {
    const auto weight_value = value_of(weight);
    const auto bias_value = value_of(bias);
    const auto compute = rstd.scalar_type();
    const auto saved = saved_values(source, primal(kept), primal(mean), primal(rstd),
                                    primal(weight_value), primal(bias_value));
    const auto kept_tangent = cast(tangent(kept), compute);
    const auto rstd_tangent = tangent(rstd);
    const auto weight_tangent = cast(tangent(weight_value), compute);
    Tensor through;
    if (source == Source::x) {
      // h = (x - mean) rstd
      if (kept_tangent.defined()) through = kept_tangent * saved.rstd;
      if (tangent(mean).defined()) {
        through =
            derivatives::add(through, -(tangent(mean) * saved.rstd).expand_as(saved.normalized));
      }
      if (rstd_tangent.defined()) {
        through =
            derivatives::add(through, (cast(primal(kept), compute) - primal(mean)) * rstd_tangent);
      }
    } else {
      // h = (y - b) / w
      if (kept_tangent.defined()) through = kept_tangent;
      if (tangent(bias_value).defined()) {
        through = derivatives::add(through,
                                   -cast(tangent(bias_value), compute).expand_as(saved.normalized));
      }
      if (weight_tangent.defined()) {
        through = derivatives::add(through, -(saved.normalized * weight_tangent));
      }
      if (through.defined() && saved.weight.defined()) through = through / saved.weight;
    }
    const auto tangents = derivatives::backward_tangents(
        cast(tangent(grad_out), compute), through, rstd_tangent, weight_tangent,
        cast(primal(grad_out), compute), saved, {inner_dims});
    const auto set = [](const Tensor& output, const Tensor& value) {
      if (output.defined()) set_tangent(output, cast(value, output.scalar_type()));
    };
    set(std::get<0>(result), std::get<0>(tangents));
    set(std::get<1>(result), std::get<1>(tangents));
    set(std::get<2>(result), std::get<2>(tangents));
  }
  return result;
}

}  // namespace

Three backward(c10::DispatchKeySet keys, const Tensor& grad_out, const Tensor& input,
               Shape normalized_shape, const Tensor& mean, const Tensor& rstd,
               const Optional& weight, const Optional& bias, Mask mask) {
  const auto inner_dims = static_cast<int64_t>(normalized_shape.size());
  return differentiate({Source::x, inner_dims, grad_out, input, mean, rstd, weight, bias}, [&] {
    return backward_handle().redispatch(keys & c10::after_autograd_keyset, grad_out, input,
                                        normalized_shape, mean, rstd, weight, bias, mask);
  });
}

Three efficient_backward(c10::DispatchKeySet keys, const Tensor& grad_out, const Tensor& output,
                         Shape normalized_shape, const Tensor& rstd, const Optional& weight,
                         const Optional& bias, Mask mask, Dtype dtype) {
  const auto inner_dims = static_cast<int64_t>(normalized_shape.size());
  return differentiate(
      {Source::y, inner_dims, grad_out, output, Tensor(), rstd, weight, bias}, [&] {
        return efficient_backward_handle().redispatch(keys & c10::after_autograd_keyset, grad_out,
                                                      output, normalized_shape, rstd, weight, bias,
                                                      mask, dtype);
      });
}

}  // namespace fusednorm::operators::autograd
