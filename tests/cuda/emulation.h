// SPDX-License-Identifier: Apache-2.0
// The emulator's controls, where the program runs on one: absent, and so null, with a real
// libcudart.
#pragma once

#include "fusednorm_emulator.h"

extern "C" {
#pragma weak fusednorm_emulator_set_devices
#pragma weak fusednorm_emulator_device_preset
#pragma weak fusednorm_emulator_set_seed
#pragma weak fusednorm_emulator_set_checks
#pragma weak fusednorm_emulator_launch_count
#pragma weak fusednorm_emulator_launch
#pragma weak fusednorm_emulator_reset_launches
#pragma weak fusednorm_emulator_last_report
#pragma weak fusednorm_emulator_reset_errors
#pragma weak fusednorm_emulator_set_print_reports
}

namespace fusednorm::testing {

inline bool emulated() {
  return fusednorm_emulator_set_devices != nullptr;
}

/// Plays `count` devices of compute capability `major`.`minor` with `multiprocessors` each.
inline void play(int major, int minor, int multiprocessors, int count = 1) {
  FusednormEmulatorDevice devices[4];
  for (int i = 0; i < count; ++i) {
    fusednorm_emulator_device_preset(major, minor, &devices[i]);
    devices[i].multiprocessors = multiprocessors;
  }
  fusednorm_emulator_set_devices(count, devices);
}

}  // namespace fusednorm::testing
