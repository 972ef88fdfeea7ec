// SPDX-License-Identifier: Apache-2.0
// What kernels are given, by value. Everything that is the same for all rows of a call and that no
// inner loop depends on is a field here, not a template argument: dtypes of x, y and the
// parameters, the norm, its rounding, whether there is a residual.
// Kernels take them as __grid_constant__: nvcc otherwise copies fields to registers, in narrow
// forward kernels 27 of 167.
#pragma once

#include "device/rows.h"
#include "fusednorm/cuda.h"
#include "fusednorm/problem.h"
#include "plan/geometry.h"

namespace fusednorm::cuda {

/// A number in both compute types, rounded by the host: kernels take it from where arguments are,
/// without a register for it.
struct Number {
  double f64 = 0;
  float f32 = 0;

  Number() = default;
  explicit Number(double value) : f64(value), f32(static_cast<float>(value)) {}

  template <typename C>
  FUSEDNORM_HOST_DEVICE C as() const {
    if constexpr (sizeof(C) == sizeof(float))
      return f32;
    else
      return f64;
  }
};

/// gamma and beta: tables of map.groups rows of cols elements. Null: 1 and 0.
struct Parameters {
  const std::byte* gamma = nullptr;
  const std::byte* beta = nullptr;
  double gamma_offset = 0;
  DType dtype = DType::f32;
  int vectorised = 0;  ///< every row of both tables starts on a vector's boundary
};

struct ForwardArguments {
  RowArray x;
  RowArray y;
  RowArray residual;
  RowArray sum;
  Parameters parameters;
  RowMap map;
  Ring ring;   ///< of this run's rows; without stages where they have none
  void* mean;  ///< null: not wanted
  void* rstd;
  void* moments;  ///< split rows only: [rows, segments] SegmentMoments
  std::int64_t cols;
  std::int64_t row_step;  ///< rows that the grid takes at once
  std::int64_t segments;
  Number eps;
  Number reciprocal_cols;
  int vectors;     ///< of a lane, by the geometry; a kernel may have room for more
  int lanes_log2;  ///< narrow rows: lanes a row
  int blocks_per_row;
  Access access;  ///< of the rows of every array; never `whole`
  int whole;      ///< narrow rows: plain (no residual, y in the row's dtype, rounded once), aligned
                  ///< and as long as their lanes' tiles
  Operation operation;
  Rounding rounding;
  DType row_dtype;   ///< of the row that is normalised
  DType xhat_dtype;  ///< what xhat is rounded to, unless rounding is `once`
};

struct BackwardArguments {
  RowArray dy;
  RowArray source;  ///< x, the stored sum, or y
  RowArray dx;      ///< null: not wanted
  RowArray ds;
  RowArray dresidual;
  Parameters parameters;
  RowMap map;
  Ring ring;         ///< of this run's rows; without stages where they have none
  const void* mean;  ///< null: zeros
  const void* rstd;
  void* partials;  ///< dgamma [groups * partial_count, cols], then dbeta; null: neither is wanted
  void* row_sums;  ///< strips only: [rows, segments] pairs
  std::int64_t cols;
  std::int64_t segments;
  std::int64_t partial_count;  ///< of a parameter group
  std::int64_t writers;     ///< blocks (clusters) that share a parameter group's rows: each takes
                            ///< every writers-th and leaves `chunks` partials
  std::int64_t index_step;  ///< rows of a group that its writers take at once
  std::int64_t statistics_step;  ///< bytes from a thread's mean to its next
  Divider per_step;              ///< divides by index_step; of a copy, by cols
  Number reciprocal_cols;
  int chunks;
  int vectors;
  int lanes_log2;
  int blocks_per_row;
  Access access;
  int whole;  ///< narrow rows: plain (dy and dx in the row's dtype, no ds, no dresidual), aligned
              ///< and as long as their lanes' tiles
  Operation operation;
  DType row_dtype;
};

/// The last launch of a backward pass: partial sums to dgamma and dbeta.
struct ColumnArguments {
  const void* partials;
  void* dgamma;  ///< null: not wanted
  void* dbeta;
  std::int64_t groups;
  std::int64_t partial_count;
  std::int64_t cols;
  DType dtype;
};

}  // namespace fusednorm::cuda
