// SPDX-License-Identifier: Apache-2.0
// The fixture of broken kernels: each must be caught, with the right message, and nothing may be
// said about its sound twin.
#pragma once

#include <initializer_list>
#include <string>

#include "device_memory.h"
#include "fusednorm_emulator.h"

class Broken : public testing::Test {
 protected:
  void SetUp() override {
    fusednorm_emulator_set_checks(FUSEDNORM_EMULATOR_CHECK_DEFAULT);
    fusednorm_emulator_set_print_reports(0);
    fusednorm_emulator_reset_errors();
  }
  void TearDown() override {
    fusednorm_emulator_set_seed(0);
    fusednorm_emulator_reset_errors();
  }
  // The launch just made was stopped with this error and a report that holds all these words.
  void expect_fault(cudaError_t error, std::initializer_list<const char*> words) {
    EXPECT_EQ(cudaDeviceSynchronize(), error) << "sticky error expected";
    const std::string report = fusednorm_emulator_last_report();
    for (const char* word : words)
      EXPECT_NE(report.find(word), std::string::npos) << "'" << word << "' is missing in:\n"
                                                      << report;
    EXPECT_NE(report.find("_test.cu:"), std::string::npos) << "no source line in:\n" << report;
    EXPECT_NE(report.find("PTX line"), std::string::npos) << report;
    int* unused = nullptr;
    EXPECT_EQ(cudaMalloc(&unused, 4), error) << "the error must stick";
    fusednorm_emulator_reset_errors();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  void expect_sound() {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << fusednorm_emulator_last_report();
  }
};
