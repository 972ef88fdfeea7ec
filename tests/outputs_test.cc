// SPDX-License-Identifier: Apache-2.0
// Arrays that a problem says it does not have: pointers to them are neither read nor written.
#include <gtest/gtest.h>

#include <cstdio>

#include "harness.h"

namespace fusednorm::testing {
namespace {

/// Runs `problem` with `offer` adding arrays that it did not ask for; the outcome must not change.
template <typename Offer>
void expect_ignored(const char* text, Offer offer) {
  const Problem problem = parse(text);
  const Operands operands = make_operands(problem);
  for (const auto& backend : backends_under_test()) {
    Layout plain(problem, operands), offered(problem, operands);
    offer(offered);
    const Memory before = offered.memory;
    const Status first = run(*backend, plain), second = run(*backend, offered);
    ASSERT_TRUE(first) << first.message();
    ASSERT_TRUE(second) << second.message();
    EXPECT_EQ(stray_write(before, offered.memory, offered.outputs), "") << text;
    for (const OutputArray& output : plain.outputs) {
      EXPECT_EQ(output_bytes(plain, output.name), output_bytes(offered, output.name))
          << text << " " << output.name << " on " << backend->name();
    }
  }
}

TEST(Outputs, WhatIsNotAskedForIsNotTouched) {
  expect_ignored("forward:f32:5x100:out=none:gamma=none:beta=none", [](Layout& layout) {
    layout.forward.gamma = layout.memory.allocate(DType::f32, 100, 0);
    layout.forward.beta = layout.memory.allocate(DType::f32, 100, 0);
    layout.forward.mean = layout.memory.allocate(DType::f32, 5, 0);
    layout.forward.rstd = layout.memory.allocate(DType::f32, 5, 0);
  });
  expect_ignored("backward:bf16/f32:5x100:out=dx:gamma=none", [](Layout& layout) {
    layout.backward.gamma = layout.memory.allocate(DType::f32, 100, 0);
    layout.backward.beta = layout.memory.allocate(DType::f32, 100, 0);
    layout.backward.dgamma = layout.memory.allocate(DType::f32, 100, 0);
    layout.backward.dbeta = layout.memory.allocate(DType::f32, 100, 0);
  });
  expect_ignored("backward:f32:70x9:out=dgamma+dbeta", [](Layout& layout) {
    layout.backward.dx = layout.memory.allocate(DType::f32, 630, 0);
  });
}

// Inputs may be one and the same array; only outputs are the contract's concern.
TEST(Outputs, InputsMayBeTheSameArray) {
  const Problem problem = parse("backward:f32:7x67");
  Operands operands = make_operands(problem);
  operands.dy = operands.x;
  for (const auto& backend : backends_under_test()) {
    Layout apart(problem, operands), together(problem, operands);
    together.backward.dy = together.backward.source;
    ASSERT_TRUE(run(*backend, apart));
    const Status status = run(*backend, together);
    ASSERT_TRUE(status) << status.message();
    for (const OutputArray& output : apart.outputs) {
      EXPECT_EQ(output_bytes(apart, output.name), output_bytes(together, output.name));
    }
  }
}

// gamma and beta without gradients wanted for them may be shared as well.
TEST(Outputs, ParametersMayBeTheSameArray) {
  const Problem problem = parse("forward:f32:7x67");
  Operands operands = make_operands(problem);
  operands.beta = operands.gamma;
  for (const auto& backend : backends_under_test()) {
    Layout apart(problem, operands), together(problem, operands);
    together.forward.beta = together.forward.gamma;
    ASSERT_TRUE(run(*backend, apart));
    const Status status = run(*backend, together);
    ASSERT_TRUE(status) << status.message();
    EXPECT_EQ(output_bytes(apart, "y"), output_bytes(together, "y"));
  }
}

// q and k of a packed qkv: two heads of q are normalised into the place of k, and v and q stay.
TEST(Outputs, HeadsOfAPackedQkv) {
  const Problem problem = parse("forward:f32:8x16:inner=2:outer=96");
  const Operands operands = make_operands(problem);
  for (const auto& backend : backends_under_test()) {
    if (const std::string why = backend->leaves_out(problem); !why.empty()) {
      std::printf("left out %s: %s\n", to_string(problem).c_str(), why.c_str());
      continue;
    }
    Layout apart(problem, operands), together(problem, operands);
    const Place qkv = together.memory.allocate(DType::f32, 4 * 96, 0);
    std::byte* q = together.memory.at(qkv);
    std::memcpy(q, apart.memory.at(apart.forward.x), (3 * 96 + 32) * sizeof(float));
    together.forward.x = qkv;
    together.forward.y = {qkv.allocation, qkv.offset + 32 * sizeof(float)};
    together.outputs[0].place = together.forward.y;
    const Memory before = together.memory;
    ASSERT_TRUE(run(*backend, apart));
    const Status status = run(*backend, together);
    ASSERT_TRUE(status) << status.message();
    EXPECT_EQ(output_bytes(apart, "y"), output_bytes(together, "y")) << backend->name();
    EXPECT_EQ(stray_write(before, together.memory, together.outputs), "");
  }
}

}  // namespace
}  // namespace fusednorm::testing
