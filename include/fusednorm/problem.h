// SPDX-License-Identifier: Apache-2.0
// What is to be computed, as plain values: the problem (shapes, dtypes, which arrays exist) and the
// buffers (addresses). The same problem is handed to every backend, for every norm of the family.
//
//   row          s = x, or with a residual s = x + residual, rounded to residual_dtype and stored
//   layer_norm   xhat = (s - mean(s)) * rstd,   rstd = 1 / sqrt(variance(s) + eps)
//   rms_norm     xhat = s * rstd,               rstd = 1 / sqrt(mean(s^2) + eps)
//   output       y = xhat * (gamma + gamma_offset) + beta, rounded as `rounding` says
//   backward     d = (derivative of the norm at s, applied to dy) + ds;  dx = d, dresidual = d,
//                dgamma, dbeta: any subset, from dy and s (or y), mean and rstd; docs/contract.md
//
// Arrays. x, y, residual, sum, dy, ds, dx and dresidual have `rows` rows of `cols` elements, unit
// stride inside a row and a row stride of at least `cols` elements. gamma, beta, dgamma and dbeta
// are tables of `param_groups` rows of `cols` elements without gaps; row r of the data uses row
// (r / rows_per_group) % param_groups of them. mean and rstd have `rows` elements. Any address that
// is aligned to its element will do. rows and cols may be zero; an array without elements may be
// null.
//
// Two-level rows. With inner_rows > 0 row r starts at (r / inner_rows) * outer_stride +
// (r % inner_rows) * row_stride: the heads of q inside a packed qkv are rows without a copy.
// inner_rows must divide rows. The rows of an array must not overlap each other.
//
// Dtypes. x and dx share x_dtype; y and dy share y_dtype; residual, sum, ds and dresidual share
// residual_dtype; gamma, beta, dgamma and dbeta share param_dtype; mean and rstd are in
// compute_dtype(x_dtype). residual_dtype is x_dtype or, beside 16-bit x, f32. param_dtype is
// x_dtype or f32 or, beside f32 x, f16 or bf16. y_dtype is x_dtype or param_dtype.
//
// Aliasing. y may be exactly x (same address, strides and element size), sum exactly residual or
// exactly x, though never y and sum the same; dx exactly dy, exactly ds, exactly the source; and
// dresidual exactly ds or exactly the source, though never dx and dresidual the same. Rows of two
// arrays may interleave in memory. Any other overlap with an output is an error.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fusednorm/dtype.h"

namespace fusednorm {

/// The norm. A backend refuses one that it does not implement.
enum class Operation : std::uint8_t {
  layer_norm,
  rms_norm,  ///< no mean: save_mean must be false, and backward reads none
};

constexpr const char* name_of(Operation operation) {
  return operation == Operation::rms_norm ? "rms_norm" : "layer_norm";
}

/// Where xhat * (gamma + gamma_offset) + beta is rounded on its way to y. Models were trained with
/// one of these; fused and unfused give the same bits in each.
enum class Rounding : std::uint8_t {
  once,       ///< y = round(xhat * (gamma + gamma_offset) + beta), all in the compute type
  via_x,      ///< xhat is rounded to the dtype of s, the product to y_dtype, the sum to y_dtype
  via_param,  ///< xhat is rounded to param_dtype, the product to y_dtype, the sum to y_dtype
};

constexpr const char* name_of(Rounding rounding) {
  return rounding == Rounding::via_x       ? "via_x"
         : rounding == Rounding::via_param ? "via_param"
                                           : "once";
}

/// As a row stride: rows follow each other without a gap. As an outer stride: so do the groups of
/// inner_rows rows.
inline constexpr std::int64_t packed = 0;

/// From what the backward pass knows the normalised values.
enum class Source : std::uint8_t {
  x,  ///< x, mean and rstd
  y,  ///< y, gamma, beta and rstd: x need not be kept ("memory-efficient"); no gamma + gamma_offset
      ///< may be 0. After via_x and via_param xhat carries the roundings of y.
};

struct ForwardProblem {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  DType x_dtype = DType::f32;
  DType y_dtype = DType::f32;
  DType param_dtype = DType::f32;
  bool has_gamma = true;  ///< false: gamma is 1
  bool has_beta = true;   ///< false: beta is 0
  bool save_mean = false;
  bool save_rstd = false;
  double eps = 1e-5;
  std::int64_t x_row_stride = packed;  ///< in elements
  std::int64_t y_row_stride = packed;
  Operation operation = Operation::layer_norm;
  Rounding rounding = Rounding::once;
  double gamma_offset = 0;    ///< finite; added to gamma in the compute type, ignored without gamma
  bool has_residual = false;  ///< y is the norm of sum = x + residual, which is an output
  DType residual_dtype = DType::f32;  ///< of residual and sum; read only with has_residual
  std::int64_t residual_row_stride = packed;
  std::int64_t sum_row_stride = packed;
  std::int64_t param_groups = 1;         ///< rows of gamma and beta
  std::int64_t rows_per_group = 1;       ///< consecutive rows that share one of them
  std::int64_t inner_rows = 0;           ///< 0: one level of rows, and no outer stride is read
  std::int64_t x_outer_stride = packed;  ///< in elements
  std::int64_t y_outer_stride = packed;
  std::int64_t residual_outer_stride = packed;
  std::int64_t sum_outer_stride = packed;
};

struct ForwardBuffers {
  const void* x = nullptr;
  const void* gamma = nullptr;
  const void* beta = nullptr;
  void* y = nullptr;
  void* mean = nullptr;
  void* rstd = nullptr;
  const void* residual = nullptr;
  void* sum = nullptr;
};

struct BackwardProblem {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  DType x_dtype = DType::f32;
  DType y_dtype = DType::f32;
  DType param_dtype = DType::f32;
  Source source = Source::x;
  bool has_gamma = true;
  bool has_beta = true;  ///< read only when source is y
  bool want_dx = true;
  bool want_dgamma = true;
  bool want_dbeta = true;
  std::int64_t dy_row_stride = packed;
  std::int64_t source_row_stride = packed;  ///< of x (with a residual: sum), or of y
  std::int64_t dx_row_stride = packed;
  Operation operation = Operation::layer_norm;
  Rounding rounding =
      Rounding::once;  ///< backward is the same for all: rounding is straight-through
  double gamma_offset = 0;
  bool has_residual = false;  ///< source x is the stored sum, in residual_dtype
  DType residual_dtype = DType::f32;
  bool has_dy = true;   ///< false, only with ds: only ds is read, dgamma and dbeta are zeros
  bool has_ds = false;  ///< only with a residual: the gradient of sum, which is added to dx
  bool want_dresidual = false;  ///< only where residual_dtype is not x_dtype: else dx serves both
  std::int64_t ds_row_stride = packed;
  std::int64_t dresidual_row_stride = packed;
  std::int64_t param_groups = 1;
  std::int64_t rows_per_group = 1;
  std::int64_t inner_rows = 0;
  std::int64_t dy_outer_stride = packed;
  std::int64_t source_outer_stride = packed;
  std::int64_t dx_outer_stride = packed;
  std::int64_t ds_outer_stride = packed;
  std::int64_t dresidual_outer_stride = packed;
};

struct BackwardBuffers {
  const void* dy = nullptr;
  const void* x = nullptr;  ///< when source is x; with a residual, the stored sum
  const void* y = nullptr;  ///< when source is y
  const void* gamma = nullptr;
  const void* beta = nullptr;  ///< when source is y
  const void* mean = nullptr;  ///< when source is x, but for rms_norm
  const void* rstd = nullptr;
  void* dx = nullptr;
  void* dgamma = nullptr;
  void* dbeta = nullptr;
  const void* ds = nullptr;
  void* dresidual = nullptr;
};

/// The dtype of the row that is normalised.
constexpr DType row_dtype(const ForwardProblem& p) {
  return p.has_residual ? p.residual_dtype : p.x_dtype;
}
constexpr DType row_dtype(const BackwardProblem& p) {
  return p.has_residual ? p.residual_dtype : p.x_dtype;
}

/// Bytes the caller lends to a run. Any address (on CUDA: of the plan's device); contents before
/// and after mean nothing.
struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};

}  // namespace fusednorm
