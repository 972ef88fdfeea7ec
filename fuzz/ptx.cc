// SPDX-License-Identifier: Apache-2.0
// Any text is a PTX module or an error that names a line: no crash, no hang, no other exception.
#include "ptx.h"

#include <cstdint>

#include "expect.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fusednorm;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const emulator::Module module = emulator::parse_ptx(text);
    for (std::size_t location = 0; location < module.locations.size(); ++location) {
      (void)module.describe_location(static_cast<int>(location));
    }
  } catch (const emulator::PtxError& error) {
    fuzz::expect(error.line >= 0, "an error without a line: " + std::string(error.what()));
  }
  return 0;
}
