// SPDX-License-Identifier: Apache-2.0
// Every problem of the table, on every backend under test, against the f64 formula.
#include "problems.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>

#include "harness.h"

namespace fusednorm::testing {
namespace {

class ProblemTable : public ::testing::TestWithParam<std::size_t> {};

TEST_P(ProblemTable, AgreesWithTheFormula) {
  const TableRow& row = problem_table()[GetParam()];
  RecordProperty("why", row.why);
  const Backends backends = backends_under_test();
  ASSERT_FALSE(backends.empty());
  int checked = 0;
  std::map<std::string, int> left_out;  // why, and how many
  for (const Problem& problem : expand(row)) {
    if (size_of(problem) > test_scale()) {
      ++left_out["too large for FUSEDNORM_TEST_SCALE"];
      continue;
    }
    const Trial trial(problem);
    for (const auto& backend : backends) {
      if (const std::string why = backend->leaves_out(problem); !why.empty()) {
        ++left_out[why];
        continue;
      }
      ++checked;
      EXPECT_EQ(trial.check(*backend), "") << "it is in the table for: " << row.why;
    }
  }
  std::string reasons;
  for (const auto& [why, count] : left_out) {
    std::printf("left out %d of \"%s\": %s\n", count, row.problems.c_str(), why.c_str());
    reasons += (reasons.empty() ? "" : "; ") + why;
  }
  if (checked == 0) {
    GTEST_SKIP() << "every problem of this row is left out: " << reasons;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ProblemTable,
                         ::testing::Range<std::size_t>(0, problem_table().size()),
                         [](const auto& row) { return "Row" + std::to_string(row.param); });

}  // namespace
}  // namespace fusednorm::testing
