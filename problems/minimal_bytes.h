// SPDX-License-Identifier: Apache-2.0
// The bytes that no implementation of a problem can avoid moving: what GB/s, shares of a copy and
// "bytes over the minimum" are relative to, in every tool; rates.h makes shares of them.
#pragma once

#include <cstdint>

#include "problems/problem.h"

namespace fusednorm::problems {

struct Bytes {
  std::int64_t read = 0;
  std::int64_t written = 0;

  std::int64_t total() const { return read + written; }
};

/// Each array that the asked outputs depend on is read once, each asked output written once:
/// parameters, their gradients and statistics included, gaps between rows not.
Bytes minimal_bytes(const Problem& problem);

}  // namespace fusednorm::problems
