// SPDX-License-Identifier: Apache-2.0
// The kernel of an operator for each dispatch key, derived from its signature.
#pragma once

#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include "autograd.h"
#include "checks.h"
#include "dispatch.h"

namespace fusednorm::operators {

/// Autocast on CUDA: f32, as PyTorch's own layer_norm. f64 stays as it is.
class CastToFloat {
 public:
  explicit CastToFloat(const Tensor& input) : is_double_(input.scalar_type() == at::kDouble) {}

  Tensor operator()(const Tensor& tensor) const {
    return at::autocast::cached_cast(at::kFloat, tensor, c10::DeviceType::CUDA);
  }
  Optional operator()(const Optional& tensor) const {
    return at::autocast::cached_cast(at::kFloat, tensor, c10::DeviceType::CUDA);
  }
  Dtype operator()(Dtype dtype) const {
    return dtype.has_value() && !is_double_ ? Dtype(at::kFloat) : dtype;
  }
  template <typename Other>
  Other operator()(Other other) const {
    return other;
  }

 private:
  bool is_double_;
  c10::impl::ExcludeDispatchKeyGuard no_autocast_{
      c10::DispatchKeySet(c10::DispatchKey::AutocastCUDA)};
};

template <typename Operator, typename = Signature<Operator>>
struct Kernels;

template <typename Operator, typename Return, typename... Parameters>
struct Kernels<Operator, Return(Parameters...)> {
  /// CPU, CUDA, Meta: the kernel of arguments.h.
  template <Results<Operator> (*run)(const Arguments<Operator>&)>
  static Return device(Parameters... parameters) {
    return pack<Operator>(run(gather<Operator>(parameters...)));
  }

  /// Autograd: straight on to the next key if no derivative can be asked for.
  static Return autograd(c10::DispatchKeySet keys, Parameters... parameters) {
    const auto below = keys & c10::after_autograd_keyset;
    const auto arguments = gather<Operator>(parameters...);
    const auto recording = autograd::recording_of(arguments);
    if constexpr (is_in_place<Operator>) {
      autograd::refuse_in_place(arguments, recording);
      const at::AutoDispatchBelowAutograd guard;
      return handle<Operator>().redispatch(below, parameters...);
    } else {
      if (recording) return record(below, arguments, recording);
      const at::AutoDispatchBelowADInplaceOrView guard;
      return handle<Operator>().redispatch(below, parameters...);
    }
  }

  /// ADInplaceOrView, for operators in place.
  static void count_versions(c10::DispatchKeySet keys, Parameters... parameters) {
    {
      const at::AutoDispatchBelowADInplaceOrView guard;
      handle<Operator>().redispatch(keys & c10::after_ADInplaceOrView_keyset, parameters...);
    }
    const auto arguments = gather<Operator>(parameters...);
    torch::autograd::impl::bump_version(*arguments.input);
    torch::autograd::impl::bump_version(*arguments.residual);
  }

  /// AutocastCUDA, for forward operators: the input comes first.
  static Return autocast(Parameters... parameters) {
    const CastToFloat cast(std::get<0>(std::tie(parameters...)));
    return handle<Operator>().call(cast(parameters)...);
  }

  /// Sparse, quantized, MKLDNN and nested tensors, with an error that names the argument.
  static void refuse(const c10::OperatorHandle& handle, torch::jit::Stack* stack) {
    refuse_layout(handle.schema(), *stack);
  }

 private:
  static Return record(c10::DispatchKeySet below, const Arguments<Operator>& arguments,
                       autograd::Recording recording) {
    if constexpr (is_forward<Operator>) {
      using Recorded = typename Operator::Recorded;
      constexpr autograd::Derivative derivative{call<typename Operator::Derivative>,
                                                std::is_same_v<Recorded, Operator>};
      return pack<Operator>(autograd::record(arguments, recording, derivative, [&] {
        const at::AutoDispatchBelowADInplaceOrView guard;
        return redispatch<Recorded>(below, arguments);
      }));
    } else {
      return pack<Operator>(autograd::record(arguments, recording, [&] {
        const at::AutoDispatchBelowADInplaceOrView guard;
        return redispatch<Operator>(below, arguments);
      }));
    }
  }
};

}  // namespace fusednorm::operators
