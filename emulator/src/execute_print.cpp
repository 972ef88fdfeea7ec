// SPDX-License-Identifier: Apache-2.0
// Device printf and assert.
#include <cstdio>
#include <cstring>

#include "lanes.h"
#include "memory_access.h"

namespace fusednorm::emulator {
namespace {

// The value of a .param slot: words of 32 lanes.
uint64_t slot_value(Warp& w, uint32_t offset, int lane, int words) {
  uint64_t value = w.reg<uint32_t>(offset)[lane];
  if (words == 2) value |= uint64_t{w.reg<uint32_t>(offset + 128)[lane]} << 32;
  return value;
}

std::string read_string(Warp& w, uint64_t address, int lane) {
  std::string text;
  for (; text.size() < 65536; ++address) {
    const char c = static_cast<char>(*generic_pointer(w, address, 1, lane, AccessKind::Load));
    if (!c) break;
    text += c;
  }
  return text;
}

std::string format(Warp& w, const std::string& text, uint64_t arguments, int lane) {
  std::string out;
  uint64_t offset = 0;
  auto next = [&](uint32_t bytes) {
    offset = (offset + bytes - 1) / bytes * bytes;
    uint64_t value = 0;
    std::memcpy(&value, generic_pointer(w, arguments + offset, bytes, lane, AccessKind::Load),
                bytes);
    offset += bytes;
    return value;
  };
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      out += text[at];
      continue;
    }
    if (at + 1 < text.size() && text[at + 1] == '%') {
      out += '%';
      ++at;
      continue;
    }
    std::string directive = "%";
    bool wide = false;
    for (++at; at < text.size(); ++at) {
      const char c = text[at];
      if (c == '*') {
        directive += std::to_string(static_cast<int>(next(4)));
      } else if (c == 'l' || c == 'z' || c == 'j' || c == 't') {
        wide = true;
      } else if (c != 'h') {
        directive += c;
        if (std::isalpha(static_cast<unsigned char>(c))) break;
      }
    }
    const char kind = directive.back();
    directive.pop_back();
    char buffer[512];
    switch (kind) {
      case 'd':
      case 'i':
        std::snprintf(buffer, sizeof buffer, (directive + "lld").c_str(),
                      wide ? static_cast<long long>(next(8))
                           : static_cast<long long>(static_cast<int>(next(4))));
        out += buffer;
        break;
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        std::snprintf(buffer, sizeof buffer, (directive + "ll" + kind).c_str(),
                      static_cast<unsigned long long>(next(wide ? 8 : 4)));
        out += buffer;
        break;
      case 'c':
        std::snprintf(buffer, sizeof buffer, (directive + "c").c_str(), static_cast<int>(next(4)));
        out += buffer;
        break;
      case 'p':
        std::snprintf(buffer, sizeof buffer, (directive + "p").c_str(),
                      reinterpret_cast<void*>(next(8)));
        out += buffer;
        break;
      case 's': {
        const std::string value = read_string(w, next(8), lane);
        std::snprintf(buffer, sizeof buffer, (directive + "s").c_str(), value.c_str());
        out += buffer;
        break;
      }
      default: {
        const uint64_t bits = next(8);
        double value;
        std::memcpy(&value, &bits, 8);
        std::snprintf(buffer, sizeof buffer, (directive + kind).c_str(), value);
        out += buffer;
      }
    }
  }
  return out;
}

}  // namespace

void execute_vprintf(Warp& w, const Instruction& i, uint32_t active) {
  std::string out;
  for_each_active(active, [&](int lane) {
    const std::string line = format(w, read_string(w, slot_value(w, i.a, lane, 2), lane),
                                    slot_value(w, i.b, lane, 2), lane);
    w.reg<uint32_t>(i.dst)[lane] = static_cast<uint32_t>(line.size());
    out += line;
  });
  std::fwrite(out.data(), 1, out.size(), stdout);
}

void execute_assertfail(Warp& w, const Instruction& i, uint32_t active) {
  const int lane = __builtin_ctz(active);
  fault(kErrorAssert,
        "assertion `" + read_string(w, slot_value(w, i.a, lane, 2), lane) + "` failed in " +
            read_string(w, slot_value(w, i.d, lane, 2), lane) + " at " +
            read_string(w, slot_value(w, i.b, lane, 2), lane) + ":" +
            std::to_string(slot_value(w, i.c, lane, 1)),
        lane);
}

}  // namespace fusednorm::emulator
