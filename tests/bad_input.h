// SPDX-License-Identifier: Apache-2.0
// Calls of the CPU backend with one thing wrong, and what is expected of them: a Status that names
// the argument, the value it had and what was expected, and not one byte written.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "cpu_backend.h"
#include "mentions.h"

namespace fusednorm::testing {

/// A right problem of 3 rows of 8, all arrays present, in one block of memory that is compared
/// before and after.
template <typename Problem, typename Buffers>
struct Call {
  Problem problem;
  Buffers buffers;
  cpu::Device device = make_device(cpu::instruction_sets()[0], 2);
  std::ptrdiff_t workspace_change = 0;  ///< bytes lent, less bytes asked for
  bool null_workspace = false;
  std::vector<float> memory = std::vector<float>(1024, 1.5f);

  void* array(int index) { return memory.data() + 64 * index; }

  Status call() {
    const auto plan = cpu::plan(problem, device);
    if (!plan) {
      return plan.status();
    }
    std::vector<std::byte> workspace(plan->workspace_bytes + 1);
    const std::size_t bytes = plan->workspace_bytes + workspace_change;
    return cpu::run(*plan, buffers, {null_workspace ? nullptr : workspace.data(), bytes});
  }
};

struct ForwardCall : Call<ForwardProblem, ForwardBuffers> {
  ForwardCall() {
    problem.rows = 3;
    problem.cols = 8;
    problem.save_mean = problem.save_rstd = true;
    buffers = {array(0), array(1), array(2), array(3), array(4), array(5)};
  }
};

struct BackwardCall : Call<BackwardProblem, BackwardBuffers> {
  BackwardCall() {
    problem.rows = 3;
    problem.cols = 8;
    buffers = {array(0), array(1), array(2), array(3), array(4),
               array(5), array(6), array(7), array(8), array(9)};
  }
};

template <typename TheCall>
struct BadInput {
  const char* what;
  std::function<void(TheCall&)> spoil;
  std::vector<std::string> expected_words;
};

template <typename TheCall>
void expect_one_refused(const BadInput<TheCall>& input) {
  TheCall call;
  input.spoil(call);
  const auto before = call.memory;
  const Status status = call.call();
  EXPECT_FALSE(status) << input.what << " was accepted";
  EXPECT_EQ(call.memory, before) << input.what << ": outputs were touched";
  for (const std::string& word : input.expected_words) {
    EXPECT_TRUE(mentions(status.message(), word))
        << input.what << ": \"" << status.message() << "\" does not mention " << word;
  }
}

template <typename TheCall>
void expect_refused(const std::vector<BadInput<TheCall>>& inputs) {
  TheCall right;
  const Status fine = right.call();
  ASSERT_TRUE(fine) << fine.message();
  for (const auto& input : inputs) expect_one_refused(input);
}

template <typename Pointer>
Pointer off_by_a_byte(Pointer pointer) {
  return reinterpret_cast<Pointer>(reinterpret_cast<std::uintptr_t>(pointer) + 1);
}

/// As expect_refused, for calls that are not run when they are right.
template <typename TheCall>
void expect_only_refused(const std::vector<BadInput<TheCall>>& inputs) {
  for (const auto& input : inputs) expect_one_refused(input);
}

}  // namespace fusednorm::testing
