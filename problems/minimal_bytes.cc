// SPDX-License-Identifier: Apache-2.0
// Adds up the arrays of a problem.
#include "problems/minimal_bytes.h"

namespace fusednorm::problems {
namespace {

/// Of a whole array of each kind.
struct ArrayBytes {
  explicit ArrayBytes(const Problem& p)
      : x(bytes_of(p.rows * p.cols, p.x_dtype)),
        y(bytes_of(p.rows * p.cols, p.y_dtype)),
        row(bytes_of(p.rows * p.cols, p.row_dtype())),
        parameter(bytes_of(p.param_groups * p.cols, p.param_dtype)),
        statistic(bytes_of(p.rows, compute_dtype(p.x_dtype))) {}

  std::int64_t x, y;
  std::int64_t row;  ///< residual, sum, ds, dresidual
  std::int64_t parameter, statistic;

 private:
  static std::int64_t bytes_of(std::int64_t elements, DType dtype) {
    return elements * static_cast<std::int64_t>(size_of(dtype));
  }
};

Bytes forward(const Problem& problem, const ArrayBytes& of) {
  Bytes bytes{of.x, of.y};
  if (problem.has_residual) bytes.read += of.row;
  if (problem.has_residual) bytes.written += of.row;
  if (problem.gamma != Gamma::none) bytes.read += of.parameter;
  if (problem.beta != Beta::none) bytes.read += of.parameter;
  if (problem.out[0]) bytes.written += of.statistic;
  if (problem.out[1]) bytes.written += of.statistic;
  return bytes;
}

Bytes backward(const Problem& problem, const ArrayBytes& of) {
  const auto [dx, dgamma, dbeta, dresidual] = problem.out;
  const bool of_rows = dx || dresidual;
  const bool dy = problem.has_dy, from_y = problem.from_y();
  const bool through_norm = dy && of_rows;
  const bool normalised = through_norm || (dy && dgamma);  // dbeta is a sum of dy alone
  Bytes bytes;
  if (normalised || (dy && dbeta)) bytes.read += of.y;  // dy
  if (normalised) bytes.read += from_y ? of.y : of.row;
  if (problem.has_ds && of_rows) bytes.read += of.row;
  if (problem.gamma != Gamma::none && (from_y ? normalised : through_norm)) {
    bytes.read += of.parameter;
  }
  if (problem.beta != Beta::none && from_y && normalised) bytes.read += of.parameter;
  const bool has_mean = problem.operation != Operation::rms_norm;
  if (!from_y && normalised && has_mean) bytes.read += of.statistic;   // mean
  if (from_y ? through_norm : normalised) bytes.read += of.statistic;  // rstd
  if (dx) bytes.written += of.x;
  if (dresidual) bytes.written += of.row;
  if (dgamma) bytes.written += of.parameter;
  if (dbeta) bytes.written += of.parameter;
  return bytes;
}

}  // namespace

Bytes minimal_bytes(const Problem& problem) {
  return (problem.is_forward() ? forward : backward)(problem, ArrayBytes(problem));
}

}  // namespace fusednorm::problems
