// SPDX-License-Identifier: Apache-2.0
// The one table of problems: every shape, dtype and layout that any backend must get right, and why
// it is there.
#pragma once

#include <string>
#include <vector>

#include "problem.h"

namespace fusednorm::testing {

struct TableRow {
  /// A problem text in which {a,b,c} stands for each of a, b and c in turn. Braces may nest.
  std::string problems;
  std::string why;
};

const std::vector<TableRow>& problem_table();

/// The part of it that family_problems.cc has.
std::vector<TableRow> family_problems();

/// The problems of a row, all sizes.
std::vector<Problem> expand(const TableRow& row);

/// Every dtype triple of the contract, x/param/y.
const std::vector<std::string>& dtype_triples();

}  // namespace fusednorm::testing
