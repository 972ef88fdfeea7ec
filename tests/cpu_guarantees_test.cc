// SPDX-License-Identifier: Apache-2.0
// run_to_run, batch_invariant and thread_invariant on the CPU, for every instruction set.
// mutations_test.cc shows that kernels without the guarantees fail these procedures.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "cpu_backend.h"
#include "guarantees.h"

namespace fusednorm::testing {
namespace {

const char* const kProblems[] = {
    "forward:f32:300x5", "forward:f32:33x1000", "forward:bf16/f32:17x4097", "forward:f16:9x20000",
    "forward:f64:5x20001", "forward:f32:3x300000:data=ramp", "backward:f32:1000x5",
    "backward:f32:257x1000", "backward:bf16/f32:65x4097", "backward:f16:9x20000",
    "backward:f64:5x20001", "backward:f32:3x300000", "backward:f32:20000x17",
    "backward_from_y:f32:130x99", "backward_from_y:bf16/f32:9x20000",
    "backward_from_y:f32:3x300000",
    // Short rows whose statistics are found together, with rows among them that need more.
    "forward:f32:301x9", "forward:bf16/f32/f32:301x3", "forward:f16/f32/f32:301x4",
    // Whole vectors, but not whole cache lines: dx is cut otherwise than the sums are. Some rows
    // are centred. Of an odd number of rows, the last is summed alone.
    "backward:bf16/f32:65x784:data=offset", "backward:f16/f32:65x784:data=offset",
    "backward:bf16/f32:65x768:data=offset:offset=1", "backward:f16/f32:65x96:data=offset:offset=1",
    // Parameters of 16 bits that are read as they are.
    "forward:bf16:9x20000", "forward:bf16:4x4097:offset=1,3,2", "forward:f16:3x70001:offset=1",
    // Without beta: a row of zeros, which threads that share rows do without.
    "forward:bf16:9x20000:op=rms_norm", "forward:f16:3x70001:op=rms_norm",
    "forward:f16:12x4300:op=rms_norm:groups=3",
    // Rows that threads share, or not, as their number has it; in one group or two, of an odd
    // number of rows.
    "forward:bf16:9x70001", "backward:bf16/f32:3x70001", "backward:f16/f32:11x66000",
    "backward:f32:11x66000", "backward_from_y:f32:11x66000",
    // A last segment of one column, on a single thread after whole lines of the row.
    "forward:f32:2x262145", "backward:bf16:2x262145", "forward:f64:3x63489",
    // One of three: sums of a row that is taken whole end as those of its parts do.
    "backward:f32:2x262147", "backward:f64:3x63491",
    // Runs of rows: taken in turns with those of other groups or inner rows, by group in one block
    // and in several, and a group a row.
    "backward:bf16/f32:3000x64:groups=7x3:op=rms_norm", "backward:f32:1500x17:inner=3:outer=60",
    "backward:f32:2000x33:groups=2x100", "backward:bf16:700x40:residual=f32:groups=700",
    "backward_from_y:f32:900x31:groups=5:gamma_offset=1:residual=f32",
    "forward:bf16/f32:900x64:groups=5:gamma_offset=1:inner=3:outer=200",
    // Rows between two passes, taken whole and shared by threads.
    "forward:bf16:33x1000:residual=bf16:rounding=via_x", "forward:f16:129x99:residual=f32",
    "forward:f32/f16/f16:3x70001:rounding=via_param:residual=f32",
    "backward:bf16:257x96:residual=f32", "backward:f32/bf16/bf16:9x20000:residual=f32",
    "backward_from_y:f16:5x70001:residual=f32",
    "backward:bf16/f32:4x70001:inner=2:outer=150000:residual=bf16",
    // The family: each way in, each way out, groups whose rows end inside a block of rows.
    "forward:f32:33x1000:op=rms_norm:beta=normal", "forward:bf16/f32:17x4097:rounding=via_x",
    "forward:bf16/f32:301x64:residual=bf16:op=rms_norm", "forward:bf16:9x20000:residual=f32",
    "forward:f32:3x300000:residual=f32", "forward:f16:24x128:inner=6:outer=2000:groups=6",
    "backward:bf16/f32:301x64:residual=f32", "backward:f32:257x1000:residual=f32:op=rms_norm",
    "backward:f32:11x66000:residual=f32", "backward_from_y:bf16/f32:9x20000:residual=bf16",
    "backward:bf16/f32:24x128:inner=6:outer=2000:groups=6", "backward:f32:1000x17:groups=3x100",
    "backward:bf16/f32:300x64:groups=12:op=rms_norm:gamma_offset=1",
    "backward_from_y:f32:130x99:groups=2x50", "backward:bf16/f32:3x70001:groups=2",
    // Heads, which go in the order of memory only where dx goes past the cache: several plain sums
    // a block, odd numbers of periods, a last one that lacks heads, rows with heads and tails.
    "backward:bf16/f32:3007x64:groups=12", "backward:bf16:2011x65:groups=5:op=rms_norm",
    "backward:f16/f32:3007x72:groups=4:offset=1", "backward:f16:30000x64:groups=2"};

/// The problems that the backend takes.
std::vector<Problem> taken_problems() {
  const CpuBackend backend(make_device(cpu::instruction_sets()[0], 1), {1});
  std::vector<Problem> out;
  for (const char* text : kProblems) {
    const Problem problem = parse(text);
    if (const std::string why = backend.leaves_out(problem); !why.empty()) {
      std::printf("left out %s: %s\n", text, why.c_str());
    } else {
      out.push_back(problem);
    }
  }
  return out;
}

/// At the scale of this run.
std::vector<Problem> problems() {
  std::vector<Problem> out = taken_problems();
  for (Problem& problem : out) {
    if (test_scale() != Size::small || problem.inner_rows > 0) continue;
    // Rows and columns enough to be cut among threads, few enough for a sanitizer.
    problem.rows = std::min<std::int64_t>(problem.rows, 129);
    problem.cols = std::min<std::int64_t>(problem.cols, problem.rows > 20 ? 99 : 5001);
  }
  return out;
}

/// Machines that differ in all that a plan may look at.
std::vector<CpuBackend> machines(cpu::InstructionSet set) {
  return {
      {make_device(set, 1), {1}},        {make_device(set, 2), {2}},
      {make_device(set, 3), {3}},        {make_device(set, 8), {8}},
      {make_device(set, 8), {1, 5}},     {make_device(set, 1), {3}},
      {small_cache_device(set, 1), {1}}, {small_cache_device(set, 8), {8, 11}},
      {make_device(set, 64), {2, 3}},    {make_device(set, 2, std::int64_t{1} << 34), {2}},
  };
}

TEST(RunToRun, TheSameBitsEveryTime) {
  for (const cpu::InstructionSet& set : cpu::instruction_sets()) {
    CpuBackend backend(make_device(set, 8), {8});
    for (const Problem& problem : problems()) {
      for (int repeat = 0; repeat < 3; ++repeat) {
        EXPECT_EQ(same_bits(problem, backend, backend), "");
      }
    }
  }
}

TEST(ThreadInvariant, AllOutputsOnAnyMachine) {
  for (const cpu::InstructionSet& set : cpu::instruction_sets()) {
    auto backends = machines(set);
    for (const Problem& problem : problems()) {
      for (std::size_t index = 1; index < backends.size(); ++index) {
        EXPECT_EQ(same_bits(problem, backends[0], backends[index]), "");
      }
    }
  }
}

TEST(ThreadInvariant, TheDefaultParallelForGivesTheSameBits) {
  const auto problem = parse("backward:f32:1000x100");
  const auto device = cpu::query();
  const auto plan = cpu::plan(backward_problem(problem), device);
  ASSERT_TRUE(plan) << plan.status().message();
  Layout layout(problem, make_operands(problem));
  const BackwardBuffers buffers =
      buffers_of(layout.backward, Source::x, [&](Place place) { return layout.memory.at(place); });
  std::vector<std::byte> workspace(plan->workspace_bytes);
  const Status status = cpu::run(*plan, buffers, {workspace.data(), workspace.size()});
  ASSERT_TRUE(status) << status.message();
  CpuBackend backend(make_device(device.instruction_set, 3), {3});
  Layout other(problem, make_operands(problem));
  ASSERT_TRUE(run(backend, other));
  for (const OutputArray& output : layout.outputs) {
    EXPECT_EQ(output_bytes(layout, output.name), output_bytes(other, output.name)) << output.name;
  }
}

TEST(BatchInvariant, ARowAloneAmongOthersAndOnOtherMachines) {
  for (const cpu::InstructionSet& set : cpu::instruction_sets()) {
    auto backends = machines(set);
    for (Problem problem : problems()) {
      problem.rows = std::min<std::int64_t>(problem.rows, 33);
      for (std::size_t index : {0, 3, 7}) {
        EXPECT_EQ(batch_invariant(problem, backends[3], backends[index], 1), "");
        EXPECT_EQ(batch_invariant(problem, backends[index], backends[0], 5), "");
      }
    }
  }
}

TEST(BatchInvariant, WhateverTheOtherRowsHold) {
  for (const cpu::InstructionSet& set : cpu::instruction_sets()) {
    auto backends = machines(set);
    for (const char* text :
         {"forward:f32:9x5", "forward:f32:5x1000", "forward:bf16/f32:3x20000", "backward:f32:9x5",
          "backward:f32:5x1000", "backward:f16:3x20000", "backward_from_y:f32:5x1000",
          "backward:bf16/f32:9x5", "backward:f16/f32:5x1000"}) {
      EXPECT_EQ(batch_invariant(parse(text), backends[3], backends[7], 1, true), "");
    }
  }
}

// The address of a row is no part of its order of reduction either.
TEST(BatchInvariant, AddressesAndStridesDoNotMatter) {
  for (const cpu::InstructionSet& set : cpu::instruction_sets()) {
    // The second machine writes past its cache.
    auto backends = machines(set);
    for (const char* text :
         {"forward:f32:4x1000", "forward:bf16/f32:4x4097", "forward:f64:4x33",
          "backward:f32:4x1000", "backward:bf16/f32:4x4097", "backward:bf16/f32:5x784",
          "backward:f16/f32:5x784", "backward_from_y:bf16/f32:5x784", "backward:f32:4x5003",
          "backward:f64:4x1500", "backward:bf16/f32:5x3001", "forward:bf16/f32:4x2047"}) {
      Problem aligned = parse(text), moved = aligned;
      moved.offset = {1, 3, 2};
      moved.stride = {aligned.cols + 3, aligned.cols + 1, aligned.cols + 7};
      const Operands operands = make_operands(aligned);
      Layout one(aligned, operands), two(moved, operands);
      ASSERT_TRUE(run(backends[1], one));
      ASSERT_TRUE(run(backends[7], two));
      for (const OutputArray& output : one.outputs) {
        EXPECT_EQ(output_bytes(one, output.name), output_bytes(two, output.name))
            << to_string(moved) << " " << output.name;
      }
    }
  }
}

// Nor which other gradients are wanted.
TEST(BatchInvariant, AGradientAlone) {
  for (const cpu::InstructionSet& set : cpu::instruction_sets()) {
    auto backends = machines(set);
    for (const char* text :
         {"backward:f32:33x100", "backward:bf16/f32:33x784:data=offset",
          "backward:f16/f32:33x768:data=offset", "backward:bf16/f32:33x768",
          "backward:bf16/f32:9x5000", "backward_from_y:bf16/f32:33x784", "backward:f32:3x70000",
          "backward:f16/f32:3x70000",
          // Whole with dx, in chunks without.
          "backward:bf16/f32:9x3001", "backward:f16/f32:9x3001", "backward:f32:9x5003",
          // ds is added in the loop over rows with dgamma, and after it without.
          "backward:f32:33x100:residual=f32", "backward:f64:9x1500:residual=f64",
          "backward:f32:9x5003:residual=f32", "backward:bf16/f32:300x64:groups=12"}) {
      for (const int alone : {0, 1, 2}) {
        const Problem all = parse(text);
        Problem one = all;
        one.out = {alone == 0, alone == 1, alone == 2};
        const Operands operands = make_operands(all);
        Layout with(all, operands), without(one, operands);
        ASSERT_TRUE(run(backends[0], with));
        ASSERT_TRUE(run(backends[7], without));
        for (const OutputArray& output : without.outputs) {
          EXPECT_EQ(output_bytes(with, output.name), output_bytes(without, output.name))
              << to_string(one);
        }
      }
    }
  }
}

// The tests above mean something only if the machines do plan differently.
TEST(BatchInvariant, TheMachinesTakeEverySchedule) {
  std::set<cpu::Schedule> forward_schedules, backward_schedules;
  std::set<bool> streaming;
  for (CpuBackend& backend : machines(cpu::instruction_sets()[0])) {
    for (const Problem& listed : taken_problems()) {
      for (std::int64_t rows : {listed.rows, std::int64_t{1}}) {
        Problem problem = listed;
        if (rows == 1) problem.inner_rows = 0;
        problem.rows = rows;
        if (problem.is_forward()) {
          const auto plan = cpu::plan(forward_problem(problem), backend.device());
          ASSERT_TRUE(plan) << plan.status().message();
          forward_schedules.insert(plan->schedule);
          streaming.insert(plan->streaming_stores);
        } else {
          const auto plan = cpu::plan(backward_problem(problem), backend.device());
          ASSERT_TRUE(plan) << plan.status().message();
          backward_schedules.insert(plan->schedule);
        }
      }
    }
  }
  EXPECT_EQ(forward_schedules.size(), 3u);
  EXPECT_EQ(backward_schedules.size(), 3u);
  EXPECT_EQ(streaming.size(), 2u);
}

}  // namespace
}  // namespace fusednorm::testing
