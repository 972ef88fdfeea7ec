// SPDX-License-Identifier: Apache-2.0
// The fixture of whole programs: they run on devices of all these capabilities, and on each with
// the fixed and shuffled orders.
#pragma once

#include <cstdint>
#include <string>

#include "device_memory.h"
#include "fusednorm_emulator.h"

class OnEveryDevice : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    FusednormEmulatorDevice device[2];
    ASSERT_EQ(fusednorm_emulator_device_preset(GetParam() / 10, GetParam() % 10, &device[0]), 0);
    device[1] = device[0];
    ASSERT_EQ(fusednorm_emulator_set_devices(2, device), 0);
    fusednorm_emulator_set_checks(FUSEDNORM_EMULATOR_CHECK_DEFAULT);
    fusednorm_emulator_reset_errors();
    fusednorm_emulator_set_print_reports(1);
  }
  void TearDown() override { fusednorm_emulator_set_seed(0); }

  template <class Body>
  void for_seeds(Body body) {
    for (uint64_t seed : {0, 1, 7}) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      fusednorm_emulator_set_seed(seed);
      body();
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << fusednorm_emulator_last_report();
    }
  }
};

inline auto every_capability() {
  return testing::Values(75, 80, 86, 89, 90, 100, 120);
}

inline __device__ float warp_sum(float v) {
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
  return v;
}
