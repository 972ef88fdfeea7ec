// dgamma and dbeta over ever more rows: the error must follow the sums, not the number of rows.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "harness.h"
#include "reference/element.h"

namespace fusednorm::testing {
namespace {

struct Errors {
  double dgamma = 0, dbeta = 0;  // in units of u times the size of the sum
};

/// The largest error of a column. "Size of the sum" is the sum itself for terms of one sign, the
/// root of the sum of squared terms (about sqrt(rows)) for terms of both.
Errors column_errors(Backend& backend, const Problem& problem) {
  const Operands operands = make_operands(problem);
  Layout layout(problem, operands);
  const Status status = run(backend, layout);
  EXPECT_TRUE(status) << status.message();
  Errors errors;
  for (const Expected& expected : expected_outputs(problem, operands)) {
    const auto bytes = output_bytes(layout, expected.name);
    for (std::int64_t col = 0; col < problem.cols; ++col) {
      const double got = reference::load(expected.dtype, bytes.data(), col);
      const double root = std::sqrt(static_cast<double>(problem.rows));
      const double size = std::fmax(std::fabs(expected.values[col]), root);
      double& error = expected.name == "dgamma" ? errors.dgamma : errors.dbeta;
      error = std::fmax(error, std::fabs(got - expected.values[col]) / (size * 0x1p-24));
    }
  }
  return errors;
}

// The error at 1,000 rows is the yardstick: a thousand times the rows may not cost ten times the
// error in these units, where one chain over the rows costs 30 to 1000 times as much.
TEST(Accuracy, ColumnSumsDoNotGrowWithRows) {
  for (const auto& backend : backends_under_test()) {
    for (const std::string dy : {"positive", "normal", "constant"}) {
      Errors few;
      for (const char* rows : {"1000", "10000", "100000", "1000000"}) {
        const Problem problem =
            parse(std::string("backward:f32:") + rows + "x8:out=dgamma+dbeta:dy=" + dy);
        if (size_of(problem) > test_scale() || !backend->leaves_out(problem).empty()) {
          std::printf("%8s rows left out at this scale\n", rows);
          continue;
        }
        const Errors errors = column_errors(*backend, problem);
        std::printf("%8s rows, dy %-8s dgamma %6.2f u, dbeta %6.2f u\n", rows, dy.c_str(),
                    errors.dgamma, errors.dbeta);
        if (few.dbeta == 0) {
          few = errors;
          EXPECT_LT(errors.dgamma, 24) << "the yardstick itself, on " << backend->name();
          EXPECT_LT(errors.dbeta, 24) << "the yardstick itself, on " << backend->name();
        }
        EXPECT_LT(errors.dgamma, 3 * std::fmax(few.dgamma, 4))
            << to_string(problem) << " on " << backend->name();
        EXPECT_LT(errors.dbeta, 3 * std::fmax(few.dbeta, 4))
            << to_string(problem) << " on " << backend->name();
      }
    }
  }
}

}  // namespace
}  // namespace fusednorm::testing
