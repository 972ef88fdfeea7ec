// SPDX-License-Identifier: Apache-2.0
// The kernels of one device: tensors in, a problem with raw pointers to the core, tensors out.
//
// Backend says how to allocate and how to run:
//   static Tensor empty(IntArrayRef sizes, ScalarType, const Tensor& like);
//   static void run(const Problem&, const Buffers&, const Tensor& like);
#pragma once

#include <cmath>

#include "checks.h"
#include "derivatives.h"
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
Problem problem_of(const Arguments& arguments, const Extent& extent) {
  Problem problem;
  problem.operation = arguments.operation;
  problem.rows = extent.rows;
  problem.cols = extent.cols;
  problem.x_dtype = dtype_of(arguments.input_type());
  problem.y_dtype = dtype_of(arguments.output_type());
  problem.param_dtype = dtype_of(parameter_type(arguments));
  return problem;
}

inline void* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.mutable_data_ptr() : nullptr;
}

template <typename Backend>
auto empty_on(const Tensor& like) {
  return [&like](at::IntArrayRef sizes, at::ScalarType dtype) {
    return Backend::empty(sizes, dtype, like);
  };
}

template <typename Backend>
ForwardResults run_forward(const ForwardArguments& arguments) {
  const auto& input = *arguments.input;
  const auto eps = arguments.eps;
  check(arguments, C10_AS_INTARRAYREF_SLOW(arguments.normalized_shape));
  if (!(eps >= 0) || std::isinf(eps)) return derivatives::forward(arguments);

  const auto inner_dims = arguments.normalized_shape.size();
  const auto extent = extent_of(input, inner_dims);
  const Rows x(input, inner_dims, extent);
  const Array gamma(arguments.weight);
  const Array beta(arguments.bias);

  auto problem = problem_of<ForwardProblem>(arguments, extent);
  problem.has_gamma = gamma.given();
  problem.has_beta = beta.given();
  problem.save_mean = arguments.save_mean;
  problem.save_rstd = arguments.save_rstd;
  problem.eps = eps;
  problem.x_row_stride = x.stride();

  auto results = allocate(arguments, input.sizes(), empty_on<Backend>(input));
  ForwardBuffers buffers;
  buffers.x = x.data();
  buffers.gamma = gamma.data();
  buffers.beta = beta.data();
  buffers.y = results.output.mutable_data_ptr();
  buffers.mean = data_or_null(results.mean);
  buffers.rstd = data_or_null(results.rstd);
  Backend::run(problem, buffers, input);
  return results;
}

template <typename Backend>
BackwardResults run_backward(const BackwardArguments& arguments) {
  const auto& saved = *arguments.saved;
  const auto normalized_shape = C10_AS_INTARRAYREF_SLOW(arguments.normalized_shape);
  check(arguments, normalized_shape);
  const auto inner_dims = normalized_shape.size();
  const auto extent = extent_of(saved, inner_dims);
  const bool from_output = arguments.source == Source::y;
  const Rows dy(*arguments.grad_out, inner_dims, extent);
  const Rows values(saved, inner_dims, extent);
  const Array gamma(arguments.weight);
  const Array beta(from_output ? arguments.bias : nullptr);
  const Array mean(arguments.mean);
  const Array rstd(arguments.rstd);

  auto problem = problem_of<BackwardProblem>(arguments, extent);
  problem.source = arguments.source;
  problem.has_gamma = gamma.given();
  problem.has_beta = beta.given();
  problem.want_dx = arguments.mask[0];
  problem.want_dgamma = arguments.mask[1];
  problem.want_dbeta = arguments.mask[2];
  problem.dy_row_stride = dy.stride();
  problem.source_row_stride = values.stride();

  auto results = allocate(arguments, saved.sizes(), normalized_shape, empty_on<Backend>(saved));
  if (arguments.mask == Mask{}) return results;

  BackwardBuffers buffers;
  buffers.dy = dy.data();
  (from_output ? buffers.y : buffers.x) = values.data();
  buffers.gamma = gamma.data();
  buffers.beta = beta.data();
  buffers.mean = mean.data();
  buffers.rstd = rstd.data();
  buffers.dx = data_or_null(results.input);
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
