// SPDX-License-Identifier: Apache-2.0
// Operations on two integers that more than one family of opcodes has: of lanes, and of a warp.
#pragma once

#include <cstdint>
#include <type_traits>

namespace fusednorm::emulator {

// Arithmetic on 16 bits is done in unsigned int, whose overflow is defined.
template <class T>
using Safe = std::conditional_t<sizeof(T) == 2, uint32_t, std::make_unsigned_t<T>>;

template <class T>
struct AddIntegers {
  static T apply(T a, T b) { return T(Safe<T>(a) + Safe<T>(b)); }
};
template <class T>
struct SmallerInteger {
  static T apply(T a, T b) { return a < b ? a : b; }
};
template <class T>
struct LargerInteger {
  static T apply(T a, T b) { return a > b ? a : b; }
};
template <class T>
struct And {
  static T apply(T a, T b) { return a & b; }
};
template <class T>
struct Or {
  static T apply(T a, T b) { return a | b; }
};
template <class T>
struct Xor {
  static T apply(T a, T b) { return a ^ b; }
};

}  // namespace fusednorm::emulator
