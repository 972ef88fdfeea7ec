// SPDX-License-Identifier: Apache-2.0
// Rows that are not whole vectors are read and written in neighbouring columns, an element a lane,
// or copied ahead in pieces of 16 bytes: counted on the emulated device.
#include <gtest/gtest.h>

#include "cuda_backend.h"
#include "emulation.h"
#include "harness.h"

namespace fusednorm::testing {
namespace {

/// Of the launch that reads and writes rows.
FusednormEmulatorLaunch launch_of(const std::string& text, int architecture) {
  play(architecture / 10, architecture % 10, 8);
  const Problem problem = parse(text);
  CudaBackend backend(*cuda::query(0), "8 multiprocessors");
  fusednorm_emulator_reset_launches();
  EXPECT_EQ(Trial(problem).check(backend), "") << text;
  EXPECT_GT(fusednorm_emulator_launch_count(), 0u);
  FusednormEmulatorLaunch launch{};
  EXPECT_EQ(fusednorm_emulator_launch(0, &launch), 0);
  return launch;
}

double ratio(std::uint64_t a, std::uint64_t b) {
  return static_cast<double>(a) / static_cast<double>(b);
}

constexpr const char* ragged[] = {"64x1023", "64x769", "32x1025", "16x4097", "4x20001"};

/// 32 neighbouring elements of `size` bytes that begin anywhere touch their bytes over 32 sectors,
/// and one more. 16 bytes apart, as the first elements of vectors are, they would touch 16. Loads
/// are such on sm_75, and where there is no ring.
TEST(Access, OfRowsThatAreNotWholeVectorsTouchesNeighbouringColumns) {
  if (!emulated()) GTEST_SKIP() << "counts sectors: needs the emulated device";
  for (const char* shape : ragged) {
    for (const char* pass : {"forward:", "backward:"}) {
      for (const int architecture : {75, 90}) {
        const bool loads = architecture == 75;
        const auto f32 = launch_of(std::string(pass) + "f32:" + shape, architecture);
        EXPECT_LE(ratio(f32.global_store_sectors, f32.global_store_requests), 5) << pass << shape;
        if (loads || pass[0] == 'b') {
          EXPECT_LE(ratio(f32.global_load_sectors, f32.global_load_requests), 5) << pass << shape;
        }
        // The column sums of a backward pass are f32.
        const auto bf16 = launch_of(std::string(pass) + "bf16:" + shape, architecture);
        const double most = pass[0] == 'f' ? 3 : 5;
        EXPECT_LE(ratio(bf16.global_store_sectors, bf16.global_store_requests), most)
            << pass << shape;
        if (loads) {
          EXPECT_LE(ratio(bf16.global_load_sectors, bf16.global_load_requests), most)
              << pass << shape;
        }
      }
    }
  }
}

/// A warp that copies its part of a row as it lies needs one request more for an array than for an
/// aligned row: for the pieces behind its vectors, of which it has two at least, so half as many
/// more. An element a request, they were 4 times as many (f32) and 8 times (bf16).
/// The sectors: a vector's 512 bytes touch one more than 16 where they begin inside one, and the
/// piece behind it lies in one: 18 for 16.
TEST(Access, OfRowsThatStartAnywhereIsInPiecesOf16Bytes) {
  if (!emulated()) GTEST_SKIP() << "counts requests: needs the emulated device";
  const char* rest = ":gamma=none:beta=none:out=none";
  for (const char* kind : {"forward:f32:", "forward:bf16:", "backward:bf16:"}) {
    const std::string suffix = kind[0] == 'f' ? rest : ":gamma=none:out=dx";
    for (const auto& [shape, even] : {std::pair{"64x1023", "64x1024"},
                                      {"64x1024:offset=1", "64x1024"},
                                      {"48x1279", "48x1280"},
                                      {"16x4095", "16x4096"},
                                      {"16x4096:offset=1", "16x4096"}}) {
      const auto here = launch_of(std::string(kind) + shape + suffix, 90);
      const auto aligned = launch_of(std::string(kind) + even + suffix, 90);
      EXPECT_LE(ratio(here.global_load_requests, aligned.global_load_requests), 1.5)
          << kind << shape;
      EXPECT_LE(ratio(here.global_load_sectors, aligned.global_load_sectors), 1.125)
          << kind << shape;
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
