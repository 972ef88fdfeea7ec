// SPDX-License-Identifier: Apache-2.0
// What lanes of a warp do together: shfl, vote, match, redux, activemask, elect.
#include <algorithm>
#include <cmath>

#include "float_formats.h"
#include "integer_operations.h"
#include "lanes.h"
#include "memory_access.h"

namespace fusednorm::emulator {
namespace {

enum Mode { kUp, kDown, kButterfly, kIndex };

template <int kMode>
void shuffle(Warp& w, const Instruction& i, uint32_t active) {
  const uint32_t* source = w.reg<uint32_t>(i.a);
  const uint32_t* amount = w.reg<uint32_t>(i.b);
  const uint32_t* members = w.reg<uint32_t>(i.c);
  const uint32_t* clamp = w.reg<uint32_t>(i.d);
  uint32_t* d = w.reg<uint32_t>(i.dst);
  uint32_t value[32], valid = 0;
  ++w.counters->shuffles;
  uint32_t common = kFullMask, differs = 0;
  for (int lane = 0; lane < 32; ++lane) {
    common &= members[lane];
    differs |= (amount[lane] ^ amount[0]) | (clamp[lane] ^ 31u);
  }
  if (kMode == kButterfly && active == kFullMask && common == kFullMask && differs == 0) {
    const int b = static_cast<int>(amount[0] & 31);
    for (int lane = 0; lane < 32; ++lane) value[lane] = source[lane ^ b];
    std::copy(value, value + 32, d);
    if (i.dst2 != kNone) w.predicate(i.dst2) = kFullMask;
    return;
  }
  for_each_active(active, [&](int lane) {
    const int b = static_cast<int>(amount[lane] & 31), c = static_cast<int>(clamp[lane] & 31);
    const int segment = static_cast<int>(clamp[lane] >> 8 & 31);
    const int highest = (lane & segment) | (c & ~segment), lowest = lane & segment;
    int from;
    bool inside;
    switch (kMode) {
      case kUp:
        from = lane - b;
        inside = from >= highest;
        break;
      case kDown:
        from = lane + b;
        inside = from <= highest;
        break;
      case kButterfly:
        from = lane ^ b;
        inside = from <= highest;
        break;
      default:
        from = lowest | (b & ~segment);
        inside = from <= highest;
        break;
    }
    if (!inside) from = lane;
    if (!(active >> from & 1) || !(members[lane] >> from & 1))
      fault(kErrorLaunchFailure,
            i.text + ": lane " + std::to_string(lane) + " reads lane " + std::to_string(from) +
                ", which " +
                ((w.alive >> from & 1)
                     ? "does not take part (member mask " + hexadecimal(members[lane]) + ")"
                     : "has exited or is not in the block"),
            lane);
    value[lane] = source[from];
    valid |= uint32_t{inside} << lane;
  });
  for_each_active(active, [&](int lane) { d[lane] = value[lane]; });
  if (i.dst2 != kNone) write_predicate(w, i.dst2, active, valid);
}

enum Vote { kAll, kAny, kUni, kBallot };

template <int kVote>
void vote(Warp& w, const Instruction& i, uint32_t active) {
  const uint32_t* members = w.reg<uint32_t>(i.c);
  const uint32_t p = (i.flags & 1) ? ~w.predicate(i.a) : w.predicate(i.a);
  ++w.counters->votes;
  uint32_t result = 0;
  for_each_active(active, [&](int lane) {
    const uint32_t lanes = members[lane] & active, yes = p & lanes;
    if (kVote == kBallot) {
      w.reg<uint32_t>(i.dst)[lane] = yes;
    } else {
      const bool value = kVote == kAll   ? yes == lanes
                         : kVote == kAny ? yes != 0
                                         : (yes == lanes || yes == 0);
      result |= uint32_t{value} << lane;
    }
  });
  if (kVote != kBallot) write_predicate(w, i.dst, active, result);
}

template <class T, bool kAllSame>
void match(Warp& w, const Instruction& i, uint32_t active) {
  const T* a = w.reg<T>(i.a);
  const uint32_t* members = w.reg<uint32_t>(i.c);
  uint32_t* d = w.reg<uint32_t>(i.dst);
  uint32_t value[32], agree = 0;
  ++w.counters->votes;
  for_each_active(active, [&](int lane) {
    const uint32_t lanes = members[lane] & active;
    uint32_t same = 0;
    for_each_active(lanes, [&](int other) { same |= uint32_t{a[other] == a[lane]} << other; });
    value[lane] = kAllSame ? (same == lanes ? lanes : 0) : same;
    agree |= uint32_t{same == lanes} << lane;
  });
  for_each_active(active, [&](int lane) { d[lane] = value[lane]; });
  if (i.dst2 != kNone) write_predicate(w, i.dst2, active, agree);
}

template <class T, class Op>
void reduce(Warp& w, const Instruction& i, uint32_t active) {
  const T* a = w.reg<T>(i.a);
  const uint32_t* members = w.reg<uint32_t>(i.c);
  T* d = w.reg<T>(i.dst);
  T value[32];
  ++w.counters->votes;
  for_each_active(active, [&](int lane) {
    bool first = true;
    for_each_active(members[lane] & active, [&](int other) {
      value[lane] = first ? a[other] : Op::apply(value[lane], a[other]);
      first = false;
    });
  });
  for_each_active(active, [&](int lane) { d[lane] = value[lane]; });
}
// NaNs lose against numbers, or win with kNan; all NaN is the canonical one. -0 is less than 0.
template <bool kHigh, bool kMagnitude, bool kNan>
void reduce_float(Warp& w, const Instruction& i, uint32_t active) {
  const float* a = w.reg<float>(i.a);
  const uint32_t* members = w.reg<uint32_t>(i.c);
  float value[32];
  ++w.counters->votes;
  auto before = [](float x, float y) {
    return x < y || (x == y && std::signbit(x) && !std::signbit(y));
  };
  for_each_active(active, [&](int lane) {
    float best = bit_cast<float>(kCanonicalNan);
    bool any_nan = false;
    for_each_active(members[lane] & active, [&](int other) {
      const float x = kMagnitude ? std::fabs(a[other]) : a[other];
      any_nan = any_nan || x != x;
      if (x == x && (best != best || (kHigh ? before(best, x) : before(x, best)))) best = x;
    });
    value[lane] = kNan && any_nan ? bit_cast<float>(kCanonicalNan) : best;
  });
  for_each_active(active, [&](int lane) { w.reg<float>(i.dst)[lane] = value[lane]; });
}

Handler pick_float_reduce(bool high, bool magnitude, bool nan) {
  constexpr Handler kAll[] = {reduce_float<false, false, false>, reduce_float<false, false, true>,
                              reduce_float<false, true, false>,  reduce_float<false, true, true>,
                              reduce_float<true, false, false>,  reduce_float<true, false, true>,
                              reduce_float<true, true, false>,   reduce_float<true, true, true>};
  return kAll[(high ? 4 : 0) | (magnitude ? 2 : 0) | (nan ? 1 : 0)];
}

void elect(Warp& w, const Instruction& i, uint32_t active) {
  const uint32_t* members = w.reg<uint32_t>(i.c);
  uint32_t* d = w.reg<uint32_t>(i.dst);
  uint32_t chosen = 0;
  for_each_active(active, [&](int lane) {
    const int leader = __builtin_ctz(members[lane] & active);
    d[lane] = static_cast<uint32_t>(leader);
    chosen |= uint32_t{leader == lane} << lane;
  });
  if (i.dst2 != kNone) write_predicate(w, i.dst2, active, chosen);
}

void active_mask(Warp& w, const Instruction& i, uint32_t active) {
  for_lanes(w.reg<uint32_t>(i.dst), active, [=](int) { return active; });
}

void nothing(Warp& w, const Instruction&, uint32_t) {
  ++w.counters->warp_barriers;
}

void decode_shuffle(Decoder& d, Form& form, Instruction& out) {
  if (!form.take("sync")) form.unsupported("without .sync");
  constexpr Handler kModes[] = {shuffle<kUp>, shuffle<kDown>, shuffle<kButterfly>, shuffle<kIndex>};
  const int mode = form.take_one({"up", "down", "bfly", "idx"});
  if (mode < 0 || form.take_type() != Type::B32) form.unsupported();
  out.handler = kModes[mode];
  out.flow = Flow::Collective;
  decode_binary(d, out, Type::B32);
  if (d.operand(0).second_reg >= 0) out.dst2 = d.register_offset(d.operand(0).second_reg);
  out.d = d.source(d.operand(3), Type::B32);
  out.c = d.source(d.operand(4), Type::B32);
}

void decode_vote(Decoder& d, Form& form, Instruction& out) {
  if (!form.take("sync")) form.unsupported("without .sync");
  constexpr Handler kModes[] = {vote<kBallot>, vote<kAll>, vote<kAny>, vote<kUni>};
  const int mode = form.take_one({"ballot", "all", "any", "uni"});
  const bool ballot = mode == 0;
  if (mode < 0 || form.take_type() != (ballot ? Type::B32 : Type::Pred)) form.unsupported();
  out.handler = kModes[mode];
  out.flow = Flow::Collective;
  out.dst = ballot ? d.destination(d.operand(0), Type::B32) : d.predicate_destination(d.operand(0));
  bool negated = false;
  out.a = d.predicate_source(d.operand(1), negated);
  out.flags = negated;
  out.c = d.source(d.operand(2), Type::B32);
}

void decode_match(Decoder& d, Form& form, Instruction& out) {
  if (!form.take("sync")) form.unsupported("without .sync");
  const int mode = form.take_one({"any", "all"});
  const bool all = mode == 1;
  const Type type = form.take_type();
  if (mode < 0 || (type != Type::B32 && type != Type::B64)) form.unsupported();
  out.handler = byte_size(type) == 4 ? (all ? match<uint32_t, true> : match<uint32_t, false>)
                                     : (all ? match<uint64_t, true> : match<uint64_t, false>);
  out.flow = Flow::Collective;
  out.dst = d.destination(d.operand(0), Type::B32);
  if (d.operand(0).second_reg >= 0) out.dst2 = d.register_offset(d.operand(0).second_reg);
  out.a = d.source(d.operand(1), type);
  out.c = d.source(d.operand(2), Type::B32);
}

void decode_reduce(Decoder& d, Form& form, Instruction& out) {
  if (!form.take("sync")) form.unsupported();
  const int operation = form.take_one({"add", "min", "max", "and", "or", "xor"});
  const Type type = form.take_type();
  const bool smallest = operation == 1 || operation == 2;
  if (type == Type::F32 && smallest) {  // sm_100a and later
    const bool magnitude = form.take("abs"), nan = form.take("NaN");
    out.handler = pick_float_reduce(operation == 2, magnitude, nan);
  } else if (type == Type::S32 && operation >= 0 && operation < 3) {
    constexpr Handler kSigned[] = {reduce<uint32_t, AddIntegers<uint32_t>>,
                                   reduce<int32_t, SmallerInteger<int32_t>>,
                                   reduce<int32_t, LargerInteger<int32_t>>};
    out.handler = kSigned[operation];
  } else if (type == Type::U32 && operation >= 0 && operation < 3) {
    constexpr Handler kUnsigned[] = {reduce<uint32_t, AddIntegers<uint32_t>>,
                                     reduce<uint32_t, SmallerInteger<uint32_t>>,
                                     reduce<uint32_t, LargerInteger<uint32_t>>};
    out.handler = kUnsigned[operation];
  } else if (type == Type::B32 && operation >= 3) {
    constexpr Handler kLogic[] = {reduce<uint32_t, And<uint32_t>>, reduce<uint32_t, Or<uint32_t>>,
                                  reduce<uint32_t, Xor<uint32_t>>};
    out.handler = kLogic[operation - 3];
  } else {
    form.unsupported();
  }
  out.flow = Flow::Collective;
  decode_unary(d, out, type);
  out.c = d.source(d.operand(2), Type::B32);
}

void decode_elect(Decoder& d, Form& form, Instruction& out) {
  if (!form.take("sync")) form.unsupported();
  out.handler = elect;
  out.flow = Flow::Collective;
  out.dst = d.destination(d.operand(0), Type::B32);
  if (d.operand(0).second_reg >= 0) out.dst2 = d.register_offset(d.operand(0).second_reg);
  out.c = d.source(d.operand(1), Type::B32);
}

void decode_active_mask(Decoder& d, Form& form, Instruction& out) {
  if (form.take_type() != Type::B32) form.unsupported();
  out.handler = active_mask;
  out.dst = d.destination(d.operand(0), Type::B32);
}

void decode_warp_barrier(Decoder& d, Form& form, Instruction& out) {
  if (!form.take("warp") || !form.take("sync")) form.unsupported();
  out.handler = nothing;
  out.flow = Flow::WarpBarrier;
  out.c = d.source(d.operand(0), Type::B32);
}

}  // namespace

void add_warp_opcodes(OpcodeTable& table) {
  table["shfl"] = decode_shuffle;
  table["vote"] = decode_vote;
  table["match"] = decode_match;
  table["redux"] = decode_reduce;
  table["elect"] = decode_elect;
  table["activemask"] = decode_active_mask;
  table["bar.warp"] = decode_warp_barrier;
}

}  // namespace fusednorm::emulator
