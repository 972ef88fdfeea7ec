// SPDX-License-Identifier: Apache-2.0
// The model of time on traces made by hand, whose times are known: limits and monotonicity.
#include "time_model.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <string>

namespace fusednorm::cost {
namespace {

/// The steps of one warp, and the program that they are of.
class Program {
 public:
  using Registers = std::vector<std::uint32_t>;

  std::uint32_t add(const char* text, const Registers& writes, const Registers& reads,
                    std::uint32_t weight = 1) {
    registers_.push_back(reads);
    registers_.back().insert(registers_.back().end(), writes.begin(), writes.end());
    FusednormEmulatorStatement statement{};
    statement.text = text;
    statement.weight = weight;
    statement.target = FUSEDNORM_EMULATOR_NO_TARGET;
    statement.reads = static_cast<std::uint32_t>(reads.size());
    statement.writes = static_cast<std::uint32_t>(writes.size());
    statement.registers = registers_.back().data();
    statements_.push_back(statement);
    return static_cast<std::uint32_t>(statements_.size()) - 1;
  }

  /// Executes a statement once; `change` fills in what it asks of memory.
  FusednormEmulatorStep& step(std::uint32_t statement) {
    FusednormEmulatorStep step{};
    step.statement = statement;
    step.lanes = 0xffffffffu;
    steps_.push_back(step);
    return steps_.back();
  }
  /// 512 bytes that nobody has touched.
  void touch(std::uint32_t statement) {
    FusednormEmulatorStep& one = step(statement);
    one.sectors = one.l2_sectors = one.new_sectors = 16;
  }

  /// `blocks` blocks of `warps` warps with these steps each, `resident` of them a multiprocessor.
  TracedLaunch launch(const Gpu& gpu, std::uint32_t blocks, std::uint32_t warps,
                      std::uint32_t resident) {
    TracedLaunch out{};
    out.launch.grid[0] = blocks;
    out.launch.block[0] = 32 * warps;
    for (auto* size : {out.launch.grid, out.launch.block}) size[1] = size[2] = 1;
    for (auto& size : out.launch.cluster) size = 1;
    out.launch.resident_blocks = resident;
    out.launch.resident_clusters = resident * static_cast<std::uint32_t>(gpu.multiprocessors);
    for (std::uint64_t block = 0; block < blocks; ++block)
      for (std::uint32_t warp = 0; warp < warps; ++warp)
        if (choose_cluster(&out.launch, block, nullptr) == FUSEDNORM_EMULATOR_TRACE)
          warps_.push_back({block, block, 0, warp, steps_.size(), steps_.data()});
    out.trace.statement_count = statements_.size();
    out.trace.statements = statements_.data();
    out.trace.warp_count = warps_.size();
    out.trace.warps = warps_.data();
    out.trace.array_count = 1;
    out.trace.arrays = &array_;
    out.trace.register_count = 64;
    out.trace.signal_count = 64;
    return out;
  }

 private:
  std::deque<std::vector<std::uint32_t>> registers_;
  std::vector<FusednormEmulatorStatement> statements_;
  std::vector<FusednormEmulatorStep> steps_;
  std::vector<FusednormEmulatorTracedWarp> warps_;
  FusednormEmulatorArray array_{0, 1ull << 40};
};

LaunchTime alone(const Gpu& gpu, const TracedLaunch& launch) {
  const LaunchTime time = predict(gpu, {launch}).launches[0];
  EXPECT_TRUE(time.complete);
  return time;
}

double cycles(const Gpu& gpu, const TracedLaunch& launch) {
  return alone(gpu, launch).seconds * gpu.clock;
}

class TimeModel : public testing::TestWithParam<int> {
 protected:
  const Gpu& gpu = gpus[GetParam()];
  const std::uint32_t sms = static_cast<std::uint32_t>(gpus[GetParam()].multiprocessors);
};
INSTANTIATE_TEST_SUITE_P(Devices, TimeModel, testing::Range(0, gpu_count), [](const auto& param) {
  std::string name = gpus[param.param].name;
  return name.substr(0, name.find(' ')) +
         (name.find(' ') == std::string::npos ? "" : name.substr(4));
});

/// A warp that copies `ahead` vectors at a time, `rounds` times.
TracedLaunch copy(Program& program, const Gpu& gpu, int ahead, int rounds, std::uint32_t blocks,
                  std::uint32_t warps, std::uint32_t resident) {
  std::vector<std::uint32_t> loads, stores;
  for (std::uint32_t k = 0; k < static_cast<std::uint32_t>(ahead); ++k)
    loads.push_back(program.add("ld.global.v4.f32", {k}, {60}));
  for (std::uint32_t k = 0; k < static_cast<std::uint32_t>(ahead); ++k)
    stores.push_back(program.add("st.global.v4.f32", {}, {k, 61}));
  for (int round = 0; round < rounds; ++round) {
    for (const std::uint32_t load : loads) program.touch(load);
    for (const std::uint32_t store : stores) program.touch(store);
  }
  return program.launch(gpu, blocks, warps, resident);
}

TEST_P(TimeModel, CopyReachesTheLimitOfMemory) {
  Program program;
  const TracedLaunch launch = copy(program, gpu, 4, 100, 4 * sms, 8, 4);
  const LaunchTime time = alone(gpu, launch);
  const double bytes = 4.0 * sms * 8 * 100 * 4 * 2 * 512;
  const double least = bytes / (gpu.bandwidth * gpu.copy_share);
  EXPECT_NEAR(time.dram_bytes, bytes, 1);
  EXPECT_GE(time.seconds, least);
  // The first answer, and what multiprocessors start apart.
  EXPECT_LE(time.seconds, 1.05 * least + 2 * gpu.dram_latency_ns * 1e-9);
  EXPECT_STREQ(predict(gpu, {launch}).bound, "memory");
}

TEST_P(TimeModel, FewerBytesInFlightAreSlower) {
  double before = 0;
  for (const int ahead : {8, 4, 2, 1}) {  // the same bytes in all
    Program program;
    const double time = alone(gpu, copy(program, gpu, ahead, 64 / ahead, sms, 4, 1)).seconds;
    EXPECT_GT(time, before * (1 - 1e-9)) << ahead;
    before = time;
  }
  // One load at a time: a round trip each, and nothing else takes as long.
  Program program;
  const double one = cycles(gpu, copy(program, gpu, 1, 64, sms, 1, 1));
  const double trip = gpu.dram_latency_ns * 1e-9 * gpu.clock;
  EXPECT_GT(one, 64 * trip);
  EXPECT_LT(one, 64 * (trip + 200) + 1000);
}

/// A warp that loads `rows` rows of 512 bytes, one after the other, and prefetches the next before
/// each.
TracedLaunch prefetching(Program& program, const Gpu& gpu, int rows, std::uint32_t work) {
  const std::uint32_t prefetch = program.add("prefetch.global.L2", {}, {60});
  const std::uint32_t load = program.add("ld.global.v4.f32", {0}, {60});
  const std::uint32_t use = program.add("fma.rn.f32", {0}, {0, 1});
  for (int row = 0; row < rows; ++row) {
    if (row + 1 < rows) program.touch(prefetch);
    FusednormEmulatorStep& one = program.step(load);
    one.sectors = one.l2_sectors = 16;
    one.new_sectors = row == 0 ? 16 : 0;
    for (std::uint32_t k = 0; k < work; ++k) program.step(use);
  }
  return program.launch(gpu, 1, 1, 1);
}

TEST_P(TimeModel, APrefetchedRowIsThereWhenTheL2HasIt) {
  const double trip = gpu.dram_latency_ns * 1e-9 * gpu.clock;
  Program idle, busy;
  // Nothing else to do: a row is asked of DRAM one row ahead, so two rows take one trip.
  const double none = cycles(gpu, prefetching(idle, gpu, 64, 1));
  EXPECT_GT(none, 31 * trip);
  EXPECT_LT(none, 33 * trip + 64 * (gpu.l2_latency + 100) + 1000);
  // More to do than the trip takes: then a row takes its work and the way from the L2.
  const auto work = static_cast<std::uint32_t>(trip / 4) + 100;
  const double full = cycles(gpu, prefetching(busy, gpu, 64, work));
  EXPECT_GT(full, 64 * (4.0 * work + gpu.l2_latency));
  EXPECT_LT(full, 64 * (4.0 * work + gpu.l2_latency + 100) + 2 * trip + 1000);
}

TEST_P(TimeModel, BytesInFlightAreThoseAskedFor) {
  Program program;
  const TracedLaunch launch = copy(program, gpu, 4, 200, sms, 4, 1);
  const LaunchTime time = predict(gpu, {launch}, {true}).launches[0];
  // Four warps with four loads of 512 bytes; none is in flight while the answers are stored.
  EXPECT_LE(time.bytes_in_flight, 4 * 4 * 512.0);
  EXPECT_GT(time.bytes_in_flight, 0.85 * 4 * 4 * 512);
}

TEST_P(TimeModel, ArithmeticIsBoundByIssueOrUnits) {
  Program program;
  std::vector<std::uint32_t> all;
  for (std::uint32_t k = 0; k < 8; ++k) all.push_back(program.add("fma.rn.f32", {k}, {k, 60}));
  for (int round = 0; round < 500; ++round)
    for (const std::uint32_t one : all) program.step(one);
  const TracedLaunch launch = program.launch(gpu, sms, 16, 1);
  const Prediction prediction = predict(gpu, {launch});
  // 16 warps on four schedulers, an instruction each in 32 / (lanes / 4) cycles.
  const double least = 4.0 * 4000 * 128 / gpu.f32_lanes;
  EXPECT_GE(prediction.launches[0].seconds * gpu.clock, least);
  EXPECT_LE(prediction.launches[0].seconds * gpu.clock, 1.02 * least + 400);
  EXPECT_STREQ(prediction.bound, gpu.f32_lanes == 128 ? "issue" : "units");
}

TEST_P(TimeModel, ChainTakesALatencyEach) {
  Program program;
  const std::uint32_t one = program.add("fma.rn.f32", {0}, {0, 1});
  for (int k = 0; k < 1000; ++k) program.step(one);
  const double time = cycles(gpu, program.launch(gpu, 1, 1, 1));
  EXPECT_GE(time, 4 * 999);
  EXPECT_LE(time, 4 * 1000 + 400);
}

TEST_P(TimeModel, MovesAreFree) {
  Program program;
  const std::uint32_t move = program.add("mov.f32", {0}, {1}, 0);
  for (int k = 0; k < 1000; ++k) program.step(move);
  program.step(program.add("add.f32", {2}, {0, 0}));
  EXPECT_LE(cycles(gpu, program.launch(gpu, 1, 1, 1)), 400 + 10);
}

TEST_P(TimeModel, BarrierWaitsForTheLast) {
  // One program for all warps: each loads, meets the others, loads. Two trips, whoever is last.
  Program program;
  const std::uint32_t first = program.add("ld.global.f32", {0}, {60});
  const std::uint32_t use = program.add("add.f32", {1}, {0, 0});
  const std::uint32_t barrier = program.add("bar.sync", {}, {});
  const std::uint32_t second = program.add("ld.global.f32", {2}, {60});
  const std::uint32_t last = program.add("add.f32", {3}, {2, 2});
  program.touch(first);
  program.step(use);
  FusednormEmulatorStep& meet = program.step(barrier);
  meet.arrives = meet.waits = 1;
  program.touch(second);
  program.step(last);
  const double trip = gpu.dram_latency_ns * 1e-9 * gpu.clock;
  const double time = cycles(gpu, program.launch(gpu, 1, 8, 1));
  EXPECT_GT(time, 2 * trip + 20);
  EXPECT_LT(time, 2 * trip + 2000);
}

TEST_P(TimeModel, RingOfCopiesHidesTheWork) {
  // A bulk copy a row, waited for by its signal, then work as long as half a trip. With two stages
  // the next row is asked for before this one is waited for.
  const auto time = [&](int stages) {
    Program program;
    const std::uint32_t ask =
        program.add("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes", {}, {60});
    const std::uint32_t wait = program.add("mbarrier.try_wait.parity.shared::cta.b64", {5}, {61});
    const std::uint32_t work = program.add("fma.rn.f32", {0}, {0, 1});
    const int rows = 40;
    const auto request = [&](int row) {
      if (row >= rows) return;
      FusednormEmulatorStep& one = program.step(ask);
      one.sectors = one.l2_sectors = one.new_sectors = 16;
      one.arrives = static_cast<std::uint32_t>(row) + 1;
    };
    for (int stage = 0; stage + 1 < stages; ++stage) request(stage);
    for (int row = 0; row < rows; ++row) {
      request(row + stages - 1);
      program.step(wait).waits = static_cast<std::uint32_t>(row) + 1;
      for (int k = 0; k < 100; ++k) program.step(work);
    }
    return cycles(gpu, program.launch(gpu, 1, 1, 1));
  };
  EXPECT_GT(time(1), 40 * (gpu.dram_latency_ns * 1e-9 * gpu.clock + 400));
  EXPECT_LT(time(2), time(1) - 39 * 390);  // the work of all rows but one is hidden
  EXPECT_LE(time(3), time(2));
}

TEST_P(TimeModel, GroupsOfCopiesAreWaitedForInOrder) {
  const auto time = [&](std::uint32_t left) {
    Program program;
    const std::uint32_t ask = program.add("cp.async.cg.shared.global", {}, {60});
    const std::uint32_t commit = program.add("cp.async.commit_group", {}, {});
    const std::uint32_t wait = program.add("cp.async.wait_group", {}, {});
    for (int row = 0; row < 40; ++row) {
      program.touch(ask);
      program.step(commit);
      program.step(wait).value = left;
    }
    return cycles(gpu, program.launch(gpu, 1, 1, 1));
  };
  EXPECT_GT(time(0), 1.9 * time(1));
  EXPECT_GT(time(1), time(2));
}

TEST_P(TimeModel, WavesFollowEachOther) {
  const auto time = [&](std::uint32_t blocks) {
    Program program;
    return cycles(gpu, copy(program, gpu, 1, 20, blocks, 1, 1));
  };
  EXPECT_GT(time(2 * sms), 1.9 * time(sms) - 400);
  EXPECT_GT(time(sms + 1), 1.5 * time(sms)) << "one block more is a wave more";
}

TEST_P(TimeModel, LaunchesCost) {
  Program program;
  TracedLaunch launch = copy(program, gpu, 4, 20, sms, 4, 1);
  const double one = predict(gpu, {launch}).seconds;
  const double two = predict(gpu, {launch, launch}).seconds;
  EXPECT_NEAR(one, predict(gpu, {launch}).launches[0].seconds + gpu.launch_us * 1e-6, 1e-12);
  EXPECT_NEAR(two, 2 * one + (gpu.gap_us - gpu.launch_us) * 1e-6, 1e-12);
  launch.launch.programmatic = 1;
  EXPECT_LT(predict(gpu, {launch, launch}).seconds, two);
}

TEST_P(TimeModel, SmallArraysOfTheLaunchBeforeAreInTheL2) {
  const auto second = [&](double bytes) {
    Program program;
    TracedLaunch launch = copy(program, gpu, 1, 50, sms, 1, 1);
    const FusednormEmulatorArray array{0, static_cast<std::uint64_t>(bytes)};
    launch.trace.arrays = &array;
    return predict(gpu, {launch, launch}).launches;
  };
  const auto small = second(0.05 * gpu.l2_bytes), large = second(4 * gpu.l2_bytes);
  EXPECT_LT(small[1].seconds, small[0].seconds);
  EXPECT_DOUBLE_EQ(large[1].seconds, large[0].seconds);
}

TEST(Statements, LoadsAreScheduledBeforeTheirUses) {
  Program program;
  program.add("ld.global.f32", {0}, {60});
  program.add("add.f32", {1}, {1, 0});
  program.add("ld.global.f32", {2}, {61});
  program.add("add.f32", {1}, {1, 2});
  program.add("st.global.f32", {}, {1, 62});
  program.add("ld.global.f32", {3}, {63});
  const TracedLaunch launch = program.launch(gpus[1], 1, 1, 1);
  const auto places = schedule(launch.trace, costs_of(launch.trace, gpus[1]));
  EXPECT_EQ(places[0].rank, 0u);
  EXPECT_EQ(places[2].rank, 1u) << "not behind the use of the first";
  EXPECT_EQ(places[1].rank, 2u);
  EXPECT_EQ(places[5].rank, 5u) << "no load passes a store";
}

}  // namespace
}  // namespace fusednorm::cost
