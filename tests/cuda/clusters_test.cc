// SPDX-License-Identifier: Apache-2.0
// Which clusters rows get on devices that hold large ones, and on devices that hold few.
#include <gtest/gtest.h>

#include "cuda_backend.h"
#include "emulation.h"
#include "guarantees.h"

namespace fusednorm::testing {
namespace {

/// The emulated one has GPCs of 16 multiprocessors, so that a cluster of 16 fits each.
cuda::Device large_device() {
  if (emulated()) play(9, 0, 32);
  return *cuda::query(0);
}

TEST(LargeClusters, AreTakenWhereTheDeviceHasThemAndOnlyThere) {
  cuda::Device device = large_device();
  if (device.resident_clusters[3] == 0) GTEST_SKIP() << "the device has no clusters of 16 blocks";
  const auto plan_of = [&](const char* text) {
    return *cuda::plan(backward_problem(parse(text)), device);
  };
  EXPECT_EQ(plan_of("backward:f32:8x32768").launch.blocks_per_row, 8);
  for (const char* text :
       {"backward:f32:8x32769", "backward:f32:8x65536", "backward:bf16:1x40000"}) {
    const cuda::BackwardPlan plan = plan_of(text);
    EXPECT_EQ(plan.launch.kernel, cuda::Kernel::cluster) << text;
    EXPECT_EQ(plan.launch.blocks_per_row, 16) << text;
  }
  EXPECT_EQ(plan_of("backward:f32:8x65537").launch.kernel, cuda::Kernel::strips);
  EXPECT_EQ(plan_of("backward:f64:8x40000").launch.kernel, cuda::Kernel::strips);
  device.resident_clusters[3] = 0;
  EXPECT_EQ(plan_of("backward:f32:8x65536").launch.kernel, cuda::Kernel::strips);
  EXPECT_EQ(plan_of("backward:f32:8x32768").launch.kernel, cuda::Kernel::cluster);
}

/// A device whose GPCs have four multiprocessors holds no cluster of 8 blocks, one to each.
TEST(Clusters, ThatADeviceCannotHoldAreNotPlanned) {
  if (!emulated()) GTEST_SKIP() << "plays a device of four multiprocessors";
  play(9, 0, 4);
  const cuda::Device device = *cuda::query(0);
  EXPECT_EQ(device.resident_clusters, (std::array<int, 4>{2, 1, 0, 0}));
  CudaBackend backend(device, "a device of four multiprocessors");
  for (const char* text : {"backward:f32:3x22880", "backward:bf16/f32:2x29989:residual=f32",
                           "forward:f32/bf16:2x58279:residual=f32", "forward:f32:2x20000"}) {
    EXPECT_EQ(Trial(parse(text)).check(backend), "") << text;
  }
}

TEST(LargeClusters, AgreeWithTheFormulaAndKeepTheGuarantees) {
  const cuda::Device device = large_device();
  if (device.resident_clusters[3] == 0) GTEST_SKIP() << "the device has no clusters of 16 blocks";
  CudaBackend backend(device, "a device with clusters of 16 blocks");
  for (const char* text :
       {"backward:f32:3x65536", "backward:f32:5x40001", "backward:bf16/f32:3x65535:offset=1",
        "backward:bf16:3x49152:residual=bf16:op=rms_norm", "backward_from_y:f32:2x40000",
        "forward:f32:2x131072", "forward:bf16/f32:3x70001", "forward:f16:2x99999:data=ramp",
        "forward:bf16:2x100000:residual=bf16:rounding=via_x"}) {
    const Problem problem = parse(text);
    EXPECT_EQ(Trial(problem).check(backend), "") << text;
    EXPECT_EQ(batch_invariant(problem, backend, backend, 1), "") << text;
    EXPECT_EQ(same_bits(problem, backend, backend), "") << text;
  }
}

}  // namespace
}  // namespace fusednorm::testing
