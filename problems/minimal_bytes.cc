// SPDX-License-Identifier: Apache-2.0
// Adds up the arrays of a problem.
#include "problems/minimal_bytes.h"

namespace fusednorm::problems {
namespace {

Bytes forward(const Problem& problem, std::int64_t x, std::int64_t y, std::int64_t parameter,
              std::int64_t statistic) {
  Bytes bytes{x, y};
  if (problem.gamma != Gamma::none) bytes.read += parameter;
  if (problem.beta != Beta::none) bytes.read += parameter;
  if (problem.out[0]) bytes.written += statistic;
  if (problem.out[1]) bytes.written += statistic;
  return bytes;
}

Bytes backward(const Problem& problem, std::int64_t x, std::int64_t y, std::int64_t parameter,
               std::int64_t statistic) {
  const auto [dx, dgamma, dbeta] = problem.out;
  const bool normalised = dx || dgamma;  // dbeta is a sum of dy alone
  Bytes bytes;
  if (normalised || dbeta) bytes.read += y;  // dy
  if (normalised) bytes.read += problem.from_y() ? y : x;
  if (problem.gamma != Gamma::none && (problem.from_y() ? normalised : dx)) bytes.read += parameter;
  if (problem.beta != Beta::none && problem.from_y() && normalised) bytes.read += parameter;
  const bool has_mean = problem.operation != Operation::rms_norm;
  if (!problem.from_y() && normalised && has_mean) bytes.read += statistic;  // mean
  if (problem.from_y() ? dx : normalised) bytes.read += statistic;           // rstd
  if (dx) bytes.written += x;
  if (dgamma) bytes.written += parameter;
  if (dbeta) bytes.written += parameter;
  return bytes;
}

}  // namespace

Bytes minimal_bytes(const Problem& problem) {
  const auto bytes_of = [](std::int64_t elements, DType dtype) {
    return elements * static_cast<std::int64_t>(size_of(dtype));
  };
  const std::int64_t elements = problem.rows * problem.cols;
  return (problem.is_forward() ? forward : backward)(
      problem, bytes_of(elements, problem.x_dtype), bytes_of(elements, problem.y_dtype),
      bytes_of(problem.cols, problem.param_dtype),
      bytes_of(problem.rows, compute_dtype(problem.x_dtype)));
}

}  // namespace fusednorm::problems
