// The arithmetic of problems too large to run: geometry, policy and workspace, on the functions
// that kernels use.
#include "geometry.h"

#include <gtest/gtest.h>

#include "fusednorm/cuda.h"

namespace fusednorm::cuda {
namespace {

TEST(Geometry, EveryWidthIsCoveredWithoutAnEmptySegment) {
  for (const int element : {2, 4, 8}) {
    for (const int registers : {forward_lane_registers, backward_lane_registers}) {
      for (std::int64_t cols = 1; cols < 70000; cols += cols < 3000 ? 1 : 97) {
        const Geometry g = geometry_of(cols, element, registers);
        EXPECT_GE(g.segments * g.segment_cols(), cols);
        EXPECT_LT((g.segments - 1) * g.segment_cols(), cols);
        EXPECT_LE(g.vectors * g.vector_elements, longest_lane(element, registers));
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

}  // namespace
}  // namespace fusednorm::cuda
