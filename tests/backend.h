// SPDX-License-Identifier: Apache-2.0
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
  Place x, gamma, beta, y, mean, rstd, residual, sum;
};

struct BackwardPlaces {
  Place dy, source, gamma, beta, mean, rstd, dx, dgamma, dbeta, ds, dresidual;  // source: x or y
};

/// The buffers of a run; `at` tells the address of a place.
template <typename At>
ForwardBuffers buffers_of(const ForwardPlaces& places, const At& at) {
  ForwardBuffers buffers;
  buffers.x = at(places.x);
  buffers.gamma = at(places.gamma);
  buffers.beta = at(places.beta);
  buffers.y = at(places.y);
  buffers.mean = at(places.mean);
  buffers.rstd = at(places.rstd);
  buffers.residual = at(places.residual);
  buffers.sum = at(places.sum);
  return buffers;
}

template <typename At>
BackwardBuffers buffers_of(const BackwardPlaces& places, Source source, const At& at) {
  BackwardBuffers buffers;
  buffers.dy = at(places.dy);
  (source == Source::x ? buffers.x : buffers.y) = at(places.source);
  buffers.gamma = at(places.gamma);
  buffers.beta = at(places.beta);
  buffers.mean = at(places.mean);
  buffers.rstd = at(places.rstd);
  buffers.dx = at(places.dx);
  buffers.dgamma = at(places.dgamma);
  buffers.dbeta = at(places.dbeta);
  buffers.ds = at(places.ds);
  buffers.dresidual = at(places.dresidual);
  return buffers;
}

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  /// Empty, or why this backend leaves the problem out: a slow device does, for size. The suites
  /// print the reason.
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
