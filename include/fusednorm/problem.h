// What is to be computed, as plain values: the problem (shapes, dtypes, which arrays exist) and the
// buffers (addresses). The same problem is handed to every backend.
//
//   layer_norm   y = (x - mean) * rstd * gamma + beta,   rstd = 1 / sqrt(variance + eps)
//   rms_norm     y = x * rstd * gamma,                   rstd = 1 / sqrt(mean(x^2) + eps)
//   backward     dx, dgamma, dbeta: any subset, from dy and x (or y), mean and rstd; see
//                docs/contract.md
//
// Arrays. x, y, dy and dx have `rows` rows of `cols` elements, unit stride inside a row and a row
// stride of at least `cols` elements. gamma, beta, dgamma and dbeta have `cols` elements, mean and
// rstd `rows`. Any address that is aligned to its element will do. rows and cols may be zero; an
// array without elements may be null.
//
// Dtypes. x and dx share x_dtype; y and dy share y_dtype; gamma, beta, dgamma and dbeta share
// param_dtype; mean and rstd are in compute_dtype(x_dtype). param_dtype is x_dtype or f32; y_dtype
// is x_dtype or param_dtype.
//
// Aliasing. y may be exactly x (same address, row stride and element size), dx exactly dy, exactly
// x or, in a backward from y, exactly y. Rows of two arrays may interleave in memory. Any other
// overlap with an output is an error.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fusednorm/dtype.h"

namespace fusednorm {

/// The norm. A backend refuses one that it does not implement.
enum class Operation : std::uint8_t {
  layer_norm,
  rms_norm,  ///< no mean and no beta: save_mean, has_beta and want_dbeta must be false
};

constexpr const char* name_of(Operation operation) {
  return operation == Operation::rms_norm ? "rms_norm" : "layer_norm";
}

/// As a row stride: rows follow each other without a gap.
inline constexpr std::int64_t packed = 0;

/// From what the backward pass knows the normalised values.
enum class Source : std::uint8_t {
  x,  ///< x, mean and rstd
  y,  ///< y, gamma, beta and rstd: x need not be kept ("memory-efficient"); no gamma may be 0
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
};

struct ForwardBuffers {
  const void* x = nullptr;
  const void* gamma = nullptr;
  const void* beta = nullptr;
  void* y = nullptr;
  void* mean = nullptr;
  void* rstd = nullptr;
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
  std::int64_t source_row_stride = packed;  ///< of x, or of y when source is y
  std::int64_t dx_row_stride = packed;
  Operation operation = Operation::layer_norm;
};

struct BackwardBuffers {
  const void* dy = nullptr;
  const void* x = nullptr;  ///< when source is x
  const void* y = nullptr;  ///< when source is y
  const void* gamma = nullptr;
  const void* beta = nullptr;  ///< when source is y
  const void* mean = nullptr;  ///< when source is x, but for rms_norm
  const void* rstd = nullptr;
  void* dx = nullptr;
  void* dgamma = nullptr;
  void* dbeta = nullptr;
};

/// Bytes the caller lends to a run. Any address; contents before and after mean nothing.
struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};

}  // namespace fusednorm
