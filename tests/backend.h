// What the harness asks of a backend. A backend gets host images of the arrays; where it computes,
// and how the bytes get there and back, is its own affair.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fusednorm/problem.h"
#include "fusednorm/status.h"
#include "memory.h"
#include "problem.h"

namespace fusednorm::testing {

struct ForwardPlaces {
  Place x, gamma, beta, y, mean, rstd;
};

struct BackwardPlaces {
  Place dy, source, gamma, beta, mean, rstd, dx, dgamma, dbeta;  // source: x or y
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  /// Empty, or why this backend leaves the problem out: a slow device does, for size.
  virtual std::string leaves_out(const Problem&) const { return {}; }
  virtual Status forward(const ForwardProblem& problem, const ForwardPlaces& places,
                         Memory& memory) = 0;
  virtual Status backward(const BackwardProblem& problem, const BackwardPlaces& places,
                          Memory& memory) = 0;
};

using Backends = std::vector<std::unique_ptr<Backend>>;

/// Every backend, in every configuration, that this test binary is linked for.
Backends backends_under_test();

}  // namespace fusednorm::testing
