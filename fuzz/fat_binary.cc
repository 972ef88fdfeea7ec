// SPDX-License-Identifier: Apache-2.0
// Any entries behind a well-formed header are read or refused. The header's size is the truth, as
// it is in a program that a linker made: there is no other to check it against.
#include <cstdint>
#include <cstring>
#include <vector>

#include "expect.h"
#include "fatbin.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fusednorm;
  if (size < 2) return 0;
  const int capability = 70 + data[0] % 60, newest = 70 + data[1] % 60;
  const std::uint64_t payload = size - 2;
  std::vector<std::uint8_t> image(16 + payload);
  const std::uint32_t magic = 0xba55ed50;
  const std::uint16_t version = 1, header = 16;
  std::memcpy(image.data(), &magic, 4);
  std::memcpy(image.data() + 4, &version, 2);
  std::memcpy(image.data() + 6, &header, 2);
  std::memcpy(image.data() + 8, &payload, 8);
  if (payload > 0) std::memcpy(image.data() + 16, data + 2, payload);
  const struct {
    std::uint32_t magic, version;
    const void* data;
    const void* unused;
  } wrapper{0x466243b1, 1, image.data(), nullptr};

  const emulator::Fatbin fatbin = emulator::read_fatbin(&wrapper);
  for (const auto& entry : fatbin.entries) {
    fuzz::expect(entry.text.size() <= payload, "an entry larger than the file");
  }
  std::string why;
  const auto* chosen = emulator::choose_ptx(fatbin, capability, newest, why);
  fuzz::expect(chosen != nullptr || !why.empty(), "no PTX, and no reason");
  return 0;
}
