// SPDX-License-Identifier: Apache-2.0
// One plan, many threads: each run on buffers of its own, all at once.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "cpu_backend.h"
#include "harness.h"

namespace fusednorm::testing {
namespace {

// Each caller brings two threads, so that runs interleave with other runs' tasks.
TEST(Concurrency, OnePlanForManyThreads) {
  for (const char* text :
       {"backward:f32:70x100", "backward:f32:2x20000", "backward:bf16/f32:500x8"}) {
    const Problem problem = parse(text);
    const Layout pristine(problem, make_operands(problem));
    const auto plan =
        cpu::plan(backward_problem(problem), small_cache_device(cpu::instruction_sets()[0], 2));
    ASSERT_TRUE(plan) << plan.status().message();
    constexpr int kCallers = 8;
    std::vector<Layout> layouts(kCallers, pristine);
    std::vector<Status> statuses(kCallers);
    std::vector<std::thread> callers;
    for (int caller = 0; caller < kCallers; ++caller) {
      callers.emplace_back([&, caller] {
        std::vector<std::byte> workspace(plan->workspace_bytes);
        Layout& own = layouts[caller];
        const BackwardBuffers buffers =
            buffers_of(own.backward, Source::x, [&](Place place) { return own.memory.at(place); });
        for (int repeat = 0; repeat < 5 && statuses[caller].ok(); ++repeat) {
          statuses[caller] =
              cpu::run(*plan, buffers, {workspace.data(), workspace.size()}, Threads{2});
        }
      });
    }
    for (std::thread& caller : callers) {
      caller.join();
    }
    for (int caller = 0; caller < kCallers; ++caller) {
      ASSERT_TRUE(statuses[caller]) << statuses[caller].message();
      for (const OutputArray& output : pristine.outputs) {
        EXPECT_EQ(output_bytes(layouts[caller], output.name), output_bytes(layouts[0], output.name))
            << text << " " << output.name;
      }
    }
    CpuBackend alone(make_device(cpu::instruction_sets()[0], 1), {1});
    Layout expected = pristine;
    ASSERT_TRUE(run(alone, expected));
    EXPECT_EQ(output_bytes(expected, "dx"), output_bytes(layouts[0], "dx")) << text;
  }
}

// Inputs are only read: threads may share them.
TEST(Concurrency, SharedInputs) {
  const Problem problem = parse("forward:f32:50x300");
  Layout layout(problem, make_operands(problem));
  const auto plan = cpu::plan(forward_problem(problem), make_device(cpu::instruction_sets()[0], 1));
  ASSERT_TRUE(plan);
  constexpr int kCallers = 8;
  std::vector<std::vector<float>> y(kCallers, std::vector<float>(50 * 300)), stats = y;
  std::vector<Status> statuses(kCallers);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      std::vector<std::byte> workspace(plan->workspace_bytes);
      statuses[caller] =
          cpu::run(*plan,
                   {layout.memory.at(layout.forward.x), layout.memory.at(layout.forward.gamma),
                    layout.memory.at(layout.forward.beta), y[caller].data(), stats[caller].data(),
                    stats[caller].data() + 100},
                   {workspace.data(), workspace.size()}, Threads{1});
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  for (int caller = 0; caller < kCallers; ++caller) {
    ASSERT_TRUE(statuses[caller]) << statuses[caller].message();
    EXPECT_EQ(y[caller], y[0]);
    EXPECT_EQ(stats[caller], stats[0]);
  }
}

}  // namespace
}  // namespace fusednorm::testing
