// SPDX-License-Identifier: Apache-2.0
// The one table of tolerances: how far from the f64 formula each output may be before its store.
// docs/tolerances.md derives every line.
//
//   u   unit roundoff of the compute type          C(n) = 4 + 2 log2(n), a sum of n terms
//   v   relative error of the mean while it is a pair of compute-type numbers
//
//   w   gamma + gamma_offset                       t    smallest positive number, see below
//
//   sum     none: x + residual, rounded
//   mean    u C(cols) spread + v |mean|
//   rstd    (u C(cols) + t rstd^2) rstd
//   xhat    rstd error(mean) + (u (C(cols) + 3) + t rstd^2) |xhat|
//   y       once: |w| rstd error(mean) + (u (C(cols) + 4) + t rstd^2) |w xhat| + 2 u |beta|
//           via_x, via_param: none beside that of xhat
//   d       u rstd (6 (|g| + |m| + |xhat k|) + C(cols) (mean|g| + |xhat| mean|g xhat|))
//           with g = dy w, m = mean(g), k = mean(g xhat); with ds, + u |d|; without dy, none
//   dbeta   u (C(rows) + B/4) (largest partial sum) + u C(rows) (root of the sum of squared terms)
//           with B = min(rows, 64), the rows that may be added in one chain; rows are a group's
//   dgamma  the same + 3 u (sum of absolute terms): its terms dy xhat are themselves rounded
//
// A result agrees when it lies between the roundings, to its own dtype, of expected - error and
// expected + error: one rounding at the store, and no second one, is what that leaves room for.
// The y of via_x and via_param lies between those that xhat - error and xhat + error lead to: every
// step after xhat is exactly known.
#pragma once

#include <cmath>
#include <cstdint>

#include "reference/element.h"

namespace fusednorm::testing {

struct Precision {
  double unit;      ///< u
  double pair;      ///< v
  double smallest;  ///< positive number of the compute type
};

inline Precision precision_of(DType x_dtype) {
  // f64's v is what the oracle's long double can still tell; f32 pairs hold 48 bits, of which a
  // division and a subtraction may cost a few.
  return compute_dtype(x_dtype) == DType::f64 ? Precision{0x1p-53, 0x1p-62, 0x1p-1074}
                                              : Precision{0x1p-24, 0x1p-40, 0x1p-149};
}

inline double sum_steps(std::int64_t terms) {
  return 4 + 2 * std::log2(static_cast<double>(terms > 1 ? terms : 1));
}

inline double mean_error(Precision p, std::int64_t cols, double mean, double spread) {
  return p.unit * sum_steps(cols) * spread + p.pair * std::fabs(mean);
}

/// The relative error of rstd where squares are subnormal: their mean is then off by up to two of
/// the smallest numbers, and rstd by half of what that is of the variance.
inline double subnormal_error(Precision p, double rstd) {
  return p.smallest * rstd * rstd;
}

inline double rstd_error(Precision p, std::int64_t cols, double rstd) {
  return (p.unit * sum_steps(cols) + subnormal_error(p, rstd)) * rstd;
}

inline double xhat_error(Precision p, std::int64_t cols, double mean_error, double rstd,
                         double xhat) {
  return rstd * mean_error +
         (p.unit * (sum_steps(cols) + 3) + subnormal_error(p, rstd)) * std::fabs(xhat) +
         4 * p.smallest;
}

/// `scaled` is gamma * xhat.
inline double y_error(Precision p, std::int64_t cols, double mean_error, double rstd, double gamma,
                      double scaled, double beta) {
  return std::fabs(gamma) * rstd * mean_error +
         (p.unit * (sum_steps(cols) + 4) + subnormal_error(p, rstd)) * std::fabs(scaled) +
         p.unit * 2 * std::fabs(beta) + 4 * p.smallest;
}

/// What a row's dx depends on: see the table above.
struct GradientMeans {
  double g = 0, g_xhat = 0;          ///< m and k
  double abs_g = 0, abs_g_xhat = 0;  ///< the same of absolute values
};

inline double dx_error(Precision p, std::int64_t cols, double rstd, double g, double xhat,
                       const GradientMeans& means) {
  const double steps = sum_steps(cols);
  return p.unit * rstd *
             (6 * (std::fabs(g) + std::fabs(means.g) + std::fabs(xhat * means.g_xhat)) +
              steps * (means.abs_g + std::fabs(xhat) * means.abs_g_xhat)) +
         (4 + rstd) * 4 * p.smallest;
}

/// What a column's sum depends on, over the rows in order.
struct ColumnSize {
  double sum = 0, largest = 0, squares = 0, absolute = 0;
  std::int64_t rows = 0;
  void add(double term) {
    ++rows;
    sum += term;
    largest = std::fmax(largest, std::fabs(sum));
    squares += term * term;
    absolute += std::fabs(term);
  }
};

/// `term_roundings`: how often a term was rounded before it was added; 0 for dbeta, 3 for dgamma.
inline double column_error(Precision p, const ColumnSize& size, int term_roundings) {
  const double chain = static_cast<double>(size.rows < 64 ? size.rows : 64) / 4;
  const double steps = sum_steps(size.rows);
  return p.unit * ((steps + chain) * size.largest + steps * std::sqrt(size.squares) +
                   term_roundings * size.absolute) +
         4 * p.smallest;
}

/// The numbers that may be stored, or NaN, which alone may be.
struct Interval {
  double low, high;
  bool holds(double got) const {
    return std::isnan(low) ? std::isnan(got) : got >= low && got <= high;
  }
};

/// An Inf must be that Inf; where the error is no number, nothing will do.
inline Interval stored(DType dtype, double expected, double error) {
  if (!std::isfinite(expected)) return {expected, expected};
  if (!std::isfinite(error)) return {HUGE_VAL, -HUGE_VAL};
  return {reference::rounded(dtype, expected - error), reference::rounded(dtype, expected + error)};
}

inline bool agrees(DType dtype, double got, double expected, double error) {
  return stored(dtype, expected, error).holds(got);
}

}  // namespace fusednorm::testing
