// What lanes of a warp do together: shfl, vote, match, redux, activemask, elect.
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
  for_each_active(active, [&](int lane) {
    const int b = static_cast<int>(amount[lane] & 31), c = static_cast<int>(clamp[lane] & 31);
    const int segment = static_cast<int>(clamp[lane] >> 8 & 31);
    const int highest = (lane & segment) | (c & ~segment), lowest = lane & segment;
    int from;
    bool inside;
    switch (kMode) {
      case kUp: from = lane - b; inside = from >= highest; break;
      case kDown: from = lane + b; inside = from <= highest; break;
      case kButterfly: from = lane ^ b; inside = from <= highest; break;
      default: from = lowest | (b & ~segment); inside = from <= highest; break;
    }
    if (!inside) from = lane;
    if (!(active >> from & 1) || !(members[lane] >> from & 1))
      fault(kErrorLaunchFailure, i.text + ": lane " + std::to_string(lane) + " reads lane " + std::to_string(from) + ", which " +
                                     ((w.alive >> from & 1) ? "does not take part (member mask " + hexadecimal(members[lane]) + ")"
                                                            : "has exited or is not in the block"), lane);
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
      const bool value = kVote == kAll ? yes == lanes : kVote == kAny ? yes != 0 : (yes == lanes || yes == 0);
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
struct Sum { static uint32_t apply(uint32_t a, uint32_t b) { return a + b; } };
struct And { static uint32_t apply(uint32_t a, uint32_t b) { return a & b; } };
struct Or { static uint32_t apply(uint32_t a, uint32_t b) { return a | b; } };
struct Xor { static uint32_t apply(uint32_t a, uint32_t b) { return a ^ b; } };
template <class T> struct Low { static T apply(T a, T b) { return b < a ? b : a; } };
template <class T> struct High { static T apply(T a, T b) { return b > a ? b : a; } };

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

void nothing(Warp& w, const Instruction&, uint32_t) { ++w.counters->warp_barriers; }

}  // namespace

void add_warp_opcodes(OpcodeTable& table) {
  table["shfl"] = [](Decoder& d, Form& form, Instruction& out) {
    if (!form.take("sync")) form.unsupported("without .sync");
    out.handler = form.take("up")     ? shuffle<kUp>
                  : form.take("down") ? shuffle<kDown>
                  : form.take("bfly") ? shuffle<kButterfly>
                  : form.take("idx")  ? shuffle<kIndex>
                                      : nullptr;
    if (!out.handler || form.take_type() != Type::B32) form.unsupported();
    out.flow = Flow::Collective;
    decode_binary(d, out, Type::B32);
    if (d.operand(0).second_reg >= 0) out.dst2 = d.register_offset(d.operand(0).second_reg);
    out.d = d.source(d.operand(3), Type::B32);
    out.c = d.source(d.operand(4), Type::B32);
  };
  table["vote"] = [](Decoder& d, Form& form, Instruction& out) {
    if (!form.take("sync")) form.unsupported("without .sync");
    const bool ballot = form.take("ballot");
    out.handler = ballot             ? vote<kBallot>
                  : form.take("all") ? vote<kAll>
                  : form.take("any") ? vote<kAny>
                  : form.take("uni") ? vote<kUni>
                                     : nullptr;
    if (!out.handler || form.take_type() != (ballot ? Type::B32 : Type::Pred)) form.unsupported();
    out.flow = Flow::Collective;
    out.dst = ballot ? d.destination(d.operand(0), Type::B32) : d.predicate_destination(d.operand(0));
    bool negated = false;
    out.a = d.predicate_source(d.operand(1), negated);
    out.flags = negated;
    out.c = d.source(d.operand(2), Type::B32);
  };
  table["match"] = [](Decoder& d, Form& form, Instruction& out) {
    if (!form.take("sync")) form.unsupported("without .sync");
    const bool all = form.take("all");
    if (!all && !form.take("any")) form.unsupported();
    const Type type = form.take_type();
    out.handler = byte_size(type) == 4 ? (all ? match<uint32_t, true> : match<uint32_t, false>)
                                       : (all ? match<uint64_t, true> : match<uint64_t, false>);
    out.flow = Flow::Collective;
    out.dst = d.destination(d.operand(0), Type::B32);
    if (d.operand(0).second_reg >= 0) out.dst2 = d.register_offset(d.operand(0).second_reg);
    out.a = d.source(d.operand(1), type);
    out.c = d.source(d.operand(2), Type::B32);
  };
  table["redux"] = [](Decoder& d, Form& form, Instruction& out) {
    if (!form.take("sync")) form.unsupported();
    const bool low = form.take("min"), high = form.take("max");
    const bool add = form.take("add"), land = form.take("and"), lor = form.take("or"), lxor = form.take("xor");
    const Type type = form.take_type();
    if (low) out.handler = type == Type::S32 ? reduce<int32_t, Low<int32_t>> : type == Type::F32 ? reduce<float, Low<float>> : reduce<uint32_t, Low<uint32_t>>;
    if (high) out.handler = type == Type::S32 ? reduce<int32_t, High<int32_t>> : type == Type::F32 ? reduce<float, High<float>> : reduce<uint32_t, High<uint32_t>>;
    if (add) out.handler = reduce<uint32_t, Sum>;
    if (land) out.handler = reduce<uint32_t, And>;
    if (lor) out.handler = reduce<uint32_t, Or>;
    if (lxor) out.handler = reduce<uint32_t, Xor>;
    if (!out.handler || byte_size(type) != 4) form.unsupported();
    out.flow = Flow::Collective;
    decode_unary(d, out, type);
    out.c = d.source(d.operand(2), Type::B32);
  };
  table["elect"] = [](Decoder& d, Form& form, Instruction& out) {
    if (!form.take("sync")) form.unsupported();
    out.handler = elect;
    out.flow = Flow::Collective;
    out.dst = d.destination(d.operand(0), Type::B32);
    if (d.operand(0).second_reg >= 0) out.dst2 = d.register_offset(d.operand(0).second_reg);
    out.c = d.source(d.operand(1), Type::B32);
  };
  table["activemask"] = [](Decoder& d, Form& form, Instruction& out) {
    if (form.take_type() != Type::B32) form.unsupported();
    out.handler = active_mask;
    out.dst = d.destination(d.operand(0), Type::B32);
  };
  table["bar.warp"] = [](Decoder& d, Form& form, Instruction& out) {
    if (!form.take("warp") || !form.take("sync")) form.unsupported();
    out.handler = nothing;
    out.flow = Flow::WarpBarrier;
    out.c = d.source(d.operand(0), Type::B32);
  };
}

}  // namespace fusednorm::emulator
