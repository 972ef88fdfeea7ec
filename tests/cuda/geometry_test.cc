// SPDX-License-Identifier: Apache-2.0
// The arithmetic of problems too large to run: geometry, policy and workspace, on the functions
// that kernels use.
#include "plan/geometry.h"

#include <gtest/gtest.h>

#include <array>
#include <utility>

#include "fusednorm/cuda.h"
#include "plan/shared_memory.h"
#include "plan/sizes.h"

namespace fusednorm::cuda {
namespace {

TEST(Geometry, EveryWidthIsCoveredWithoutAnEmptySegment) {
  for (const int element : {2, 4, 8}) {
    for (const int registers : {forward_lane_registers, backward_lane_registers}) {
      for (std::int64_t cols = 1; cols < 70000; cols += cols < 3000 ? 1 : 97) {
        const Geometry g = geometry_of(cols, element, registers);
        EXPECT_GE(g.segments * g.segment_cols(), cols);
        // What wide kernels rely on: however a row is spread over its warps, every lane's vectors
        // but the last are complete.
        if (g.segments > 1) {
          EXPECT_GT(cols, (g.vectors - 1) * g.segments * warp_lanes * g.vector_elements) << cols;
        }
        // What kernels for long rows rely on: no segment is empty.
        if (g.segments > max_block_segments) {
          EXPECT_LT((g.segments - 1) * g.segment_cols(), cols) << cols;
        }
        EXPECT_LE(g.vectors * g.vector_elements, g.segments == 1
                                                     ? longest_warp_lane(element, registers)
                                                     : longest_lane(element, registers));
        if (g.lanes < warp_lanes) {
          EXPECT_EQ(g.segments, 1);
        }
        // What kernels rely on: of a single warp's vectors only the last can be incomplete.
        if (g.lanes == warp_lanes && g.segments == 1) {
          EXPECT_GT(cols, (g.vectors - 1) * warp_lanes * g.vector_elements)
              << cols << " x " << element;
        }
      }
    }
  }
}

TEST(Policy, GiantProblemsPlanWithinTheLimitsOfALaunch) {
  for (const int capability : {75, 90, 100}) {
    for (const auto& [rows, cols] :
         {std::pair<std::int64_t, std::int64_t>{std::int64_t{1} << 33, 8},
          {std::int64_t{1} << 32, 1024},
          {70000, 1 << 20},
          {1, std::int64_t{1} << 33},
          {65536, 65536 * 2}}) {
      Device device;
      device.compute_capability = capability;
      if (capability == 75) device.shared_bytes_per_block = 64 << 10;
      ForwardProblem forward;
      forward.rows = rows;
      forward.cols = cols;
      const auto plan = cuda::plan(forward, device);
      ASSERT_TRUE(plan.ok()) << plan.status().message();
      EXPECT_GT(plan->launch.blocks, 0);
      EXPECT_LT(plan->launch.blocks, std::int64_t{1} << 31) << explain(*plan);
      EXPECT_LE(plan->launch.shared_bytes, static_cast<std::size_t>(device.shared_bytes_per_block))
          << explain(*plan);
      BackwardProblem backward;
      backward.rows = rows;
      backward.cols = cols;
      const auto back = cuda::plan(backward, device);
      ASSERT_TRUE(back.ok()) << back.status().message();
      EXPECT_LT(back->launch.blocks, std::int64_t{1} << 31) << explain(*back);
      EXPECT_LE(back->launch.shared_bytes, static_cast<std::size_t>(device.shared_bytes_per_block))
          << explain(*back);
      // Two f32 sums a column for 256 rows of f32 (1/128) and two a segment of 512 columns
      // (1/256): 1.2 % of x.
      EXPECT_LT(static_cast<double>(back->workspace_bytes),
                0.012 * 4.0 * static_cast<double>(rows) * static_cast<double>(cols) + 32e6 +
                    300.0 * static_cast<double>(cols))
          << explain(*back);
    }
  }
}

TEST(Policy, EveryWidthFitsTheSharedMemoryOfEveryArchitecture) {
  for (const auto& [capability, shared] :
       {std::pair<int, int>{75, 64 << 10}, {80, 163 << 10}, {86, 99 << 10}, {90, 227 << 10}}) {
    Device device;
    device.compute_capability = capability;
    device.shared_bytes_per_block = shared;
    for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
      for (std::int64_t cols = 1; cols < 70000; cols += cols < 1300 ? 1 : 61) {
        ForwardProblem forward;
        forward.rows = 4000;
        forward.cols = cols;
        forward.x_dtype = forward.y_dtype = forward.param_dtype = dtype;
        const auto plan = cuda::plan(forward, device);
        ASSERT_TRUE(plan.ok()) << plan.status().message();
        EXPECT_LE(plan->launch.shared_bytes + most_static_bytes, static_cast<std::size_t>(shared))
            << explain(*plan);
        for (const Source source : {Source::x, Source::y}) {
          BackwardProblem backward;
          backward.rows = 4000;
          backward.cols = cols;
          backward.source = source;
          backward.x_dtype = backward.y_dtype = backward.param_dtype = dtype;
          const auto back = cuda::plan(backward, device);
          ASSERT_TRUE(back.ok()) << back.status().message();
          EXPECT_LE(back->launch.shared_bytes + most_static_bytes, static_cast<std::size_t>(shared))
              << explain(*back);
          // A row of whole segments asks for no more than a ragged one.
          if (back->launch.kernel == Kernel::wide) {
            const Geometry g = backward_geometry(backward);
            EXPECT_LE(back->launch.threads_per_block, wide_threads) << explain(*back);
            EXPECT_EQ(back->launch.threads_per_block % (g.segments * warp_lanes), 0);
          }
        }
      }
    }
  }
}

/// Kernels that sum a row in the same order.
enum class Order { registers, memory, strips };
Order order_of(Kernel kernel) {
  if (kernel == Kernel::reread || kernel == Kernel::split) return Order::memory;
  return kernel == Kernel::strips ? Order::strips : Order::registers;
}

/// What batch_invariant rests on, for devices that no test plays: sm_120 has 99 KB a block and
/// clusters.
TEST(Policy, TheOrderOfARowsSumsDoesNotDependOnHowManyRowsThereAre) {
  for (const auto& [capability, shared] : {std::pair<int, int>{75, 64 << 10},
                                           {80, 163 << 10},
                                           {86, 99 << 10},
                                           {90, 227 << 10},
                                           {120, 99 << 10}}) {
    for (const std::array<int, 4>& clusters :
         {std::array<int, 4>{0, 0, 0, 0}, {64, 32, 16, 8}, {64, 32, 16, 0}, {8, 4, 0, 0}}) {
      Device device;
      device.compute_capability = capability;
      device.shared_bytes_per_block = shared;
      device.resident_clusters = clusters;
      for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
        for (std::int64_t cols = 1; cols < 140000; cols += cols < 20000 ? 37 : 911) {
          ForwardProblem forward;
          forward.cols = cols;
          forward.x_dtype = forward.y_dtype = forward.param_dtype = dtype;
          BackwardProblem backward;
          backward.cols = cols;
          backward.x_dtype = backward.y_dtype = backward.param_dtype = dtype;
          const auto orders = [&](std::int64_t rows) {
            forward.rows = backward.rows = rows;
            return std::pair(order_of(cuda::plan(forward, device)->launch.kernel),
                             order_of(cuda::plan(backward, device)->launch.kernel));
          };
          const auto one = orders(1);
          EXPECT_EQ(orders(50), one) << capability << ' ' << cols << ' ' << name_of(dtype);
          EXPECT_EQ(orders(100000), one) << capability << ' ' << cols << ' ' << name_of(dtype);
        }
      }
    }
  }
}

}  // namespace
}  // namespace fusednorm::cuda
