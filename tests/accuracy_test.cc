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

TEST(Accuracy, ColumnSumsDoNotGrowWithRows) {
  for (const auto& backend : backends_under_test()) {
    for (const std::string dy : {"positive", "normal", "constant"}) {
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
        // One chain over a million rows has an error of 30 to 200,000 u here; a tree, of a few.
        EXPECT_LT(errors.dgamma, 8) << to_string(problem) << " on " << backend->name();
        EXPECT_LT(errors.dbeta, 8) << to_string(problem) << " on " << backend->name();
      }
    }
  }
}

}  // namespace
}  // namespace fusednorm::testing
