// What kernels are given, by value. Pointers are untyped here: the kernel's template knows the
// types.
#pragma once

#include <cstdint>

namespace fusednorm::cuda {

/// gamma and beta are read once a thread; their dtype is a question asked then, not a template.
enum class ParamKind : int { absent, f32, same_as_x };

struct ForwardArguments {
  const void* x;
  const void* gamma;
  const void* beta;
  void* y;
  void* mean;  ///< null: not wanted
  void* rstd;
  void* moments;  ///< split rows only: [rows, segments] Moments
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t x_stride;
  std::int64_t y_stride;
  std::int64_t row_step;  ///< rows that the grid takes at once, and the bytes to the next of them
  std::int64_t x_step;
  std::int64_t y_step;
  std::int64_t segments;
  double eps;
  double reciprocal_cols;
  ParamKind gamma_kind;
  ParamKind beta_kind;
  int blocks_per_row;
  int vectorised;         ///< every row of x and y starts on a 16-byte boundary
  int params_vectorised;  ///< so do gamma and beta
};

struct BackwardArguments {
  const void* dy;
  const void* source;  ///< x, or y
  const void* gamma;
  const void* beta;
  const void* mean;
  const void* rstd;
  void* dx;        ///< null: not wanted
  void* partials;  ///< dgamma [partials, cols], then dbeta; null: neither is wanted
  void* row_sums;  ///< strips only: [rows, segments] pairs
  std::int64_t partial_count;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t dy_stride;
  std::int64_t source_stride;
  std::int64_t dx_stride;
  std::int64_t row_step;  ///< rows that the grid takes at once, and the bytes to the next of them
  std::int64_t dy_step;
  std::int64_t source_step;
  std::int64_t dx_step;
  std::int64_t statistics_step;
  std::int64_t rows_left;  ///< rows that are left after `turns` turns of the grid
  std::int64_t segments;
  double reciprocal_cols;
  ParamKind gamma_kind;
  ParamKind beta_kind;
  int turns;
  int blocks_per_row;
  int vectorised;
  int params_vectorised;
};

/// The last launch of a backward pass: partial sums to dgamma and dbeta.
struct ColumnArguments {
  const void* partials;
  void* dgamma;  ///< null: not wanted
  void* dbeta;
  std::int64_t partial_count;
  std::int64_t cols;
};

}  // namespace fusednorm::cuda
