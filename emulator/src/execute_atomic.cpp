// SPDX-License-Identifier: Apache-2.0
// atom and red on global and shared memory, integer and floating-point, done with the host's
// compare-and-swap.
#include <cmath>
#include <cstring>

#include "address_space.h"
#include "float_formats.h"
#include "lanes.h"
#include "memory_access.h"

namespace fusednorm::emulator {
namespace {

enum Operation { kAdd, kMin, kMax, kInc, kDec, kAnd, kOr, kXor, kExch, kCas, kOperations };

template <class T, int kOperation>
struct Apply {
  static T apply(T old, T b, T c) {
    switch (kOperation) {
      case kAdd:
        return T(old + b);
      case kMin:
        return b < old ? b : old;
      case kMax:
        return b > old ? b : old;
      case kInc:
        return old >= b ? T(0) : T(old + 1);
      case kDec:
        return old == 0 || old > b ? b : T(old - 1);
      case kExch:
        return b;
      case kCas:
        return old == b ? c : old;
      default:
        break;
    }
    if constexpr (std::is_integral_v<T>) {
      if (kOperation == kAnd) return old & b;
      if (kOperation == kOr) return old | b;
      return old ^ b;
    }
    return old;
  }
};
template <class T, int kOperation>
struct IntegerApply {
  static T apply(T old, T b, T c) {
    using U = std::make_unsigned_t<T>;
    if (kOperation == kAdd) return T(U(old) + U(b));
    return Apply<T, kOperation>::apply(old, b, c);
  }
};
template <bool kBfloat>
struct AddPair {
  static uint16_t one(uint16_t a, uint16_t b) {
    return kBfloat ? encode_bfloat(double(decode_bfloat(a)) + decode_bfloat(b))
                   : encode_half(double(decode_half(a)) + decode_half(b));
  }
  static uint32_t apply(uint32_t old, uint32_t b, uint32_t) {
    return uint32_t{one(uint16_t(old >> 16), uint16_t(b >> 16))} << 16 |
           one(uint16_t(old), uint16_t(b));
  }
};
template <bool kBfloat>
struct AddOne {
  static uint16_t apply(uint16_t old, uint16_t b, uint16_t) {
    return AddPair<kBfloat>::one(old, b);
  }
};

// Replaces the value at `at` and returns what was there; `changed` is progress in the eyes of a
// spinning warp.
template <class T, class Op>
T update(uint8_t* at, T b, T c, bool& changed) {
  using Bits = std::conditional_t<sizeof(T) == 2, uint16_t,
                                  std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
  Bits* word = reinterpret_cast<Bits*>(at);
  Bits old = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  for (;;) {
    const T value = bit_cast<T>(old);
    const Bits next = bit_cast<Bits>(Op::apply(value, b, c));
    if (__atomic_compare_exchange_n(word, &old, next, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      changed = changed || next != old;
      return value;
    }
  }
}

template <class T, class Op>
void atomic_lanes(Warp& w, const Instruction& i, uint32_t active) {
  uint64_t address[32];
  lane_addresses(w, i, active, address);
  uint32_t shared = 0;
  if (i.space == Space::Shared) shared = active;
  if (i.space == Space::Generic)
    for_each_active(active, [&](int lane) {
      if (in_window(address[lane], kSharedWindow)) {
        shared |= 1u << lane;
        address[lane] &= 0xffffffffu;
      }
    });
  const T* b = w.reg<T>(i.b);
  const T* c = i.d == kNone ? b : w.reg<T>(i.d);
  bool changed = false;
  auto one = [&](int lane, uint8_t* at) {
    const T old = update<T, Op>(at, b[lane], c[lane], changed);
    if (i.dst != kNone) w.reg<T>(i.dst)[lane] = old;
  };
  const uint8_t flags = i.flags | kStrong;
  if (shared) {
    for_each_active(shared, [&](int lane) {
      publish_shared(w, lane, address[lane], i.flags);
      one(lane, shared_pointer(w, address[lane], sizeof(T), lane, AccessKind::Atomic, flags));
      observe_shared(w, lane, address[lane], i.flags);
    });
    count_shared(w, shared, address, sizeof(T), AccessKind::Atomic);
  }
  uint32_t global = active & ~shared;
  if (global) {
    count_global(w, global, address, sizeof(T), AccessKind::Atomic, false);
    while (global) {
      const GlobalSpan span = global_span(w, global, address, sizeof(T), AccessKind::Atomic, flags);
      publish_global(w, span.lanes, address, i.flags);
      for_each_active(span.lanes, [&](int lane) { one(lane, span.host + address[lane]); });
      observe_global(w, span.lanes, address, i.flags);
    }
  }
  // A failed compare-and-swap is no progress.
  if (changed) {
    w.count_store();
  } else {
    w.yielded = true;
  }
}

template <class T, int... k>
Handler pick_integer(int operation, std::integer_sequence<int, k...>) {
  static const Handler table[] = {atomic_lanes<T, IntegerApply<T, k>>...};
  return table[operation];
}

// Which operations PTX has on which types.
Handler pick(Type type, int operation) {
  const auto all = std::make_integer_sequence<int, kOperations>();
  const bool ordered = operation == kMin || operation == kMax;
  const bool logic = operation == kAnd || operation == kOr || operation == kXor;
  const bool swap = operation == kExch || operation == kCas;
  switch (type) {
    case Type::U32:
      return logic || swap ? nullptr : pick_integer<uint32_t>(operation, all);
    case Type::B32:
      return logic || swap ? pick_integer<uint32_t>(operation, all) : nullptr;
    case Type::S32:
      return operation == kAdd || ordered ? pick_integer<int32_t>(operation, all) : nullptr;
    case Type::U64:
      return operation == kAdd || ordered ? pick_integer<uint64_t>(operation, all) : nullptr;
    case Type::B64:
      return logic || swap ? pick_integer<uint64_t>(operation, all) : nullptr;
    case Type::S64:
      return ordered ? pick_integer<int64_t>(operation, all) : nullptr;
    case Type::B16:
      return operation == kCas ? pick_integer<uint16_t>(operation, all) : nullptr;
    case Type::F32:
      return operation == kAdd ? atomic_lanes<float, Apply<float, kAdd>> : nullptr;
    case Type::F64:
      return operation == kAdd ? atomic_lanes<double, Apply<double, kAdd>> : nullptr;
    case Type::F16:
      return operation == kAdd ? atomic_lanes<uint16_t, AddOne<false>> : nullptr;
    case Type::BF16:
      return operation == kAdd ? atomic_lanes<uint16_t, AddOne<true>> : nullptr;
    case Type::F16X2:
      return operation == kAdd ? atomic_lanes<uint32_t, AddPair<false>> : nullptr;
    case Type::BF16X2:
      return operation == kAdd ? atomic_lanes<uint32_t, AddPair<true>> : nullptr;
    default:
      return nullptr;
  }
}

void decode_atomic(Decoder& d, Form& form, Instruction& out) {
  const bool returns = form.opcode() == "atom";
  const int space = form.take_one({"global", "shared", "shared::cta", "shared::cluster"});
  if (space >= 0) out.space = space == 0 ? Space::Global : Space::Shared;
  constexpr uint8_t kOrders[] = {0, kStrong, kAcquire, kRelease, kAcquire | kRelease};
  const int order = returns ? form.take_one({"relaxed", "acquire", "release", "acq_rel"})
                    : form.take("relaxed") ? 0
                    : form.take("release") ? 2
                                           : -1;
  out.flags = static_cast<uint8_t>(kOrders[order + 1] | take_scope(form) << kScopeShift);
  form.ignore_one({"L2::cache_hint"});
  const int operation =
      returns
          ? form.take_one({"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"})
          : form.take_one({"add", "min", "max", "inc", "dec", "and", "or", "xor"});
  const Type type = form.take_type();
  // Additions of halves are spelt with .noftz, which is what they do.
  const bool halves = byte_size(type) == 2 || type == Type::F16X2 || type == Type::BF16X2;
  if (operation == kAdd && halves && !form.take("noftz")) form.unsupported("without .noftz");
  out.handler = operation < 0 ? nullptr : pick(type, operation);
  if (!out.handler) form.unsupported();
  const size_t at = returns ? 1 : 0;
  if (returns && d.operand(0).kind != Operand::Kind::Sink)
    out.dst = d.destination(d.operand(0), type);
  d.address(d.operand(at), out);
  out.b = d.source(d.operand(at + 1), type);
  if (operation == kCas) out.d = d.source(d.operand(at + 2), type);
}

}  // namespace

void add_atomic_opcodes(OpcodeTable& table) {
  table["atom"] = table["red"] = decode_atomic;
}

}  // namespace fusednorm::emulator
