// SPDX-License-Identifier: Apache-2.0
// One problem as a value, and its spelling in one line: for tests, fusednorm-check,
// fusednorm-bench, fusednorm-cuda-cost and `python -m fusednorm bench`.
//
//   forward:bf16/f32:8192x1024:stride=1030,1040:offset=1:data=mean1000:eps=0
//
//   pass       forward | backward | backward_from_y
//   dtypes     x/param/y; "f32" is f32/f32/f32 and "bf16/f32" is bf16/f32/bf16
//   shape      ROWSxCOLS, or a name of shapes.csv
//   op=        layer_norm | rms_norm, which has no mean and, unless beta= is given, no beta and
//              no dbeta
//   rounding=  once | via_x | via_param
//   gamma_offset=  added to gamma; the data of gamma are such that the sum is what it would be
//              without
//   residual=  its dtype: there is a residual, and sum; backward, ds
//   groups=    G or GxR: param_groups and rows_per_group
//   inner=     inner_rows: two levels of rows
//   stride=    row strides in elements (0: packed); forward x,y,residual,sum; backward
//              dy,source,dx,ds,dresidual. The last value stands for those that are left out.
//   outer=     outer strides, same order; only with inner=
//   offset=    elements off a 256-byte boundary, same order; gamma, beta, mean and rstd take the
//              first
//   data=      x, residual: see Data  dy= dy, ds: see Gradient  gamma= see Gamma  beta= see Beta
//   eps=       forward's eps (a backward problem's rstd comes from it, too)
//   grads=     dy | ds | dy+ds, what backward starts from; default dy, with a residual dy+ds
//   out=       + separated subset of mean, rstd, or of dx, dgamma, dbeta and, where the residual
//              has another dtype than x, dresidual; "none"; default all
//   in_place=  y_over_x | sum_over_residual | sum_over_x | y_over_x+sum_over_residual, or
//              dx_over_dy | dx_over_source | dx_over_ds | dresidual_over_ds |
//              dresidual_over_source
//   seed=      of the data
//
// A word that is none of these, or that is given twice, is an error, in every tool.
// python/fusednorm/measure/grammar.py is the same grammar for the Python package; spellings.txt
// holds the two against each other. A new word is a field of Problem, a line of kOptions in
// options.cc, one in grammar.py and its spellings.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "fusednorm/problem.h"

namespace fusednorm::problems {

enum class Pass { forward, backward, backward_from_y };
enum class InPlace {
  none,
  y_over_x,
  sum_over_residual,
  sum_over_x,
  y_over_x_and_sum_over_residual,
  dx_over_dy,
  dx_over_source,
  dx_over_ds,
  dresidual_over_ds,
  dresidual_over_source,
};

/// The arrays of rows, in the order of stride=, outer= and offset=.
enum ForwardArray { kX, kY, kResidual, kSum };
enum BackwardArray { kDy, kSource, kDx, kDs, kDresidual };

enum class Data {
  normal,     ///< mean 0, spread 1
  mean1000,   ///< mean 1000, spread 1
  mean10000,  ///< mean 10000, spread 1
  constant,   ///< each row one value
  zeros,
  tiny,      ///< spread 1e-18; f16: its subnormals
  huge,      ///< spread 1e15; f16: 10000
  ramp,      ///< rises by 100 along the row: parts of a row have unlike means
  outlier,   ///< one element of 10000 a row
  offset,    ///< row r has mean r / 4, spread 1
  beyond,    ///< mean 3e19, spread 5e16: x * x overflows f32, the variance does not; f16: 100 and 1
  nan_row,   ///< one row holds a NaN
  inf_row,   ///< one row holds an Inf
  brink,     ///< a row's squares add up to a tenth of the largest number; f16: all are +-65504
  denormal,  ///< spread 1e-20: squares are subnormal; f16: as tiny
};

enum class Gradient { normal, positive, constant, zeros, nan_row };
/// zeros: every third; minus_offset: every third is -gamma_offset.
enum class Gamma { normal, none, zeros, large, minus_offset };
enum class Beta { normal, none, large };

struct Problem {
  Pass pass = Pass::forward;
  DType x_dtype = DType::f32, param_dtype = DType::f32, y_dtype = DType::f32;
  std::int64_t rows = 0, cols = 0;
  Operation operation = Operation::layer_norm;
  Rounding rounding = Rounding::once;
  double gamma_offset = 0;
  bool has_residual = false;
  DType residual_dtype = DType::f32;
  std::int64_t param_groups = 1, rows_per_group = 1;
  std::int64_t inner_rows = 0;
  std::array<std::int64_t, 5> stride{};
  std::array<std::int64_t, 5> outer{};
  std::array<std::int64_t, 5> offset{};
  Data data = Data::normal;
  Gradient dy = Gradient::normal;
  Gamma gamma = Gamma::normal;
  Beta beta = Beta::normal;
  double eps = 1e-5;
  bool has_dy = true, has_ds = false;
  std::array<bool, 4> out{true, true, true,
                          false};  ///< mean, rstd; or dx, dgamma, dbeta, dresidual
  InPlace in_place = InPlace::none;
  std::uint64_t seed = 1;

  bool is_forward() const { return pass == Pass::forward; }
  bool from_y() const { return pass == Pass::backward_from_y; }
  DType row_dtype() const { return has_residual ? residual_dtype : x_dtype; }
  /// dresidual is an array of its own.
  bool has_dresidual() const { return has_residual && residual_dtype != x_dtype; }
};

/// The shortest spelling: defaults are left out.
std::string to_string(const Problem& problem);
std::string to_string(Pass pass);

/// False when `text` is no problem, and in `error` the word and what was expected in its place.
bool parse(const std::string& text, Problem* problem, std::string* error);

/// For texts that a program itself contains; aborts with the error.
Problem parse(const std::string& text);

/// Empty, or an error that names the first word of `problem` that differs from its default and is
/// not among `honoured`, the keys (see above) that `tool` does something about.
std::string not_honoured(const Problem& problem, const std::string& tool,
                         std::initializer_list<const char*> honoured);

/// Empty, or why a tool that measures kernels does not take `problem`: it has no elements, or it
/// says something of its data or of arrays in place, which such a tool does not honour.
std::string not_measured(const Problem& problem, const std::string& tool);

/// Elements from the first to the last of an array of rows, gaps included; `array` is one of
/// ForwardArray or BackwardArray.
std::int64_t extent_of(const Problem& problem, int array);

ForwardProblem forward_problem(const Problem& problem);
BackwardProblem backward_problem(const Problem& problem);

}  // namespace fusednorm::problems
