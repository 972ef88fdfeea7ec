// SPDX-License-Identifier: Apache-2.0
// Reads the fat binary that nvcc embeds: which PTX texts it holds, and why one cannot be used.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fusednorm::emulator {

constexpr const char* kCompileAdvice =
    "compile with PTX embedded and uncompressed: nvcc -gencode arch=compute_XX,code=compute_XX "
    "--no-compress";

struct FatbinEntry {
  bool is_ptx = false;
  bool is_compressed = false;
  int architecture = 0;   // 90 for sm_90
  std::string_view text;  // PTX only
};

struct Fatbin {
  std::vector<FatbinEntry> entries;
  std::string error;  // not empty: it could not be read
};

Fatbin read_fatbin(const void* wrapper);

// The PTX that a device of this compute capability (major * 10 + minor) would run: the highest not
// above it nor above `newest`, .target sm_XYa and sm_XYf honoured. nullptr: `why` says what to
// compile with.
const FatbinEntry* choose_ptx(const Fatbin& fatbin, int capability, int newest, std::string& why);

}  // namespace fusednorm::emulator
