// SPDX-License-Identifier: Apache-2.0
// Sizes past 2^31 elements: with rows so far apart that little memory is touched, and with real
// memory where the machine has it.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>

#include "cpu_backend.h"
#include "harness.h"
#include "reference/element.h"
#include "reference/norms.h"
#include "tolerances.h"

namespace fusednorm::testing {
namespace {

/// Zeroed address space whose pages cost memory only when touched.
class Mapping {
 public:
  explicit Mapping(std::size_t bytes) : bytes_(bytes) {
    void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    data_ = address == MAP_FAILED ? nullptr : static_cast<std::byte*>(address);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  std::byte* data() const { return data_; }

 private:
  std::size_t bytes_;
  std::byte* data_;
};

std::int64_t available_gigabytes() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  for (std::int64_t kilobytes; file >> key >> kilobytes >> unit;) {
    if (key == "MemAvailable:") return kilobytes >> 20;
  }
  return 0;
}

// Row 4 begins past element 2^33: 32-bit arithmetic anywhere would land on another row.
TEST(Large, RowsFarApart) {
  constexpr std::int64_t kStride = (std::int64_t{1} << 31) + 24, kRows = 5, kCols = 37;
  constexpr std::size_t kBytes = (static_cast<std::size_t>(kRows - 1) * kStride + kCols) * 2;
  const Mapping x(kBytes), y(kBytes), dx(kBytes);
  if (x.data() == nullptr || y.data() == nullptr || dx.data() == nullptr) {
    GTEST_SKIP() << "no address space for three arrays of 17 GB; needs overcommit";
  }
  const Problem forward = parse("forward:bf16/f32:5x37"),
                backward = parse("backward:bf16/f32:5x37");
  const Operands operands = make_operands(backward);
  for (const cpu::InstructionSet& set : cpu::instruction_sets()) {
    CpuBackend near(make_device(set, 2), {2});
    Layout near_forward(forward, operands), near_backward(backward, operands);
    ASSERT_TRUE(run(near, near_forward));
    ASSERT_TRUE(run(near, near_backward));
    // The same rows, far apart. y holds the forward's output, then dy.
    const auto spread = [&](const std::byte* packed_rows, std::byte* far) {
      for (std::int64_t row = 0; row < kRows; ++row) {
        std::memcpy(far + row * kStride * 2, packed_rows + row * kCols * 2, kCols * 2);
      }
    };
    const auto expect_rows = [&](const std::vector<std::byte>& expected, const std::byte* far) {
      for (std::int64_t row = 0; row < kRows; ++row) {
        EXPECT_EQ(
            std::memcmp(far + row * kStride * 2, expected.data() + row * kCols * 2, kCols * 2), 0)
            << "row " << row << " on " << set.name();
      }
    };
    spread(near_forward.memory.at(near_forward.forward.x), x.data());
    ForwardProblem far_forward = forward_problem(forward);
    far_forward.x_row_stride = far_forward.y_row_stride = kStride;
    auto& in = near_forward.forward;
    auto& memory = near_forward.memory;
    const auto plan = cpu::plan(far_forward, make_device(set, 2));
    ASSERT_TRUE(plan) << plan.status().message();
    std::vector<std::byte> workspace(plan->workspace_bytes);
    Status status = cpu::run(*plan,
                             {x.data(), memory.at(in.gamma), memory.at(in.beta), y.data(),
                              memory.at(in.mean), memory.at(in.rstd)},
                             {workspace.data(), workspace.size()}, Threads{2});
    ASSERT_TRUE(status) << status.message();
    expect_rows(output_bytes(near_forward, "y"), y.data());

    spread(near_backward.memory.at(near_backward.backward.dy), y.data());
    BackwardProblem far_backward = backward_problem(backward);
    far_backward.dy_row_stride = far_backward.source_row_stride = kStride;
    far_backward.dx_row_stride = kStride;
    const auto back_plan = cpu::plan(far_backward, make_device(set, 2));
    ASSERT_TRUE(back_plan) << back_plan.status().message();
    workspace.resize(back_plan->workspace_bytes);
    Memory& back = near_backward.memory;
    BackwardBuffers buffers;
    buffers.dy = y.data();
    buffers.x = x.data();
    buffers.gamma = back.at(near_backward.backward.gamma);
    buffers.mean = back.at(near_backward.backward.mean);
    buffers.rstd = back.at(near_backward.backward.rstd);
    buffers.dx = dx.data();
    std::vector<float> dgamma(kCols), dbeta(kCols);
    buffers.dgamma = dgamma.data();
    buffers.dbeta = dbeta.data();
    status = cpu::run(*back_plan, buffers, {workspace.data(), workspace.size()}, Threads{2});
    ASSERT_TRUE(status) << status.message();
    expect_rows(output_bytes(near_backward, "dx"), dx.data());
    EXPECT_EQ(std::memcmp(dgamma.data(), output_bytes(near_backward, "dgamma").data(), kCols * 4),
              0);
    EXPECT_EQ(std::memcmp(dbeta.data(), output_bytes(near_backward, "dbeta").data(), kCols * 4), 0);
  }
}

/// In place over `rows` x `cols` of bf16 without gamma and beta. Values repeat after kPeriod
/// columns, so y must repeat, too, and the reference needs one period only.
void run_in_place(std::int64_t rows, std::int64_t cols) {
  constexpr std::int64_t kPeriod = 1 << 12;
  if (test_scale() != Size::large) {
    GTEST_SKIP() << "4.3 GB of data: FUSEDNORM_TEST_SCALE=large runs this";
  }
  if (available_gigabytes() < 8) {
    GTEST_SKIP() << available_gigabytes() << " GB of memory are free, this needs 8";
  }
  const std::size_t bytes = static_cast<std::size_t>(rows * cols) * 2;
  const Mapping memory(bytes);
  ASSERT_NE(memory.data(), nullptr);
  std::vector<double> period(kPeriod);
  std::vector<std::uint16_t> codes(kPeriod);
  for (std::int64_t index = 0; index < kPeriod; ++index) {
    codes[index] = reference::encode(random_normal(7, index), reference::format_bf16);
    period[index] = reference::decode(codes[index], reference::format_bf16);
  }
  const std::size_t period_bytes = kPeriod * 2;
  for (std::size_t at = 0; at < bytes; at += period_bytes) {
    std::memcpy(memory.data() + at, codes.data(), std::min(period_bytes, bytes - at));
  }
  ForwardProblem problem;
  problem.rows = rows;
  problem.cols = cols;
  problem.x_dtype = problem.y_dtype = problem.param_dtype = DType::bf16;
  problem.has_gamma = problem.has_beta = false;
  const auto plan = cpu::plan(problem, make_device(cpu::instruction_sets()[0], 2));
  ASSERT_TRUE(plan) << plan.status().message();
  std::vector<std::byte> workspace(plan->workspace_bytes);
  const Status status =
      cpu::run(*plan, {memory.data(), nullptr, nullptr, memory.data(), nullptr, nullptr},
               {workspace.data(), workspace.size()}, Threads{2});
  ASSERT_TRUE(status) << status.message();
  // The tail of less than a period moves the mean by less than kPeriod / cols of the spread.
  reference::Norm norm;
  norm.rows = 1;
  norm.cols = kPeriod;
  const auto expected = reference::forward(norm, period.data());
  const double tail = static_cast<double>(cols % kPeriod) / static_cast<double>(cols);
  for (std::int64_t index = 0; index < kPeriod; ++index) {
    const double error = (0x1p-24 * 40 + tail) * (1 + std::fabs(expected.y[index]));
    ASSERT_TRUE(agrees(DType::bf16, reference::load(DType::bf16, memory.data(), index),
                       expected.y[index], error))
        << index;
  }
  for (std::size_t at = period_bytes; at < bytes; at += period_bytes) {
    ASSERT_EQ(std::memcmp(memory.data(), memory.data() + at, std::min(period_bytes, bytes - at)), 0)
        << "element " << at / 2 << " and after";
  }
}

TEST(Large, ManyRowsInPlace) {
  run_in_place((std::int64_t{1} << 19) + 3, 1 << 12);
}

TEST(Large, OneRowInPlace) {
  run_in_place(1, (std::int64_t{1} << 31) + 77);
}

}  // namespace
}  // namespace fusednorm::testing
