// SPDX-License-Identifier: Apache-2.0
// Reads the fat binary that nvcc embeds: which PTX texts it holds, and why one cannot be used.
#include "fatbin.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace fusednorm::emulator {
namespace {

constexpr uint32_t kWrapperMagic = 0x466243b1, kHeaderMagic = 0xba55ed50;

template <class T>
T read(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// "sm_90", "sm_90a", "sm_100f" -> 90 and the letter (or 0).
int target_of(std::string_view ptx, char& suffix) {
  suffix = 0;
  const size_t at = ptx.find(".target");
  if (at == std::string_view::npos) return 0;
  const size_t sm = ptx.find("sm_", at);
  if (sm == std::string_view::npos) return 0;
  int value = 0;
  size_t k = sm + 3;
  // More than four digits are no architecture; they must not overflow.
  for (; k < ptx.size() && ptx[k] >= '0' && ptx[k] <= '9'; ++k)
    value = std::min(value * 10 + (ptx[k] - '0'), 99999);
  if (k < ptx.size() && (ptx[k] == 'a' || ptx[k] == 'f')) suffix = ptx[k];
  return value;
}

bool runs_on(std::string_view ptx, int capability, int& target) {
  char suffix;
  target = target_of(ptx, suffix);
  if (suffix == 'a') return target == capability;
  if (suffix == 'f') return target / 10 == capability / 10 && target <= capability;
  return target <= capability;
}

}  // namespace

Fatbin read_fatbin(const void* wrapper) {
  Fatbin out;
  const uint8_t* head = static_cast<const uint8_t*>(wrapper);
  if (!head || read<uint32_t>(head) != kWrapperMagic) {
    out.error = "not a fat binary (wrong magic number)";
    return out;
  }
  const uint8_t* data = read<const uint8_t*>(head + 8);
  if (!data || read<uint32_t>(data) != kHeaderMagic) {
    out.error = "not a fat binary (wrong magic number in its data)";
    return out;
  }
  const uint64_t size = read<uint64_t>(data + 8);
  const uint8_t* at = data + read<uint16_t>(data + 6);
  const uint8_t* const end = at + size;
  while (end - at >= 64) {
    const uint16_t kind = read<uint16_t>(at);
    const uint32_t header = read<uint32_t>(at + 4);
    const uint64_t payload = read<uint64_t>(at + 8);
    // Room left, not addresses, is compared: a sum of addresses could wrap.
    const uint64_t room = static_cast<uint64_t>(end - at);
    if (header < 64 || header > room || payload > room - header) {
      out.error = "malformed fat binary: an entry reaches past its end";
      return out;
    }
    FatbinEntry entry;
    entry.is_ptx = kind == 1;
    entry.architecture = static_cast<int>(read<uint32_t>(at + 28));
    // A compressed entry tells the size it unpacks to.
    entry.is_compressed = read<uint64_t>(at + 56) != 0;
    if (entry.is_ptx && !entry.is_compressed)
      entry.text = std::string_view(reinterpret_cast<const char*>(at + header), payload);
    out.entries.push_back(entry);
    at += header + payload;
  }
  return out;
}

const FatbinEntry* choose_ptx(const Fatbin& fatbin, int capability, int newest, std::string& why) {
  if (!fatbin.error.empty()) {
    why = fatbin.error + "; " + kCompileAdvice;
    return nullptr;
  }
  const FatbinEntry* best = nullptr;
  int best_target = 0;
  bool compressed = false, any_ptx = false;
  std::string targets;
  for (const FatbinEntry& entry : fatbin.entries) {
    if (!entry.is_ptx) continue;
    any_ptx = true;
    if (entry.is_compressed) {
      compressed = true;
      continue;
    }
    int target = 0;
    if (runs_on(entry.text, capability, target) && target >= best_target && target <= newest) {
      best = &entry;
      best_target = target;
    }
    targets += " " + std::to_string(target);
  }
  if (best) return best;
  if (!any_ptx) {
    why = std::string(
              "the fat binary holds no PTX, only machine code, which the emulator cannot run; ") +
          kCompileAdvice;
  } else if (compressed) {
    why = std::string("the PTX in the fat binary is compressed, which the emulator cannot read; ") +
          kCompileAdvice;
  } else {
    why = "no PTX in the fat binary is for a device of compute capability " +
          std::to_string(capability / 10) + "." + std::to_string(capability % 10) +
          " (it holds:" + targets + "); " + kCompileAdvice;
  }
  return nullptr;
}

}  // namespace fusednorm::emulator
