// SPDX-License-Identifier: Apache-2.0
// Instruction forms and what they must give, by families; forms.cpp runs one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "host_numbers.h"

// One statement (or a few) of one thread: registers in, one register out.
struct Form {
  std::string text;     // %d, %a, %b, %c are the operands; %x1 %y1 %hx1 %q1 ... are free
  int out;              // bytes; 0: a predicate
  std::vector<int> in;  // bytes; 0: a predicate (odd inputs are true)
  std::function<Bits(Bits, Bits, Bits)> expected;
  double relative = 0;  // tolerance for approximate functions, on f32
  bool is_f64 = false;  // the NaNs of f64 are the host's, whichever that is
};

std::vector<Form> integer_forms();
std::vector<Form> bit_forms();
std::vector<Form> float_forms();
std::vector<Form> half_forms();
std::vector<Form> compare_forms();
std::vector<Form> convert_forms();
std::vector<Form> move_forms();

// Runs the form on 128 combinations of inputs.
void check(const Form& form);

// What a warp does together or to memory.
using Words = std::vector<uint32_t>;
struct WarpForm {
  std::string name;
  std::string body;  // see warp_kernel_of; leaves its result in %r9
  std::function<uint32_t(const Words& in, int lane)> expected;
  int threads = 32;  // 64: the second warp helps; only the first one's results are compared
};

std::vector<WarpForm> load_forms();
std::vector<WarpForm> store_forms();
std::vector<WarpForm> atomic_forms();
std::vector<WarpForm> warp_forms();
std::vector<WarpForm> async_forms();
void check(const WarpForm& form);
// What the constant `table` and the parameter `pair` of such a kernel hold.
constexpr uint8_t kTable[32] = {1,   2,   3,   4,   5,   6,   7,   8,   9,   10,  11,
                                12,  13,  14,  15,  16,  250, 251, 252, 253, 254, 255,
                                128, 127, 126, 125, 124, 123, 122, 121, 120, 119};
constexpr uint8_t kParameter[32] = {11,  0, 0,  0, 22, 0,   0,   0,   132, 131, 130,
                                    129, 8, 7,  6, 5,  152, 186, 220, 254, 66,  0,
                                    0,   0, 77, 0, 0,  0,   88,  0,   0,   0};

struct IntegerType {
  const char* name;
  int bytes;
  bool is_signed;
};
constexpr IntegerType kIntegers[] = {{"u16", 2, false}, {"s16", 2, true},  {"u32", 4, false},
                                     {"s32", 4, true},  {"u64", 8, false}, {"s64", 8, true}};
// The number that the low bits of a word stand for.
inline __int128 whole(Bits b, const IntegerType& type) {
  switch (type.bytes) {
    case 1:
      return type.is_signed ? __int128(int8_t(b)) : __int128(uint8_t(b));
    case 2:
      return type.is_signed ? __int128(int16_t(b)) : __int128(uint16_t(b));
    case 4:
      return type.is_signed ? __int128(int32_t(b)) : __int128(uint32_t(b));
    default:
      return type.is_signed ? __int128(int64_t(b)) : __int128(b);
  }
}
