// SPDX-License-Identifier: Apache-2.0
// The kernels of one device: tensors in, a problem with raw pointers to the core, tensors out.
//
// Backend says how to allocate and how to run:
//   static Tensor empty(IntArrayRef sizes, ScalarType, const Tensor& like);
//   static void run(const Problem&, const Buffers&, const Tensor& like);
#pragma once

#include <cmath>
#include <string_view>

#include "checks.h"
#include "derivatives.h"
#include "fusednorm/status.h"
#include "outputs.h"
#include "rows.h"

namespace fusednorm::operators {

inline DType dtype_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return DType::f64;
    case at::kHalf:
      return DType::f16;
    case at::kBFloat16:
      return DType::bf16;
    default:
      return DType::f32;
  }
}

/// The fields that both problems have.
template <typename Problem, typename Arguments>
Problem problem_of(const Arguments& arguments, const Tensor& row, const Extent& extent) {
  Problem problem;
  problem.operation = arguments.operation;
  problem.rows = extent.rows;
  problem.cols = extent.cols;
  problem.x_dtype = dtype_of(arguments.input_type());
  problem.y_dtype = dtype_of(arguments.output_type());
  problem.param_dtype = dtype_of(parameter_type(arguments));
  problem.gamma_offset = arguments.offset;
  problem.has_residual = arguments.has_residual();
  if (problem.has_residual) problem.residual_dtype = dtype_of(row.scalar_type());
  const auto inner_dims = arguments.normalized_shape.size();
  const auto sizes = row.sizes();
  for (auto i = sizes.size() - parameter_dims(arguments); i < sizes.size() - inner_dims; ++i) {
    problem.param_groups *= sizes[i];
  }
  return problem;
}

inline void* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.mutable_data_ptr() : nullptr;
}

/// Raises what the core has refused, in PyTorch's words where the core speaks of gamma.
template <typename Problem>
void raise_unless_ok(const Problem& problem, const Status& status) {
  if (status.ok()) return;
  constexpr std::string_view zero_gamma = "gamma[";
  const std::string_view message = status.message();
  TORCH_CHECK(message.substr(0, zero_gamma.size()) != zero_gamma, name_of(problem.operation),
              ": weight", message.substr(zero_gamma.size() - 1, message.find(':') - 5),
              ", but the memory-efficient backward pass divides by weight + offset: expected no "
              "zero there; use memory_efficient=False");
  TORCH_CHECK(false, name_of(problem.operation), ": ", status.message());
}

template <typename Backend>
auto empty_on(const Tensor& like) {
  return [&like](at::IntArrayRef sizes, at::ScalarType dtype) {
    return Backend::empty(sizes, dtype, like);
  };
}

/// An eps that the core refuses and PyTorch computes with: negative, infinite or NaN.
inline ForwardResults run_unfused(const ForwardArguments& arguments) {
  auto results = derivatives::forward(arguments);
  if (arguments.in_place) {
    arguments.input->copy_(results.output);
    arguments.residual->copy_(results.sum);
  }
  return results;
}

template <typename Backend>
ForwardResults run_forward(const ForwardArguments& arguments) {
  const auto& input = *arguments.input;
  const auto eps = arguments.epsilon();
  check(arguments, C10_AS_INTARRAYREF_SLOW(arguments.normalized_shape));
  if (!(eps >= 0) || std::isinf(eps)) return run_unfused(arguments);

  const auto inner_dims = arguments.normalized_shape.size();
  const auto extent = extent_of(input, inner_dims);
  Rows x(arguments.input, inner_dims, extent);
  Rows residual(arguments.residual, inner_dims, extent);
  const Array gamma(arguments.weight);
  const Array beta(arguments.bias);

  auto problem = problem_of<ForwardProblem>(arguments, arguments.row(), extent);
  problem.rounding = arguments.rounding;
  problem.has_gamma = gamma.given();
  problem.has_beta = beta.given();
  problem.save_mean = arguments.save_mean;
  problem.save_rstd = arguments.save_rstd;
  problem.eps = eps;
  problem.inner_rows = Rows::settle({&x, &residual});
  problem.x_row_stride = x.row_stride();
  problem.x_outer_stride = x.outer_stride();
  problem.residual_row_stride = residual.row_stride();
  problem.residual_outer_stride = residual.outer_stride();

  auto results = allocate(arguments, input.sizes(), empty_on<Backend>(input));
  ForwardBuffers buffers;
  buffers.x = x.data();
  buffers.residual = residual.data();
  buffers.gamma = gamma.data();
  buffers.beta = beta.data();
  buffers.y = data_or_null(results.output);
  buffers.sum = data_or_null(results.sum);
  buffers.mean = data_or_null(results.mean);
  buffers.rstd = data_or_null(results.rstd);
  if (arguments.in_place) {
    buffers.y = x.mutable_data();
    problem.y_row_stride = x.row_stride();
    problem.y_outer_stride = x.outer_stride();
    buffers.sum = residual.mutable_data();
    problem.sum_row_stride = residual.row_stride();
    problem.sum_outer_stride = residual.outer_stride();
  }
  // No heads: nothing has elements.
  if (problem.param_groups > 0) Backend::run(problem, buffers, input);
  if (arguments.in_place) {
    x.write_back(input);
    residual.write_back(*arguments.residual);
  }
  return results;
}

template <typename Backend>
BackwardResults run_backward(const BackwardArguments& arguments) {
  const auto& saved = *arguments.saved;
  check(arguments, C10_AS_INTARRAYREF_SLOW(arguments.normalized_shape));
  const auto inner_dims = arguments.normalized_shape.size();
  const auto extent = extent_of(saved, inner_dims);
  const bool from_output = arguments.source == Source::y;
  Rows dy(arguments.grad_out, inner_dims, extent);
  Rows ds(arguments.grad_sum, inner_dims, extent);
  Rows values(arguments.saved, inner_dims, extent);
  const Array gamma(arguments.weight);
  const Array beta(from_output ? arguments.bias : nullptr);
  const Array mean(arguments.mean);
  const Array rstd(arguments.rstd);

  auto problem = problem_of<BackwardProblem>(arguments, saved, extent);
  problem.source = arguments.source;
  problem.has_gamma = gamma.given();
  problem.has_beta = beta.given();
  problem.has_dy = dy.given();
  problem.has_ds = ds.given();
  problem.want_dx = arguments.mask.input;
  problem.want_dresidual = arguments.mask.residual;
  problem.want_dgamma = arguments.mask.weight;
  problem.want_dbeta = arguments.mask.bias;
  problem.inner_rows = Rows::settle({&values, &dy, &ds});
  problem.dy_row_stride = dy.row_stride();
  problem.dy_outer_stride = dy.outer_stride();
  problem.ds_row_stride = ds.row_stride();
  problem.ds_outer_stride = ds.outer_stride();
  problem.source_row_stride = values.row_stride();
  problem.source_outer_stride = values.outer_stride();

  auto results = allocate(arguments, saved.sizes(), empty_on<Backend>(saved));
  if (!arguments.mask.any() || problem.param_groups == 0) return results;

  BackwardBuffers buffers;
  buffers.dy = dy.data();
  buffers.ds = ds.data();
  (from_output ? buffers.y : buffers.x) = values.data();
  buffers.gamma = gamma.data();
  buffers.beta = beta.data();
  buffers.mean = mean.data();
  buffers.rstd = rstd.data();
  buffers.dx = data_or_null(results.input);
  buffers.dresidual = data_or_null(results.residual);
  buffers.dgamma = data_or_null(results.weight);
  buffers.dbeta = data_or_null(results.bias);
  Backend::run(problem, buffers, saved);
  return results;
}

/// The kernels that arguments.h declares for a device.
#define FUSEDNORM_DEFINE_KERNELS(Backend)                   \
  ForwardResults run(const ForwardArguments& arguments) {   \
    return run_forward<Backend>(arguments);                 \
  }                                                         \
  BackwardResults run(const BackwardArguments& arguments) { \
    return run_backward<Backend>(arguments);                \
  }

}  // namespace fusednorm::operators
