// SPDX-License-Identifier: Apache-2.0
// Moves the elements of a load or store between a warp's registers and memory of the host: one
// lane, or 32 neighbours at once.
#pragma once

#include <cstring>
#include <type_traits>

#include "program.h"
#include "warp.h"

namespace fusednorm::emulator {

// One element of a lane, from memory into a register that may be wider (flags of sign are in dst2:
// 1 sign-extend).
inline void load_element(Warp& w, const Instruction& i, int element, int lane,
                         const uint8_t* from) {
  uint64_t value = 0;
  if (i.width == 16) {
    std::memcpy(w.file + i.list[element] + 16 * lane, from, 16);
    return;
  }
  std::memcpy(&value, from, i.width);
  if (i.dst2 == 1 && i.width < 8) {
    const int shift = 64 - 8 * i.width;
    value = static_cast<uint64_t>(static_cast<int64_t>(value << shift) >> shift);
  }
  std::memcpy(w.file + i.list[element] + i.register_width * lane, &value, i.register_width);
}

inline void store_element(Warp& w, const Instruction& i, int element, int lane, uint8_t* to) {
  std::memcpy(to, w.file + i.list[element] + i.register_width * lane, i.width);
}

template <class T, int kCount>
inline void load_contiguous(Warp& w, const Instruction& i, const uint8_t* from) {
  const T* source = reinterpret_cast<const T*>(from);
  for (int element = 0; element < kCount; ++element) {
    T* d = w.reg<T>(i.list[element]);
#pragma GCC ivdep
    for (int lane = 0; lane < 32; ++lane) d[lane] = source[lane * kCount + element];
  }
}

template <class T, int kCount>
inline void store_contiguous(Warp& w, const Instruction& i, uint8_t* to) {
  T* target = reinterpret_cast<T*>(to);
  for (int element = 0; element < kCount; ++element) {
    const T* s = w.reg<T>(i.list[element]);
#pragma GCC ivdep
    for (int lane = 0; lane < 32; ++lane) target[lane * kCount + element] = s[lane];
  }
}

// body(element, count) with a value of the elements' type and their number as a constant, where
// registers are as wide as elements and both are of a size that is moved at once.
template <class Body>
inline bool with_elements(const Instruction& i, const Body& body) {
  if (i.width != i.register_width) return false;
  const auto with_count = [&](auto element) {
    switch (i.count) {
      case 1:
        return body(element, std::integral_constant<int, 1>());
      case 2:
        return body(element, std::integral_constant<int, 2>());
      case 4:
        return body(element, std::integral_constant<int, 4>());
      case 8:
        return body(element, std::integral_constant<int, 8>());
      default:
        return false;
    }
  };
  switch (i.width) {
    case 2:
      return with_count(uint16_t());
    case 4:
      return with_count(uint32_t());
    case 8:
      return with_count(uint64_t());
    default:
      return false;
  }
}

inline bool load_fast(Warp& w, const Instruction& i, const uint8_t* from) {
  return with_elements(i, [&](auto element, auto count) {
    load_contiguous<decltype(element), decltype(count)::value>(w, i, from);
    return true;
  });
}
inline bool store_fast(Warp& w, const Instruction& i, uint8_t* to) {
  return with_elements(i, [&](auto element, auto count) {
    store_contiguous<decltype(element), decltype(count)::value>(w, i, to);
    return true;
  });
}

inline void load_lane(Warp& w, const Instruction& i, int lane, const uint8_t* from) {
  if (i.width == 4 && i.register_width == 4) {
    for (int element = 0; element < i.count; ++element)
      std::memcpy(w.file + i.list[element] + 4 * lane, from + 4 * element, 4);
  } else {
    for (int element = 0; element < i.count; ++element)
      load_element(w, i, element, lane, from + element * i.width);
  }
}
inline void store_lane(Warp& w, const Instruction& i, int lane, uint8_t* to) {
  if (i.width == 4 && i.register_width == 4) {
    for (int element = 0; element < i.count; ++element)
      std::memcpy(to + 4 * element, w.file + i.list[element] + 4 * lane, 4);
  } else {
    for (int element = 0; element < i.count; ++element)
      store_element(w, i, element, lane, to + element * i.width);
  }
}

}  // namespace fusednorm::emulator
