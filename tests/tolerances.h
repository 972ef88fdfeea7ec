// The one table of tolerances: how far from the f64 formula each output may be before its store.
// docs/tolerances.md derives every line.
//
//   u   unit roundoff of the compute type          C(n) = 4 + 2 log2(n), a sum of n terms
//   v   relative error of the mean while it is a pair of compute-type numbers
//
//   mean    u C(cols) spread + v |mean|
//   rstd    u C(cols) rstd
//   y       |gamma| rstd error(mean) + u (C(cols) + 4) |gamma xhat| + 2 u |beta|
//   dx      u rstd (6 (|g| + |m| + |xhat k|) + C(cols) (mean|g| + |xhat| mean|g xhat|))
//           with g = dy gamma, m = mean(g), k = mean(g xhat)
//   dbeta   u (C(rows) + B/4) (largest partial sum) + u C(rows) (root of the sum of squared terms)
//           with B = min(rows, 64), the rows that may be added in one chain
//   dgamma  the same + 3 u (sum of absolute terms): its terms dy xhat are themselves rounded
//
// A result agrees when it lies between the roundings, to its own dtype, of expected - error and
// expected + error: one rounding at the store, and no second one, is what that leaves room for.
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

inline double rstd_error(Precision p, std::int64_t cols, double rstd) {
  return p.unit * sum_steps(cols) * rstd;
}

/// `scaled` is gamma * xhat.
inline double y_error(Precision p, std::int64_t cols, double mean_error, double rstd, double gamma,
                      double scaled, double beta) {
  return std::fabs(gamma) * rstd * mean_error +
         p.unit * ((sum_steps(cols) + 4) * std::fabs(scaled) + 2 * std::fabs(beta)) +
         4 * p.smallest;
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
  void add(double term) {
    sum += term;
    largest = std::fmax(largest, std::fabs(sum));
    squares += term * term;
    absolute += std::fabs(term);
  }
};

/// `term_roundings`: how often a term was rounded before it was added; 0 for dbeta, 3 for dgamma.
inline double column_error(Precision p, std::int64_t rows, const ColumnSize& size,
                           int term_roundings) {
  const double chain = static_cast<double>(rows < 64 ? rows : 64) / 4;
  return p.unit * ((sum_steps(rows) + chain) * size.largest +
                   sum_steps(rows) * std::sqrt(size.squares) + term_roundings * size.absolute) +
         4 * p.smallest;
}

inline bool agrees(DType dtype, double got, double expected, double error) {
  if (std::isnan(expected)) {
    return std::isnan(got);
  }
  if (std::isinf(expected)) {
    return got == expected;
  }
  return std::isfinite(error) && got >= reference::rounded(dtype, expected - error) &&
         got <= reference::rounded(dtype, expected + error);
}

}  // namespace fusednorm::testing
