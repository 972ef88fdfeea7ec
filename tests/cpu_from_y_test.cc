// SPDX-License-Identifier: Apache-2.0
// Memory-efficient backward on the CPU: y cannot tell the normalised value where gamma is 0, so
// that is refused before anything is written, and never answered with a wrong number.
#include <gtest/gtest.h>

#include "cpu_backend.h"
#include "harness.h"
#include "mentions.h"
#include "reference/element.h"

namespace fusednorm::testing {
namespace {

TEST(BackwardFromY, GammaZeroIsRefusedByColumn) {
  for (const cpu::InstructionSet& set : cpu::instruction_sets()) {
    CpuBackend backend(make_device(set, 2), {2});
    for (const char* text :
         {"backward_from_y:f32:5x100", "backward_from_y:bf16/f32:5x100",
          "backward_from_y:f16:5x100", "backward_from_y:f64:5x100", "backward_from_y:f32:2x30000",
          "backward_from_y:f32:300x100:out=dgamma", "backward_from_y:f32:5x100:out=dx",
          "backward_from_y:f32:5x100:in_place=dx_over_dy", "backward_from_y:f32:5x100:offset=1"}) {
      const Problem problem = parse(text);
      for (const std::int64_t col : {std::int64_t{0}, std::int64_t{13}, problem.cols - 1}) {
        for (const double zero : {0.0, -0.0}) {
          Layout layout(problem, make_operands(problem));
          reference::store(problem.param_dtype, layout.memory.at(layout.backward.gamma), col, zero);
          const Memory before = layout.memory;
          const Status status = run(backend, layout);
          ASSERT_EQ(status.code(), StatusCode::invalid_argument) << text << ": gamma " << col;
          EXPECT_TRUE(mentions(status.message(), "gamma")) << status.message();
          EXPECT_TRUE(mentions(status.message(), std::to_string(col))) << status.message();
          EXPECT_EQ(stray_write(before, layout.memory, {}), "") << text;
        }
      }
    }
  }
}

// Rows that do not exist need no gamma; the zeros that dgamma then is are still due.
TEST(BackwardFromY, SmallGammaIsNoZero) {
  for (const cpu::InstructionSet& set : cpu::instruction_sets()) {
    CpuBackend backend(make_device(set, 2), {2});
    Problem problem = parse("backward_from_y:f32:3x40");
    Operands operands = make_operands(problem);
    for (std::int64_t col = 0; col < problem.cols; ++col) {
      operands.gamma[col] = reference::rounded(DType::f32, operands.gamma[col] * 1e-20);
      for (std::int64_t row = 0; row < problem.rows; ++row) {
        // beta = 0 here, so that y keeps the digits of gamma * xhat.
        operands.y[row * problem.cols + col] = reference::rounded(
            DType::f32, operands.gamma[col] * static_cast<double>(col - 20 + row) / 10);
      }
    }
    problem.beta = Beta::none;
    operands.beta.clear();
    Layout layout(problem, operands);
    const Status status = run(backend, layout);
    ASSERT_TRUE(status) << status.message();
    for (const Expected& expected : expected_outputs(problem, operands)) {
      const auto bytes = output_bytes(layout, expected.name);
      for (std::size_t index = 0; index < expected.values.size(); ++index) {
        const double got =
            reference::load(DType::f32, bytes.data(), static_cast<std::int64_t>(index));
        EXPECT_GE(got, expected.low[index]) << expected.name << " " << index;
        EXPECT_LE(got, expected.high[index]) << expected.name << " " << index;
      }
    }
  }
}

}  // namespace
}  // namespace fusednorm::testing
