// One test problem as a value, and its spelling in one line, so that any failing case can be run
// again from the command line.
//
//   forward:bf16/f32/bf16:8192x1024:stride=1030,1040:offset=1:data=mean1000:eps=0
//
//   pass       forward | backward | backward_from_y
//   dtypes     x/param/y; "f32" is f32/f32/f32 and "bf16/f32" is bf16/f32/bf16
//   shape      ROWSxCOLS
//   stride=    row strides in elements (0: packed); forward x,y; backward dy,source,dx
//   offset=    elements off a 256-byte boundary, same order; gamma, beta, mean and rstd take the
//              first. One value stands for all.
//   data=      x: see Data        dy=  see Gradient      gamma= see Gamma      beta= see Beta
//   operation= layer_norm | rms_norm, which also leaves out beta, mean and dbeta
//   eps=       forward's eps (a backward problem's rstd comes from it, too)
//   out=       + separated subset of mean, rstd, or of dx, dgamma, dbeta; "none"
//   in_place=  y_over_x | dx_over_dy | dx_over_source
//   seed=      of the data
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "fusednorm/problem.h"

namespace fusednorm::testing {

enum class Pass { forward, backward, backward_from_y };
enum class InPlace { none, y_over_x, dx_over_dy, dx_over_source };

enum class Data {
  normal,     ///< mean 0, spread 1
  mean1000,   ///< mean 1000, spread 1
  mean10000,  ///< mean 10000, spread 1
  constant,   ///< each row one value
  zeros,
  tiny,     ///< spread 1e-18; f16: its subnormals
  huge,     ///< spread 1e15; f16: 10000
  ramp,     ///< rises by 100 along the row: parts of a row have unlike means
  outlier,  ///< one element of 10000 a row
  offset,   ///< row r has mean r / 4, spread 1
  beyond,   ///< mean 3e19, spread 5e16: x * x overflows f32, the variance does not; f16: 100 and 1
  nan_row,  ///< one row holds a NaN
  inf_row,  ///< one row holds an Inf
};

enum class Gradient { normal, positive, constant, zeros, nan_row };
enum class Gamma { normal, none, zeros /* every third */, large };
enum class Beta { normal, none, large };

struct Problem {
  Pass pass = Pass::forward;
  DType x_dtype = DType::f32, param_dtype = DType::f32, y_dtype = DType::f32;
  std::int64_t rows = 0, cols = 0;
  std::array<std::int64_t, 3> stride{0, 0, 0};
  std::array<std::int64_t, 3> offset{0, 0, 0};
  Data data = Data::normal;
  Gradient dy = Gradient::normal;
  Gamma gamma = Gamma::normal;
  Beta beta = Beta::normal;
  Operation operation = Operation::layer_norm;
  double eps = 1e-5;
  std::array<bool, 3> out{true, true, true};  ///< mean, rstd; or dx, dgamma, dbeta
  InPlace in_place = InPlace::none;
  std::uint64_t seed = 1;

  bool is_forward() const { return pass == Pass::forward; }
  bool from_y() const { return pass == Pass::backward_from_y; }
};

std::string to_string(const Problem& problem);

/// False, and a sentence in `error`, when `text` is not in the grammar.
bool parse(const std::string& text, Problem* problem, std::string* error);

/// For texts that the tests themselves contain; aborts with the sentence.
Problem parse(const std::string& text);

ForwardProblem forward_problem(const Problem& problem);
BackwardProblem backward_problem(const Problem& problem);

/// How much work a problem is, so that slow devices can choose: elements, rows x max(cols, 1).
enum class Size {
  small,   ///< to 2^13 elements: an emulated device takes every one of these
  medium,  ///< to 2^18
  large,   ///< beyond
};
Size size_of(const Problem& problem);

/// The largest size that FUSEDNORM_TEST_SCALE (small, medium, large) admits; large when unset.
Size test_scale();

}  // namespace fusednorm::testing
