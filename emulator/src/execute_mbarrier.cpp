// SPDX-License-Identifier: Apache-2.0
// mbarrier: init, inval, arrive, expect and complete bytes, test and wait.
#include "address_space.h"
#include "async_copies.h"
#include "block.h"
#include "lanes.h"
#include "memory_access.h"
#include "trace.h"

namespace fusednorm::emulator {
namespace {

// flags of the instructions here, beside kNarrowAddress
constexpr uint8_t kRelaxed = 1, kDrops = 2, kExpects = 4, kParity = 8;

template <class Body>
void at_each(Warp& w, const Instruction& i, uint32_t active, MbarrierUse use, const Body& body) {
  uint64_t address[32];
  lane_addresses(w, i, active, address);
  for_each_active(active, [&](int lane) {
    uint64_t place = address[lane];
    if (i.space == Space::Generic) {
      if (!in_window(place, kSharedWindow))
        fault(kErrorIllegalAddress,
              "mbarrier at " + hexadecimal(place) + ": not an address in shared memory", lane);
      place &= 0xffffffffu;
    }
    body(lane, place, mbarrier_at(w, lane, place, use));
  });
  if (use != MbarrierUse::Test) w.count_store();
}

void init(Warp& w, const Instruction& i, uint32_t active) {
  at_each(w, i, active, MbarrierUse::Init, [&](int lane, uint64_t, Mbarrier& barrier) {
    const uint32_t count = w.reg<uint32_t>(i.b)[lane];
    if (count == 0 || count >= 1u << 20)
      fault(kErrorIllegalInstruction,
            "mbarrier.init for " + std::to_string(count) + " arrivals: 1 to 1048575", lane);
    barrier.expected = barrier.pending = count;
  });
}

void invalidate(Warp& w, const Instruction& i, uint32_t active) {
  at_each(w, i, active, MbarrierUse::Invalidate, [&](int, uint64_t place, Mbarrier&) {
    w.block->cluster->async.barriers.erase(shared_key(w, place));
  });
}

void expect_bytes(Warp& w, const Instruction& i, uint32_t active) {
  at_each(w, i, active, MbarrierUse::Change, [&](int lane, uint64_t, Mbarrier& barrier) {
    mbarrier_expect(barrier, w.reg<uint32_t>(i.b)[lane], lane);
  });
}

void complete_bytes(Warp& w, const Instruction& i, uint32_t active) {
  at_each(w, i, active, MbarrierUse::Change, [&](int lane, uint64_t, Mbarrier& barrier) {
    mbarrier_expect(barrier, -static_cast<int64_t>(w.reg<uint32_t>(i.b)[lane]), lane);
    mbarrier_arrive(barrier, 0, lane);
  });
}

// The state that arrive returns: the phase it arrived in, and the arrivals left then.
void arrive(Warp& w, const Instruction& i, uint32_t active) {
  at_each(w, i, active, MbarrierUse::Change, [&](int lane, uint64_t, Mbarrier& barrier) {
    uint32_t count = 1;
    if (i.flags & kExpects)
      mbarrier_expect(barrier, w.reg<uint32_t>(i.b)[lane], lane);
    else if (i.b != kNone)
      count = w.reg<uint32_t>(i.b)[lane];
    if (i.dst != kNone)
      w.reg<uint64_t>(i.dst)[lane] = uint64_t{barrier.phase} << 32 | barrier.pending;
    if (!(i.flags & kRelaxed)) leave_knowledge(w, 1u << lane, barrier.left);
    barrier.latest = std::max(barrier.latest, w.loads.clock());
    if (w.trace) w.trace->arrive(barrier.signal);
    if (i.flags & kDrops) barrier.expected -= std::min(barrier.expected, count);
    mbarrier_arrive(barrier, count, lane);
  });
}

void pending_count(Warp& w, const Instruction& i, uint32_t active) {
  const uint64_t* state = w.reg<uint64_t>(i.a);
  uint32_t* out = w.reg<uint32_t>(i.dst);
  for_each_active(active, [&](int lane) { out[lane] = static_cast<uint32_t>(state[lane]); });
}

// A lane that has seen a phase over knows what the lanes that arrived knew; until then others run.
void wait(Warp& w, const Instruction& i, uint32_t active) {
  uint32_t over = 0;
  at_each(w, i, active, MbarrierUse::Test, [&](int lane, uint64_t place, Mbarrier& barrier) {
    const auto is_over = [&] {
      if (i.flags & kParity) return phase_is_over(barrier, w.reg<uint32_t>(i.b)[lane]);
      return barrier.phase > w.reg<uint64_t>(i.b)[lane] >> 32;
    };
    if (!is_over()) complete_copies_of(*w.block->cluster, shared_key(w, place));
    if (!is_over()) return;
    over |= 1u << lane;
    if (w.trace) w.trace->wait(barrier.given);
    w.loads.wait_until(barrier.latest);
    for (const auto& [issuer, load] : barrier.loads)
      issuer->loads.complete_at(load, w.loads.clock());
    barrier.loads.clear();
    if (!(i.flags & kRelaxed)) take_knowledge(w, 1u << lane, barrier.completed);
  });
  write_predicate(w, i.dst, active, over);
  // Lanes that have waited together know together.
  if (over && !(i.flags & kRelaxed)) spread_knowledge(w, over);
  if (over == active) return;
  w.yielded = true;
  if (w.trace) w.trace->wait_failed();
}

Space take_space(Form& form, bool cluster) {
  if (cluster && form.take("shared::cluster")) return Space::Shared;
  return form.take_one({"shared", "shared::cta"}) >= 0 ? Space::Shared : Space::Generic;
}

// .release, .acquire and the scope are what there is; .relaxed orders nothing.
void take_order(Form& form, Instruction& out, const char* usual) {
  if (form.take("relaxed")) out.flags |= kRelaxed;
  form.ignore_one({usual});
  form.ignore_one({"cta", "cluster"});
}

void decode_arrive(Decoder& d, Form& form, Instruction& out, bool drops) {
  if (drops) out.flags |= kDrops;
  const bool keeps = form.take("noComplete");
  if (!keeps && form.take("expect_tx")) out.flags |= kExpects;
  take_order(form, out, "release");
  out.space = take_space(form, !keeps);
  if (form.take_type() != Type::B64) form.unsupported();
  out.handler = arrive;
  out.in_flight = kClockNeeded;
  if (d.operand(0).kind != Operand::Kind::Sink) out.dst = d.destination(d.operand(0), Type::B64);
  d.address(d.operand(1), out);
  if (d.operand_count() > 2) out.b = d.source(d.operand(2), Type::U32);
}

void decode_wait(Decoder& d, Form& form, Instruction& out) {
  if (form.take("parity")) out.flags |= kParity;
  take_order(form, out, "acquire");
  out.space = take_space(form, false);
  if (form.take_type() != Type::B64) form.unsupported();
  out.handler = wait;
  out.in_flight = kClockNeeded;
  out.dst = d.predicate_destination(d.operand(0));
  d.address(d.operand(1), out);
  out.b = d.source(d.operand(2), (out.flags & kParity) ? Type::U32 : Type::B64);
}

void decode_mbarrier(Decoder& d, Form& form, Instruction& out) {
  const int step = form.take_one({"init", "inval", "complete_tx", "arrive", "arrive_drop",
                                  "test_wait", "try_wait", "pending_count"});
  switch (step) {
    case 0:
    case 1:
      out.space = take_space(form, false);
      if (form.take_type() != Type::B64) form.unsupported();
      out.handler = step == 0 ? init : invalidate;
      d.address(d.operand(0), out);
      if (step == 0) out.b = d.source(d.operand(1), Type::U32);
      return;
    case 3:
    case 4:
      return decode_arrive(d, form, out, step == 4);
    case 5:
    case 6:
      return decode_wait(d, form, out);
    case 7:
      if (form.take_type() != Type::B64) form.unsupported();
      out.handler = pending_count;
      out.dst = d.destination(d.operand(0), Type::U32);
      out.a = d.source(d.operand(1), Type::B64);
      return;
    default:
      if (step < 0 && !form.take("expect_tx")) form.unsupported();
      form.ignore_one({"relaxed"});
      form.ignore_one({"cta", "cluster"});
      out.space = take_space(form, true);
      if (form.take_type() != Type::B64) form.unsupported();
      out.handler = step == 2 ? complete_bytes : expect_bytes;
      d.address(d.operand(0), out);
      out.b = d.source(d.operand(1), Type::U32);
  }
}

}  // namespace

void add_mbarrier_opcodes(OpcodeTable& table) {
  table["mbarrier"] = decode_mbarrier;
}

}  // namespace fusednorm::emulator
