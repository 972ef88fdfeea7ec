// SPDX-License-Identifier: Apache-2.0
// Loops over the 32 lanes of a warp, written so that the compiler vectorises them; every handler is
// one of these.
#pragma once

#include <cstdint>
#include <cstring>

#include "decoder.h"
#include "warp.h"

namespace fusednorm::emulator {

// d[lane] = f(lane) for the active lanes. f must be defined for every lane: inactive ones are
// computed and dropped.
template <class T, class F>
inline void for_lanes(T* d, uint32_t active, F f) {
  if (active == kFullMask) {
#pragma GCC ivdep
    for (int lane = 0; lane < 32; ++lane) d[lane] = f(lane);
  } else {
#pragma GCC ivdep
    for (int lane = 0; lane < 32; ++lane) {
      const T value = f(lane);
      d[lane] = (active >> lane & 1) ? value : d[lane];
    }
  }
}

// The same where f must not be called for inactive lanes.
template <class F>
inline void for_each_active(uint32_t active, F f) {
  for (uint32_t left = active; left; left &= left - 1) f(__builtin_ctz(left));
}

template <class T, class Op>
void unary_handler(Warp& w, const Instruction& i, uint32_t active) {
  const T* a = w.reg<T>(i.a);
  for_lanes(w.reg<T>(i.dst), active, [=](int lane) { return Op::apply(a[lane]); });
}

template <class T, class Op>
void binary_handler(Warp& w, const Instruction& i, uint32_t active) {
  const T* a = w.reg<T>(i.a);
  const T* b = w.reg<T>(i.b);
  for_lanes(w.reg<T>(i.dst), active, [=](int lane) { return Op::apply(a[lane], b[lane]); });
}

template <class T, class Op>
void ternary_handler(Warp& w, const Instruction& i, uint32_t active) {
  const T* a = w.reg<T>(i.a);
  const T* b = w.reg<T>(i.b);
  const T* c = w.reg<T>(i.c);
  for_lanes(w.reg<T>(i.dst), active,
            [=](int lane) { return Op::apply(a[lane], b[lane], c[lane]); });
}

// Operands d, a, b, c of one type, in the usual order.
inline void decode_unary(Decoder& d, Instruction& out, Type type) {
  out.dst = d.destination(d.operand(0), type);
  out.a = d.source(d.operand(1), type);
}
inline void decode_binary(Decoder& d, Instruction& out, Type type) {
  decode_unary(d, out, type);
  out.b = d.source(d.operand(2), type);
}
inline void decode_ternary(Decoder& d, Instruction& out, Type type) {
  decode_binary(d, out, type);
  out.c = d.source(d.operand(3), type);
}

inline void write_predicate(Warp& w, uint32_t offset, uint32_t active, uint32_t value) {
  uint32_t& p = w.predicate(offset);
  p = (p & ~active) | (value & active);
}

// One instantiation a type: SELECT_INTEGER(type, binary_handler, Add) etc.
#define FUSEDNORM_SELECT_UNSIGNED(handler, type, Op)        \
  (byte_size(type) == 2   ? handler<uint16_t, Op<uint16_t>> \
   : byte_size(type) == 4 ? handler<uint32_t, Op<uint32_t>> \
                          : handler<uint64_t, Op<uint64_t>>)
#define FUSEDNORM_SELECT_INTEGER(handler, type, Op)                                 \
  ((type) == Type::S16   ? reinterpret_cast<Handler>(handler<int16_t, Op<int16_t>>) \
   : (type) == Type::S32 ? reinterpret_cast<Handler>(handler<int32_t, Op<int32_t>>) \
   : (type) == Type::S64 ? reinterpret_cast<Handler>(handler<int64_t, Op<int64_t>>) \
                         : FUSEDNORM_SELECT_UNSIGNED(handler, type, Op))

inline bool is_integer(Type type) {
  return type >= Type::U16 && type <= Type::S64 && type != Type::S8;
}
inline bool is_signed(Type type) {
  return type >= Type::S8 && type <= Type::S64;
}
inline bool is_bits(Type type) {
  return type == Type::B16 || type == Type::B32 || type == Type::B64;
}

}  // namespace fusednorm::emulator
