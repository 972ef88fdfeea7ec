// SPDX-License-Identifier: Apache-2.0
// A property that a fuzzer holds true for every input; libFuzzer keeps the input that breaks it.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace fusednorm::fuzz {

inline void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "\nfuzz: %s\n", what.c_str());
  std::abort();
}

}  // namespace fusednorm::fuzz
