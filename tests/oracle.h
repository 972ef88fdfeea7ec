// What a problem's outputs must be: the reference formula's values and the error each may have.
#pragma once

#include <string>
#include <vector>

#include "problem.h"

namespace fusednorm::testing {

/// The inputs as the library sees them: each value already rounded to its stored dtype. Packed.
struct Operands {
  std::vector<double> x, gamma, beta;     // gamma and beta are empty when absent
  std::vector<double> dy, y, mean, rstd;  // backward only; y only for a backward from y
};

Operands make_operands(const Problem& problem);

struct Expected {
  std::string name;
  DType dtype;
  std::vector<double> values, errors;
};

/// One entry an output that the problem asks for.
std::vector<Expected> expected_outputs(const Problem& problem, const Operands& operands);

}  // namespace fusednorm::testing
