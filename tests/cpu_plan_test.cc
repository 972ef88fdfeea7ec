// SPDX-License-Identifier: Apache-2.0
// Planning: a pure function of problem and device, printable, forceable, and at home with sizes
// that no machine could hold.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "cpu_backend.h"
#include "mentions.h"
#include "problems.h"

namespace fusednorm::testing {
namespace {

template <typename Plan>
void expect_same(const Plan& one, const Plan& two, const std::string& what) {
  EXPECT_EQ(one.schedule, two.schedule) << what;
  EXPECT_EQ(one.streaming_stores, two.streaming_stores) << what;
  EXPECT_EQ(one.tasks, two.tasks) << what;
  EXPECT_EQ(one.workspace_bytes, two.workspace_bytes) << what;
  EXPECT_EQ(one.device.instruction_set.highway_target, two.device.instruction_set.highway_target);
  EXPECT_EQ(cpu::explain(one), cpu::explain(two)) << what;
}

TEST(Plan, IsPure) {
  const cpu::Device device = make_device(cpu::instruction_sets()[0], 4);
  for (const char* text : {"forward:f32:4096x768", "backward:bf16/f32:8192x1024",
                           "backward_from_y:f32:1x1000000", "forward:f16:64x64"}) {
    const Problem problem = parse(text);
    if (problem.is_forward()) {
      const auto first = cpu::plan(forward_problem(problem), device);
      (void)cpu::plan(forward_problem(parse("forward:f64:7x9999999")), make_device({}, 64));
      const auto second = cpu::plan(forward_problem(problem), device);
      ASSERT_TRUE(first && second);
      expect_same(*first, *second, text);
    } else {
      const auto first = cpu::plan(backward_problem(problem), device);
      (void)cpu::plan(backward_problem(parse("backward:f64:7x9999999")), make_device({}, 64));
      const auto second = cpu::plan(backward_problem(problem), device);
      ASSERT_TRUE(first && second);
      expect_same(*first, *second, text);
      EXPECT_EQ(first->row_blocks, second->row_blocks);
    }
  }
}

TEST(Plan, RowBlocksAreAFunctionOfTheShapeAlone) {
  for (const char* shape : {"1000x8", "1000000x8", "8192x1024", "3x1000000", "1x1"}) {
    std::set<std::int64_t> counts;
    for (const cpu::InstructionSet& set : cpu::instruction_sets()) {
      for (int threads : {1, 2, 3, 8, 64}) {
        for (const auto& device : {make_device(set, threads), small_cache_device(set, threads)}) {
          const auto plan =
              cpu::plan(backward_problem(parse(std::string("backward:f32:") + shape)), device);
          ASSERT_TRUE(plan);
          counts.insert(plan->row_blocks);
        }
      }
    }
    EXPECT_EQ(counts.size(), 1u) << shape;
  }
}

// Forward: a row to a thread where each has four of them and a row fits its part of the cache.
TEST(Plan, ThreadsShareRowsThatAreFewOrVeryLong) {
  const cpu::Device device = make_device(cpu::instruction_sets()[0], 8);
  for (const auto& [text, schedule] : {std::pair("forward:f32:32x70000", cpu::Schedule::rows),
                                       std::pair("forward:f32:31x70000", cpu::Schedule::segments),
                                       std::pair("forward:f32:8x60000", cpu::Schedule::rows),
                                       std::pair("forward:f32:7x60000", cpu::Schedule::segments),
                                       std::pair("forward:f32:64x600000", cpu::Schedule::segments),
                                       std::pair("forward:bf16:64x600000", cpu::Schedule::rows)}) {
    const auto plan = cpu::plan(forward_problem(parse(text)), device);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->schedule, schedule) << text;
  }
}

// Backward: the column sums of up to eight shared rows need no room, for they never leave a task.
TEST(Plan, FewSharedRowsKeepTheirColumnSums) {
  const cpu::Device device = make_device(cpu::instruction_sets()[0], 8);
  const auto eight = cpu::plan(backward_problem(parse("backward:f32:8x1000000")), device);
  const auto nine = cpu::plan(backward_problem(parse("backward:f32:9x1000000")), device);
  ASSERT_TRUE(eight && nine);
  EXPECT_EQ(eight->schedule, cpu::Schedule::segments);
  EXPECT_LT(eight->workspace_bytes, std::size_t{1} << 20);
  EXPECT_GT(nine->workspace_bytes, std::size_t{8} * 1000000);
}

const char* word_of(cpu::Schedule schedule) {
  switch (schedule) {
    case cpu::Schedule::calling_thread:
      return "calling thread";
    case cpu::Schedule::rows:
      return "whole rows";
    case cpu::Schedule::segments:
      return "share each row";
  }
  return "?";
}

TEST(Plan, ExplainTellsTheInstructionSetAndTheSchedule) {
  for (const cpu::InstructionSet& set : cpu::instruction_sets()) {
    std::set<cpu::Schedule> schedules;
    for (const char* shape : {"2x8", "8192x1024", "1x4000000"}) {
      const cpu::Device device = make_device(set, 4);
      const auto forward =
          cpu::plan(forward_problem(parse(std::string("forward:f32:") + shape)), device);
      const auto backward =
          cpu::plan(backward_problem(parse(std::string("backward:f32:") + shape)), device);
      ASSERT_TRUE(forward && backward);
      for (const auto& [text, schedule] :
           {std::pair(cpu::explain(*forward), forward->schedule),
            std::pair(cpu::explain(*backward), backward->schedule)}) {
        schedules.insert(schedule);
        EXPECT_TRUE(mentions(text, set.name())) << text;
        EXPECT_NE(text.find(word_of(schedule)), std::string::npos) << text;
      }
    }
    EXPECT_EQ(schedules.size(), 3u) << "the shapes were chosen to need each schedule once";
  }
}

TEST(InstructionSets, AreNamedDistinctAndBestFirst) {
  const auto sets = cpu::instruction_sets();
  ASSERT_FALSE(sets.empty());
  std::set<std::string> names;
  for (const auto& set : sets) {
    EXPECT_FALSE(set.name().empty());
    names.insert(set.name());
  }
  EXPECT_EQ(names.size(), sets.size());
  EXPECT_EQ(cpu::query().instruction_set.highway_target, sets[0].highway_target);
  const cpu::Device device = cpu::query();
  EXPECT_GE(device.threads, 1);
  EXPECT_GT(device.cache_shared, 0);
}

TEST(InstructionSets, AForcedOneIsKept) {
  for (const auto& set : cpu::instruction_sets()) {
    const auto plan = cpu::plan(forward_problem(parse("forward:f32:10x10")), make_device(set, 1));
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->device.instruction_set.highway_target, set.highway_target);
  }
}

// A Device written by hand has the best instruction set; one that names none is refused, since a
// pure function cannot look at the machine.
TEST(Plan, ADeviceWrittenByHandHasAnInstructionSet) {
  const ForwardProblem problem = forward_problem(parse("forward:f32:10x10"));
  cpu::Device device;
  device.threads = 3;
  EXPECT_EQ(device.instruction_set.highway_target, cpu::query().instruction_set.highway_target);
  const auto planned = cpu::plan(problem, device);
  EXPECT_TRUE(planned) << planned.status().message();
  device.instruction_set = cpu::InstructionSet{};
  const auto refused = cpu::plan(problem, device);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(mentions(refused.status().message(), "instruction_set"))
      << refused.status().message();
}

// Sizes past 2^31 and 2^32 in rows, columns and elements: planning must neither overflow nor ask
// for a workspace that grows with rows. (No memory is touched.)
TEST(Plan, GiantSizes) {
  constexpr std::int64_t kBillions = (std::int64_t{1} << 33) + 1;
  for (const auto& [rows, cols] :
       {std::pair(kBillions, std::int64_t{8}), std::pair(std::int64_t{8}, kBillions),
        std::pair(std::int64_t{1}, kBillions), std::pair(kBillions, std::int64_t{1} << 20)}) {
    for (int threads : {1, 8, 64}) {
      const cpu::Device device = make_device(cpu::instruction_sets()[0], threads);
      ForwardProblem forward;
      forward.rows = rows;
      forward.cols = cols;
      const auto forward_plan = cpu::plan(forward, device);
      ASSERT_TRUE(forward_plan) << forward_plan.status().message();
      EXPECT_GE(forward_plan->tasks, 1);
      BackwardProblem backward;
      backward.rows = rows;
      backward.cols = cols;
      const auto backward_plan = cpu::plan(backward, device);
      ASSERT_TRUE(backward_plan) << backward_plan.status().message();
      EXPECT_GE(backward_plan->tasks, 1);
      EXPECT_GE(backward_plan->row_blocks, 1);
      // "A few hundred KB + O(cols)": 64 pairs of f32 sums a column at most.
      const std::size_t most = (std::size_t{512} << 10) + static_cast<std::size_t>(cols) * 512;
      EXPECT_LE(forward_plan->workspace_bytes, most) << rows << "x" << cols;
      EXPECT_LE(backward_plan->workspace_bytes, most) << rows << "x" << cols;
    }
  }
}

TEST(Plan, WorkspaceStaysSmallAtEveryShape) {
  for (std::int64_t rows : {1, 100, 10000, 1000000}) {
    for (std::int64_t cols : {1, 64, 768, 4096, 65536}) {
      BackwardProblem problem;
      problem.rows = rows;
      problem.cols = cols;
      const auto plan = cpu::plan(problem, make_device(cpu::instruction_sets()[0], 8));
      ASSERT_TRUE(plan);
      EXPECT_LE(plan->workspace_bytes,
                (std::size_t{512} << 10) + static_cast<std::size_t>(cols) * 512)
          << rows << "x" << cols;
    }
  }
}

}  // namespace
}  // namespace fusednorm::testing
