// SPDX-License-Identifier: Apache-2.0
// Runs a problem on a backend and holds the outcome to the oracle.
#pragma once

#include <string>
#include <vector>

#include "backend.h"
#include "memory.h"
#include "oracle.h"
#include "problem.h"
#include "row_layout.h"

namespace fusednorm::testing {

/// An array that a run may write: rows of `cols` elements.
struct OutputArray {
  std::string name;
  DType dtype;
  Place place;
  std::int64_t rows, cols;
  RowLayout layout;
};

/// A problem with its memory laid out and filled, and the places of its arrays.
struct Layout {
  explicit Layout(const Problem& problem, const Operands& operands);

  Problem problem;
  Memory memory;
  ForwardPlaces forward;
  BackwardPlaces backward;
  std::vector<OutputArray> outputs;
};

/// Runs the layout's problem on its memory.
Status run(Backend& backend, Layout& layout);

/// The bytes of one output, rows packed.
std::vector<std::byte> output_bytes(const Layout& layout, const std::string& name);

/// Empty, or which byte outside `outputs` differs between the two.
std::string stray_write(const Memory& before, const Memory& after,
                        const std::vector<OutputArray>& outputs);

/// A problem and its oracle, to be held against any number of backends.
class Trial {
 public:
  explicit Trial(const Problem& problem);
  /// Empty, or a report: problem, backend, and where it went wrong with what.
  std::string check(Backend& backend) const;

 private:
  Trial(const Problem& problem, const Operands& operands);

  Problem problem_;
  Layout pristine_;
  std::vector<Expected> expected_;
};

}  // namespace fusednorm::testing
