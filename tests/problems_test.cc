// Every problem of the table, on every backend under test, against the f64 formula.
#include "problems.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "harness.h"

namespace fusednorm::testing {
namespace {

class ProblemTable : public ::testing::TestWithParam<std::size_t> {};

TEST_P(ProblemTable, AgreesWithTheFormula) {
  const TableRow& row = problem_table()[GetParam()];
  RecordProperty("why", row.why);
  const Backends backends = backends_under_test();
  ASSERT_FALSE(backends.empty());
  int checked = 0, left_out = 0;
  for (const Problem& problem : expand(row)) {
    if (size_of(problem) > test_scale()) {
      ++left_out;
      continue;
    }
    const Trial trial(problem);
    for (const auto& backend : backends) {
      if (!backend->leaves_out(problem).empty()) {
        ++left_out;
        continue;
      }
      ++checked;
      EXPECT_EQ(trial.check(*backend), "") << "it is in the table for: " << row.why;
    }
  }
  if (left_out > 0) {
    std::printf("left out %d of \"%s\": too large for this scale or backend\n", left_out,
                row.problems.c_str());
  }
  if (checked == 0) {
    GTEST_SKIP() << "every problem of this row is too large; FUSEDNORM_TEST_SCALE=large runs them";
  }
}

INSTANTIATE_TEST_SUITE_P(All, ProblemTable,
                         ::testing::Range<std::size_t>(0, problem_table().size()),
                         [](const auto& row) { return "Row" + std::to_string(row.param); });

}  // namespace
}  // namespace fusednorm::testing
