// SPDX-License-Identifier: Apache-2.0
// dgamma and dbeta over ever more rows: the error must follow the sums, not the number of rows.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "harness.h"
#include "reference/element.h"

namespace fusednorm::testing {
namespace {

struct Errors {
  double dgamma = 0, dbeta = 0;  // in units of u times the size of the sum
};

/// A problem with its oracle: computed once for all backends.
struct Case {
  explicit Case(const Problem& the_problem)
      : problem(the_problem),
        operands(make_operands(problem)),
        expected(expected_outputs(problem, operands)) {}
  Problem problem;
  Operands operands;
  std::vector<Expected> expected;
};

/// The largest error of a column. "Size of the sum" is the sum itself for terms of one sign, the
/// root of the number of terms for terms of both.
Errors column_errors(Backend& backend, const Case& c) {
  Layout layout(c.problem, c.operands);
  const Status status = run(backend, layout);
  EXPECT_TRUE(status) << status.message();
  Errors errors;
  for (const Expected& expected : c.expected) {
    const auto bytes = output_bytes(layout, expected.name);
    for (std::int64_t col = 0; col < c.problem.cols; ++col) {
      const double got = reference::load(expected.dtype, bytes.data(), col);
      const double root = std::sqrt(static_cast<double>(c.problem.rows));
      const double size = std::fmax(std::fabs(expected.values[col]), root);
      double& error = expected.name == "dgamma" ? errors.dgamma : errors.dbeta;
      error = std::fmax(error, std::fabs(got - expected.values[col]) / (size * 0x1p-24));
    }
  }
  return errors;
}

// The error at 1,000 rows is the yardstick: a thousand times the rows may cost no more than three
// times the error in these units, where one chain over the rows costs 30 to 1000 times as much.
TEST(Accuracy, ColumnSumsDoNotGrowWithRows) {
  const Backends backends = backends_under_test();
  for (const std::string dy : {"positive", "normal", "constant"}) {
    std::vector<Errors> yardsticks(backends.size());
    for (const char* rows : {"1000", "30000", "1000000"}) {
      const Problem problem =
          parse(std::string("backward:f32:") + rows + "x8:out=dgamma+dbeta:dy=" + dy);
      if (size_of(problem) > test_scale()) {
        std::printf("%8s rows left out at this scale\n", rows);
        continue;
      }
      const Case the_case(problem);
      for (std::size_t index = 0; index < backends.size(); ++index) {
        Backend& backend = *backends[index];
        if (!backend.leaves_out(problem).empty()) {
          std::printf("%8s rows left out by %s\n", rows, backend.name().c_str());
          continue;
        }
        const Errors errors = column_errors(backend, the_case);
        std::printf("%8s rows, dy %-8s dgamma %6.2f u, dbeta %6.2f u on %s\n", rows, dy.c_str(),
                    errors.dgamma, errors.dbeta, backend.name().c_str());
        Errors& yardstick = yardsticks[index];
        if (problem.rows == 1000) {
          yardstick = errors;
          EXPECT_LT(errors.dgamma, 24) << "the yardstick itself, on " << backend.name();
          EXPECT_LT(errors.dbeta, 24) << "the yardstick itself, on " << backend.name();
        }
        EXPECT_LT(errors.dgamma, 3 * std::fmax(yardstick.dgamma, 4)) << to_string(problem);
        EXPECT_LT(errors.dbeta, 3 * std::fmax(yardstick.dbeta, 4)) << to_string(problem);
      }
    }
  }
}

}  // namespace
}  // namespace fusednorm::testing
