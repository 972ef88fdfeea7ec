// SPDX-License-Identifier: Apache-2.0
// Bad input to the CPU backend: a Status that names the argument, the value it had and what was
// expected, and not one byte written.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "bad_input.h"

namespace fusednorm::testing {
namespace {

constexpr std::int64_t kHuge = std::int64_t{1} << 40;
const std::string kHugeText = "1099511627776";

TEST(Errors, ForwardProblem) {
  using Call = ForwardCall;
  expect_refused<Call>({
      {"negative rows", [](Call& c) { c.problem.rows = -3; }, {"rows", "-3"}},
      {"negative cols", [](Call& c) { c.problem.cols = -8; }, {"cols", "-8"}},
      {"x_row_stride < cols",
       [](Call& c) { c.problem.x_row_stride = 7; },
       {"x_row_stride", "7", "8"}},
      {"y_row_stride < cols",
       [](Call& c) { c.problem.y_row_stride = 5; },
       {"y_row_stride", "5", "8"}},
      {"negative stride", [](Call& c) { c.problem.x_row_stride = -9; }, {"x_row_stride", "-9"}},
      {"negative eps", [](Call& c) { c.problem.eps = -1e-9; }, {"eps", "-1e-09"}},
      {"eps is NaN", [](Call& c) { c.problem.eps = std::nan(""); }, {"eps", "nan"}},
      {"rows * cols overflows",
       [](Call& c) { c.problem.rows = c.problem.cols = kHuge; },
       {"rows", "cols", kHugeText}},
      {"bytes overflow",
       [](Call& c) {
         c.problem.rows = kHuge;
         c.problem.cols = 1 << 22;
       },
       {"rows", kHugeText}},
      {"rows * x_row_stride overflows",
       [](Call& c) { c.problem.x_row_stride = std::int64_t{1} << 62; },
       {"x_row_stride", "4611686018427387904"}},
      {"rows * y_row_stride overflows",
       [](Call& c) { c.problem.y_row_stride = std::int64_t{1} << 62; },
       {"y_row_stride", "4611686018427387904"}},
      {"the largest size there is",
       [](Call& c) { c.problem.rows = std::numeric_limits<std::int64_t>::max(); },
       {"rows"}},
      {"f64 parameters of f32 x",
       [](Call& c) { c.problem.param_dtype = DType::f64; },
       {"param_dtype", "f64", "f32"}},
      {"bf16 parameters of f16 x",
       [](Call& c) {
         c.problem.x_dtype = c.problem.y_dtype = DType::f16;
         c.problem.param_dtype = DType::bf16;
       },
       {"param_dtype", "bf16", "f16", "f32"}},
      {"f16 parameters of bf16 x",
       [](Call& c) {
         c.problem.x_dtype = c.problem.y_dtype = DType::bf16;
         c.problem.param_dtype = DType::f16;
       },
       {"param_dtype", "f16", "bf16", "f32"}},
      {"bf16 parameters of f64 x",
       [](Call& c) {
         c.problem.x_dtype = c.problem.y_dtype = DType::f64;
         c.problem.param_dtype = DType::bf16;
       },
       {"param_dtype", "bf16", "f64", "f32"}},
      {"f16 y of f32 x and parameters",
       [](Call& c) { c.problem.y_dtype = DType::f16; },
       {"y_dtype", "f16", "f32"}},
      {"f16 y of f32 x and bf16 parameters",
       [](Call& c) {
         c.problem.y_dtype = DType::f16;
         c.problem.param_dtype = DType::bf16;
       },
       {"y_dtype", "f16", "f32", "bf16"}},
      {"f32 y of bf16 x and parameters",
       [](Call& c) {
         c.problem.x_dtype = c.problem.param_dtype = DType::bf16;
         c.problem.y_dtype = DType::f32;
       },
       {"y_dtype", "f32", "bf16"}},
      {"no such x_dtype", [](Call& c) { c.problem.x_dtype = static_cast<DType>(17); }, {"x_dtype"}},
      {"no such y_dtype", [](Call& c) { c.problem.y_dtype = static_cast<DType>(17); }, {"y_dtype"}},
      {"no such param_dtype",
       [](Call& c) { c.problem.param_dtype = static_cast<DType>(17); },
       {"param_dtype"}},
      {"no such operation",
       [](Call& c) { c.problem.operation = static_cast<Operation>(9); },
       {"operation"}},
      {"the mean of rms_norm",
       [](Call& c) { c.problem.operation = Operation::rms_norm; },
       {"save_mean", "rms_norm"}},
  });
}

TEST(Errors, ForwardBuffers) {
  using Call = ForwardCall;
  expect_refused<Call>({
      {"null x", [](Call& c) { c.buffers.x = nullptr; }, {"x", "null"}},
      {"null y", [](Call& c) { c.buffers.y = nullptr; }, {"y", "null"}},
      {"null gamma", [](Call& c) { c.buffers.gamma = nullptr; }, {"gamma", "null"}},
      {"null beta", [](Call& c) { c.buffers.beta = nullptr; }, {"beta", "null"}},
      {"null mean", [](Call& c) { c.buffers.mean = nullptr; }, {"mean", "null"}},
      {"null rstd", [](Call& c) { c.buffers.rstd = nullptr; }, {"rstd", "null"}},
      {"misaligned x",
       [](Call& c) { c.buffers.x = off_by_a_byte(c.buffers.x); },
       {"x", "address", "4"}},
      {"misaligned y",
       [](Call& c) { c.buffers.y = off_by_a_byte(c.buffers.y); },
       {"y", "address", "4"}},
      {"misaligned gamma",
       [](Call& c) { c.buffers.gamma = off_by_a_byte(c.buffers.gamma); },
       {"gamma", "address", "4"}},
      {"misaligned beta",
       [](Call& c) { c.buffers.beta = off_by_a_byte(c.buffers.beta); },
       {"beta", "address", "4"}},
      {"misaligned mean",
       [](Call& c) { c.buffers.mean = off_by_a_byte(c.buffers.mean); },
       {"mean", "address", "4"}},
      {"misaligned rstd",
       [](Call& c) { c.buffers.rstd = off_by_a_byte(c.buffers.rstd); },
       {"rstd", "address", "4"}},
  });
}

TEST(Errors, BackwardProblem) {
  using Call = BackwardCall;
  expect_refused<Call>({
      {"negative rows", [](Call& c) { c.problem.rows = -3; }, {"rows", "-3"}},
      {"negative cols", [](Call& c) { c.problem.cols = -8; }, {"cols", "-8"}},
      {"dy_row_stride < cols",
       [](Call& c) { c.problem.dy_row_stride = 7; },
       {"dy_row_stride", "7", "8"}},
      {"source_row_stride < cols",
       [](Call& c) { c.problem.source_row_stride = 6; },
       {"source_row_stride", "6", "8"}},
      {"dx_row_stride < cols",
       [](Call& c) { c.problem.dx_row_stride = -2; },
       {"dx_row_stride", "-2", "8"}},
      {"rows * cols overflows",
       [](Call& c) { c.problem.rows = c.problem.cols = kHuge; },
       {"rows", "cols", kHugeText}},
      {"rows * dx_row_stride overflows",
       [](Call& c) { c.problem.dx_row_stride = std::int64_t{1} << 62; },
       {"dx_row_stride", "4611686018427387904"}},
      {"f64 parameters of f32 x",
       [](Call& c) { c.problem.param_dtype = DType::f64; },
       {"param_dtype", "f64", "f32"}},
      {"f16 y of f32 x", [](Call& c) { c.problem.y_dtype = DType::f16; }, {"y_dtype", "f16"}},
      {"no such x_dtype", [](Call& c) { c.problem.x_dtype = static_cast<DType>(17); }, {"x_dtype"}},
      {"no such source", [](Call& c) { c.problem.source = static_cast<Source>(9); }, {"source"}},
      {"no such operation",
       [](Call& c) { c.problem.operation = static_cast<Operation>(9); },
       {"operation"}},
  });
}

TEST(Errors, BackwardBuffers) {
  using Call = BackwardCall;
  expect_refused<Call>({
      {"null dy", [](Call& c) { c.buffers.dy = nullptr; }, {"dy", "null"}},
      {"null x", [](Call& c) { c.buffers.x = nullptr; }, {"x", "null"}},
      {"null gamma", [](Call& c) { c.buffers.gamma = nullptr; }, {"gamma", "null"}},
      {"null mean", [](Call& c) { c.buffers.mean = nullptr; }, {"mean", "null"}},
      {"null rstd", [](Call& c) { c.buffers.rstd = nullptr; }, {"rstd", "null"}},
      {"null dx", [](Call& c) { c.buffers.dx = nullptr; }, {"dx", "null"}},
      {"null dgamma", [](Call& c) { c.buffers.dgamma = nullptr; }, {"dgamma", "null"}},
      {"null dbeta", [](Call& c) { c.buffers.dbeta = nullptr; }, {"dbeta", "null"}},
      {"null y of a backward from y",
       [](Call& c) {
         c.problem.source = Source::y;
         c.buffers.y = nullptr;
       },
       {"y", "null"}},
      {"null beta of a backward from y",
       [](Call& c) {
         c.problem.source = Source::y;
         c.buffers.beta = nullptr;
       },
       {"beta", "null"}},
      {"null gamma of a backward from y",
       [](Call& c) {
         c.problem.source = Source::y;
         c.buffers.gamma = nullptr;
       },
       {"gamma", "null"}},
      {"misaligned dy",
       [](Call& c) { c.buffers.dy = off_by_a_byte(c.buffers.dy); },
       {"dy", "address", "4"}},
      {"misaligned x",
       [](Call& c) { c.buffers.x = off_by_a_byte(c.buffers.x); },
       {"x", "address", "4"}},
      {"misaligned rstd",
       [](Call& c) { c.buffers.rstd = off_by_a_byte(c.buffers.rstd); },
       {"rstd", "address", "4"}},
      {"misaligned dx",
       [](Call& c) { c.buffers.dx = off_by_a_byte(c.buffers.dx); },
       {"dx", "address", "4"}},
      {"misaligned dgamma",
       [](Call& c) { c.buffers.dgamma = off_by_a_byte(c.buffers.dgamma); },
       {"dgamma", "address", "4"}},
      {"misaligned dbeta",
       [](Call& c) { c.buffers.dbeta = off_by_a_byte(c.buffers.dbeta); },
       {"dbeta", "address", "4"}},
  });
}

TEST(Errors, Workspace) {
  // Many rows: the partial sums of dgamma and dbeta need somewhere to be.
  struct ManyRows : BackwardCall {
    ManyRows() {
      problem.rows = 2000;
      memory.resize(400000, 1.5f);
      buffers = {array(0),    array(600),  array(0),    array(1200), array(0),
                 array(1210), array(1300), array(1400), array(2100), array(2110)};
    }
  };
  ManyRows probe;
  const auto plan = cpu::plan(probe.problem, probe.device);
  ASSERT_TRUE(plan) << plan.status().message();
  ASSERT_GT(plan->workspace_bytes, 0u);
  const std::string needed = std::to_string(plan->workspace_bytes);
  const std::string given = std::to_string(plan->workspace_bytes - 1);
  expect_refused<ManyRows>({
      {"one byte too few",
       [](ManyRows& c) { c.workspace_change = -1; },
       {"workspace", given, needed}},
      {"null workspace", [](ManyRows& c) { c.null_workspace = true; }, {"workspace", "null"}},
  });
}

TEST(Errors, WhatIsNotNeededMayBeNull) {
  ForwardCall forward;
  forward.problem.has_gamma = forward.problem.has_beta = false;
  forward.problem.save_mean = forward.problem.save_rstd = false;
  forward.buffers = {forward.buffers.x, nullptr, nullptr, forward.buffers.y, nullptr, nullptr};
  EXPECT_TRUE(forward.call());

  BackwardCall backward;
  backward.problem.has_gamma = false;
  backward.problem.want_dgamma = backward.problem.want_dbeta = false;
  backward.buffers.gamma = backward.buffers.beta = backward.buffers.y = nullptr;
  backward.buffers.dgamma = backward.buffers.dbeta = nullptr;
  EXPECT_TRUE(backward.call());

  BackwardCall from_y;
  from_y.problem.source = Source::y;
  from_y.buffers.x = from_y.buffers.mean = nullptr;
  const Status status = from_y.call();
  EXPECT_TRUE(status) << status.message();
}

TEST(Errors, EmptyArraysMayBeNull) {
  for (const auto& [rows, cols] : {std::pair(0, 8), std::pair(3, 0), std::pair(0, 0)}) {
    ForwardCall forward;
    forward.problem.rows = rows;
    forward.problem.cols = cols;
    forward.buffers.x = forward.buffers.y = nullptr;
    if (rows == 0) forward.buffers.mean = forward.buffers.rstd = nullptr;
    if (cols == 0) forward.buffers.gamma = forward.buffers.beta = nullptr;
    const Status status = forward.call();
    EXPECT_TRUE(status) << rows << "x" << cols << ": " << status.message();

    BackwardCall backward;
    backward.problem.rows = rows;
    backward.problem.cols = cols;
    backward.buffers.dy = backward.buffers.x = backward.buffers.dx = nullptr;
    if (rows == 0) backward.buffers.mean = backward.buffers.rstd = nullptr;
    if (cols == 0) {
      backward.buffers.gamma = backward.buffers.dgamma = backward.buffers.dbeta = nullptr;
    }
    const Status second = backward.call();
    EXPECT_TRUE(second) << rows << "x" << cols << ": " << second.message();
  }
}

// docs/contract.md: mean and rstd of a row of no columns are 0 / 0.
TEST(Errors, RowsWithoutColumnsHaveStatisticsThatAreNaN) {
  ForwardCall call;
  call.problem.cols = 0;
  const auto before = call.memory;
  const Status status = call.call();
  ASSERT_TRUE(status) << status.message();
  const auto* mean = static_cast<const float*>(call.array(4));
  const auto* rstd = static_cast<const float*>(call.array(5));
  for (int row = 0; row < 3; ++row) {
    EXPECT_TRUE(std::isnan(mean[row])) << row;
    EXPECT_TRUE(std::isnan(rstd[row])) << row;
  }
  EXPECT_EQ(mean[3], before[64 * 4 + 3]) << "past the last row";
  EXPECT_EQ(rstd[3], before[64 * 5 + 3]) << "past the last row";
  for (int index = 0; index < 64 * 4; ++index) ASSERT_EQ(call.memory[index], before[index]);
}

TEST(Errors, AnInstructionSetThatIsNotThereIsRefused) {
  ForwardCall call;
  call.device.instruction_set.highway_target = 12345;
  const auto before = call.memory;
  const Status status = call.call();
  EXPECT_FALSE(status);
  EXPECT_TRUE(mentions(status.message(), "instruction_set")) << status.message();
  EXPECT_EQ(call.memory, before);
}

TEST(Errors, ADeviceThatCannotBeIsRefused) {
  for (int threads : {0, -1}) {
    ForwardCall call;
    call.device.threads = threads;
    const Status status = call.call();
    EXPECT_FALSE(status);
    EXPECT_TRUE(mentions(status.message(), "threads")) << status.message();
    EXPECT_TRUE(mentions(status.message(), std::to_string(threads))) << status.message();
  }
}

}  // namespace
}  // namespace fusednorm::testing
