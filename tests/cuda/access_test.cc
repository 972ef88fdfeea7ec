// SPDX-License-Identifier: Apache-2.0
// Rows that are not whole vectors are read and written in neighbouring columns, an element a lane:
// counted on the emulated device.
#include <gtest/gtest.h>

#include "cuda_backend.h"
#include "emulation.h"
#include "harness.h"

namespace fusednorm::testing {
namespace {

struct Sectors {
  double load = 0, store = 0;  ///< a request, of the launch that reads and writes rows
};

Sectors sectors_of(const char* text) {
  play(9, 0, 8);
  const Problem problem = parse(text);
  CudaBackend backend(*cuda::query(0), "8 multiprocessors");
  fusednorm_emulator_reset_launches();
  EXPECT_EQ(Trial(problem).check(backend), "") << text;
  EXPECT_GT(fusednorm_emulator_launch_count(), 0u);
  FusednormEmulatorLaunch launch{};
  EXPECT_EQ(fusednorm_emulator_launch(0, &launch), 0);
  const auto ratio = [](std::uint64_t sectors, std::uint64_t requests) {
    return static_cast<double>(sectors) / static_cast<double>(requests);
  };
  return {ratio(launch.global_load_sectors, launch.global_load_requests),
          ratio(launch.global_store_sectors, launch.global_store_requests)};
}

/// 32 neighbouring elements of `size` bytes that begin anywhere touch their bytes over 32 sectors,
/// and one more. 16 bytes apart, as the first elements of vectors are, they would touch 16.
TEST(Access, OfRowsThatAreNotWholeVectorsTouchesNeighbouringColumns) {
  if (!emulated()) GTEST_SKIP() << "counts sectors: needs the emulated device";
  for (const char* shape : {"64x1023", "64x769", "32x1025", "16x4097", "4x20001"}) {
    for (const char* pass : {"forward:", "backward:"}) {
      const Sectors f32 = sectors_of((std::string(pass) + "f32:" + shape).c_str());
      EXPECT_LE(f32.load, 5) << pass << shape;
      EXPECT_LE(f32.store, 5) << pass << shape;
      // The column sums of a backward pass are f32.
      const Sectors bf16 = sectors_of((std::string(pass) + "bf16:" + shape).c_str());
      EXPECT_LE(bf16.load, pass[0] == 'f' ? 3 : 5) << pass << shape;
      EXPECT_LE(bf16.store, pass[0] == 'f' ? 3 : 5) << pass << shape;
    }
  }
}

/// How columns lie on lanes depends on cols and dtype alone, not on where rows begin.
TEST(Access, HasNoSayInTheBitsOfARow) {
  if (emulated()) play(9, 0, 8);
  CudaBackend backend(*cuda::query(0), "addresses");
  for (const char* shape : {"8x67", "8x1023", "8x1024", "5x769", "3x4097", "3x4096", "2x20001"}) {
    for (const char* pass : {"forward:f32:", "forward:bf16/f32:", "backward:f32:", "backward:bf16:",
                             "backward_from_y:f16:", "forward:f64:"}) {
      const Problem packed = parse(std::string(pass) + shape);
      const Operands operands = make_operands(packed);
      Layout first(packed, operands);
      ASSERT_TRUE(run(backend, first).ok());
      for (const char* where : {":stride=24576", ":offset=1", ":stride=24577:offset=1"}) {
        const Problem elsewhere = parse(std::string(pass) + shape + where);
        Layout second(elsewhere, operands);
        ASSERT_TRUE(run(backend, second).ok());
        for (const OutputArray& output : first.outputs) {
          EXPECT_EQ(output_bytes(first, output.name), output_bytes(second, output.name))
              << pass << shape << where << " " << output.name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace fusednorm::testing
