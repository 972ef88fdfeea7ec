// SPDX-License-Identifier: Apache-2.0
// Which arrays may share memory: exactly in place and interleaved rows; nothing else.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cpu_backend.h"
#include "mentions.h"

namespace fusednorm::testing {
namespace {

constexpr std::int64_t kRows = 4, kCols = 8;

/// Where the arrays begin, as indices into one array of floats.
struct Forward {
  const char* what;
  bool allowed;
  std::int64_t x = 0, gamma = 200, beta = 220, y = 100, mean = 240, rstd = 250;
  std::int64_t x_stride = packed, y_stride = packed;
  DType x_dtype = DType::f32, y_dtype = DType::f32;
  std::vector<std::string> names = {};
};

std::vector<Forward> forward_cases() {
  std::vector<Forward> cases;
  const auto add = [&](const char* what, bool allowed, std::vector<std::string> names = {}) {
    Forward one{what, allowed};
    one.names = std::move(names);
    cases.push_back(one);
    return &cases.back();
  };
  add("all apart", true);
  add("y exactly x", true)->y = 0;
  add("y right behind x", true)->y = kRows * kCols;
  {
    auto* c = add("y exactly x, strided", true);
    c->y = 0;
    c->x_stride = c->y_stride = 12;
  }
  {
    auto* c = add("rows of x and y take turns", true);
    c->y = kCols;
    c->x_stride = c->y_stride = 2 * kCols;
  }
  add("y one element into x", false, {"x", "y"})->y = 1;
  add("y one row into x", false, {"x", "y"})->y = kCols;
  add("y's first element is x's last", false, {"x", "y"})->y = kRows * kCols - 1;
  {
    auto* c = add("x begins inside y", false, {"x", "y"});
    c->x = 110;
  }
  {
    auto* c = add("y at x with another stride", false, {"x", "y"});
    c->y = 0;
    c->y_stride = kCols + 1;
  }
  {
    auto* c = add("rows take turns but touch by one element", false, {"x", "y"});
    c->y = kCols - 1;
    c->x_stride = c->y_stride = 2 * kCols;
  }
  {
    auto* c = add("rows of unlike strides that meet", false, {"x", "y"});
    c->y = kCols;
    c->x_stride = 2 * kCols;
    c->y_stride = 2 * kCols + 4;
  }
  {
    auto* c = add("y exactly x, with elements of another size", false, {"x", "y"});
    c->y = 0;
    c->x_dtype = DType::bf16;
  }
  add("y over gamma", false, {"y", "gamma"})->gamma = 103;
  add("y over beta", false, {"y", "beta"})->beta = 100 + kRows * kCols - 1;
  add("mean over x", false, {"mean", "x"})->mean = 5;
  add("mean over y", false, {"mean", "y"})->mean = 100;
  add("mean exactly rstd", false, {"mean", "rstd"})->mean = 250;
  add("rstd one element into mean", false, {"mean", "rstd"})->rstd = 241;
  add("rstd over gamma", false, {"rstd", "gamma"})->rstd = 200;
  add("mean over beta", false, {"mean", "beta"})->mean = 226;
  add("gamma exactly beta", true)->beta = 200;
  return cases;
}

TEST(Overlap, Forward) {
  for (const Forward& c : forward_cases()) {
    std::vector<float> memory(400, 1.5f), before = memory;
    ForwardProblem problem;
    problem.rows = kRows;
    problem.cols = kCols;
    problem.x_dtype = c.x_dtype;
    problem.y_dtype = c.y_dtype;
    problem.x_row_stride = c.x_stride;
    problem.y_row_stride = c.y_stride;
    problem.save_mean = problem.save_rstd = true;
    float* base = memory.data();
    const auto plan = cpu::plan(problem, make_device(cpu::instruction_sets()[0], 2));
    ASSERT_TRUE(plan) << c.what << ": " << plan.status().message();
    std::vector<std::byte> workspace(plan->workspace_bytes);
    const Status status = cpu::run(
        *plan,
        {base + c.x, base + c.gamma, base + c.beta, base + c.y, base + c.mean, base + c.rstd},
        {workspace.data(), workspace.size()});
    EXPECT_EQ(status.ok(), c.allowed) << c.what << ": " << status.message();
    if (!c.allowed) {
      EXPECT_EQ(status.code(), StatusCode::invalid_argument) << c.what;
      EXPECT_EQ(memory, before) << c.what << ": something was written";
      EXPECT_NE(status.message().find("overlap"), std::string::npos)
          << c.what << ": " << status.message();
      for (const std::string& name : c.names) {
        EXPECT_TRUE(mentions(status.message(), name))
            << c.what << ": \"" << status.message() << "\" does not name " << name;
      }
    }
  }
}

struct Backward {
  const char* what;
  bool allowed;
  Source source = Source::x;
  std::int64_t dy = 0, from = 100, gamma = 300, mean = 320, rstd = 330, beta = 420;
  std::int64_t dx = 200, dgamma = 340, dbeta = 360;
  std::int64_t dy_stride = packed, from_stride = packed, dx_stride = packed;
  DType x_dtype = DType::f32, y_dtype = DType::f32;
  std::vector<std::string> names = {};
};

std::vector<Backward> backward_cases() {
  std::vector<Backward> cases;
  const auto add = [&](const char* what, bool allowed, std::vector<std::string> names = {}) {
    Backward one{what, allowed};
    one.names = std::move(names);
    cases.push_back(one);
    return &cases.back();
  };
  add("all apart", true);
  add("dx exactly dy", true)->dx = 0;
  add("dx exactly x", true)->dx = 100;
  {
    auto* c = add("dx exactly y", true);
    c->source = Source::y;
    c->dx = 100;
  }
  add("dy exactly x", true)->dy = 100;
  {
    auto* c = add("dx exactly dy and x", true);
    c->dy = c->dx = 100;
  }
  {
    auto* c = add("rows of dy, x and dx take turns", true);
    c->dy_stride = c->from_stride = c->dx_stride = 3 * kCols;
    c->from = kCols;
    c->dx = 2 * kCols;
  }
  add("dx one element into dy", false, {"dx", "dy"})->dx = 1;
  add("dx one row into x", false, {"dx", "x"})->dx = 100 + kCols;
  add("dx's end in x", false, {"dx", "x"})->dx = 100 - kRows * kCols + 1;
  {
    auto* c = add("dx at dy with another stride", false, {"dx", "dy"});
    c->dx = 0;
    c->dx_stride = kCols + 1;
  }
  {
    auto* c = add("dx at dy with elements of another size", false, {"dx", "dy"});
    c->dx = 0;
    c->x_dtype = DType::bf16;
  }
  {
    auto* c = add("dx one element into y", false, {"dx", "y"});
    c->source = Source::y;
    c->dx = 101;
  }
  add("dx over gamma", false, {"dx", "gamma"})->gamma = 210;
  add("dx over mean", false, {"dx", "mean"})->mean = 200;
  add("dx over rstd", false, {"dx", "rstd"})->rstd = 203;
  add("dgamma exactly dbeta", false, {"dgamma", "dbeta"})->dbeta = 340;
  add("dgamma one element into dbeta", false, {"dgamma", "dbeta"})->dgamma = 361;
  add("dgamma exactly gamma", false, {"dgamma", "gamma"})->dgamma = 300;
  add("dbeta over dy", false, {"dbeta", "dy"})->dbeta = 3;
  add("dbeta over x", false, {"dbeta", "x"})->dbeta = 120;
  add("dgamma over dx", false, {"dgamma", "dx"})->dgamma = 200;
  add("dgamma over rstd", false, {"dgamma", "rstd"})->dgamma = 331;
  {
    auto* c = add("dbeta exactly beta", false, {"dbeta", "beta"});
    c->source = Source::y;
    c->dbeta = 420;
  }
  return cases;
}

TEST(Overlap, Backward) {
  for (const Backward& c : backward_cases()) {
    std::vector<float> memory(500, 1.5f), before = memory;
    BackwardProblem problem;
    problem.rows = kRows;
    problem.cols = kCols;
    problem.x_dtype = c.x_dtype;
    problem.y_dtype = c.y_dtype;
    problem.source = c.source;
    problem.dy_row_stride = c.dy_stride;
    problem.source_row_stride = c.from_stride;
    problem.dx_row_stride = c.dx_stride;
    float* base = memory.data();
    BackwardBuffers buffers;
    buffers.dy = base + c.dy;
    (c.source == Source::x ? buffers.x : buffers.y) = base + c.from;
    buffers.gamma = base + c.gamma;
    buffers.beta = c.source == Source::y ? base + c.beta : nullptr;
    buffers.mean = c.source == Source::x ? base + c.mean : nullptr;
    buffers.rstd = base + c.rstd;
    buffers.dx = base + c.dx;
    buffers.dgamma = base + c.dgamma;
    buffers.dbeta = base + c.dbeta;
    const auto plan = cpu::plan(problem, make_device(cpu::instruction_sets()[0], 2));
    ASSERT_TRUE(plan) << c.what << ": " << plan.status().message();
    std::vector<std::byte> workspace(plan->workspace_bytes);
    const Status status = cpu::run(*plan, buffers, {workspace.data(), workspace.size()});
    EXPECT_EQ(status.ok(), c.allowed) << c.what << ": " << status.message();
    if (!c.allowed) {
      EXPECT_EQ(status.code(), StatusCode::invalid_argument) << c.what;
      EXPECT_EQ(memory, before) << c.what << ": something was written";
      EXPECT_NE(status.message().find("overlap"), std::string::npos)
          << c.what << ": " << status.message();
      for (const std::string& name : c.names) {
        EXPECT_TRUE(mentions(status.message(), name))
            << c.what << ": \"" << status.message() << "\" does not name " << name;
      }
    }
  }
}

/// A workspace that begins or ends inside an array would be scribbled over by the tasks.
template <typename Plan, typename Buffers>
void expect_workspace_apart(const Plan& plan, const Buffers& buffers, std::vector<float>& memory,
                            const std::vector<std::pair<const char*, const void*>>& arrays) {
  ASSERT_GT(plan.workspace_bytes, 0u);
  const std::vector<float> before = memory;
  for (const auto& [name, array] : arrays) {
    auto* first = static_cast<std::byte*>(const_cast<void*>(array));
    for (std::byte* data : {first, first + 3, first + 1 - plan.workspace_bytes}) {
      const Status status = cpu::run(plan, buffers, {data, plan.workspace_bytes});
      EXPECT_EQ(status.code(), StatusCode::invalid_argument) << name;
      EXPECT_TRUE(mentions(status.message(), "workspace")) << status.message();
      EXPECT_TRUE(mentions(status.message(), name)) << status.message();
      EXPECT_EQ(memory, before) << name << ": something was written";
    }
  }
}

// Long rows for many threads, each with partial results in the workspace. The arrays lie so far
// apart that a workspace before one does not reach into another.
TEST(Overlap, WorkspaceForward) {
  ForwardProblem problem;
  problem.rows = 2;
  problem.cols = 1 << 17;
  problem.save_mean = problem.save_rstd = true;
  const auto plan = cpu::plan(problem, make_device(cpu::instruction_sets()[0], 8));
  ASSERT_TRUE(plan) << plan.status().message();
  const std::size_t gap = 3 * problem.cols + plan->workspace_bytes / sizeof(float);
  std::vector<float> memory(8 * gap, 1.5f);
  const auto at = [&](int index) { return memory.data() + (index + 1) * gap; };
  const ForwardBuffers buffers{at(0), at(1), at(2), at(3), at(4), at(5)};
  expect_workspace_apart(*plan, buffers, memory,
                         {{"x", at(0)},
                          {"gamma", at(1)},
                          {"beta", at(2)},
                          {"y", at(3)},
                          {"mean", at(4)},
                          {"rstd", at(5)}});
  const Status apart = cpu::run(*plan, buffers, {memory.data(), plan->workspace_bytes});
  EXPECT_TRUE(apart) << apart.message();
}

TEST(Overlap, WorkspaceBackward) {
  BackwardProblem problem;
  problem.rows = 64;
  problem.cols = 512;
  const auto plan = cpu::plan(problem, make_device(cpu::instruction_sets()[0], 8));
  ASSERT_TRUE(plan) << plan.status().message();
  const std::size_t gap = problem.rows * problem.cols + plan->workspace_bytes / sizeof(float) + 1;
  std::vector<float> memory(10 * gap, 1.5f);
  const auto at = [&](int index) { return memory.data() + (index + 1) * gap; };
  BackwardBuffers buffers;
  buffers.dy = at(0);
  buffers.x = at(1);
  buffers.gamma = at(2);
  buffers.mean = at(3);
  buffers.rstd = at(4);
  buffers.dx = at(5);
  buffers.dgamma = at(6);
  buffers.dbeta = at(7);
  expect_workspace_apart(*plan, buffers, memory,
                         {{"dy", at(0)},
                          {"x", at(1)},
                          {"gamma", at(2)},
                          {"mean", at(3)},
                          {"rstd", at(4)},
                          {"dx", at(5)},
                          {"dgamma", at(6)},
                          {"dbeta", at(7)}});
  const Status apart = cpu::run(*plan, buffers, {memory.data(), plan->workspace_bytes});
  EXPECT_TRUE(apart) << apart.message();
}

}  // namespace
}  // namespace fusednorm::testing
