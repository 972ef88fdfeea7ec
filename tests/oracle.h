// SPDX-License-Identifier: Apache-2.0
// What a problem's outputs must be: the reference formula's values and the error each may have.
#pragma once

#include <string>
#include <vector>

#include "problem.h"

namespace fusednorm::testing {

/// The inputs as the library sees them: each value already rounded to its stored dtype. Packed;
/// empty when absent.
struct Operands {
  std::vector<double> x, residual, gamma, beta;
  std::vector<double> sum;                    // as stored; backward's source where there is one
  std::vector<double> dy, ds, y, mean, rstd;  // backward only; y only for a backward from y

  /// What is normalised.
  const std::vector<double>& rows() const { return sum.empty() ? x : sum; }
};

Operands make_operands(const Problem& problem);

struct Expected {
  std::string name;
  DType dtype;
  std::vector<double> values;     // before the store
  std::vector<double> low, high;  // what may be stored
};

/// One entry an output that the problem asks for.
std::vector<Expected> expected_outputs(const Problem& problem, const Operands& operands);

}  // namespace fusednorm::testing
