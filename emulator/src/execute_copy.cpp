// SPDX-License-Identifier: Apache-2.0
// cp.async: issued copies stay in a queue until a wait completes them, so that a missing wait
// shows.
#include <algorithm>
#include <cstring>

#include "address_space.h"
#include "async_copies.h"
#include "lanes.h"
#include "memory_access.h"
#include "trace.h"

namespace fusednorm::emulator {
namespace {

// Reading bytes of shared memory is an error from now on: bit k of `which` is byte k at `address`.
void mark_unwritten(Warp& w, uint32_t address, uint64_t which) {
  if (!w.launch->checks.uninitialised || address >> kClusterRankShift) return;
  Block& block = *w.block;
  block.shared_written[(address - block.shared_base) / 64] &= ~(which << (address % 64));
}

void perform(Warp& w, PendingCopy& copy, uint32_t lanes) {
  const Instruction* const saved = w.current;
  w.current = copy.instruction;
  const uint32_t saved_mask = lanes;
  for_each_active(lanes, [&](int lane) {
    uint8_t* to = shared_pointer(w, copy.shared[lane], copy.bytes, lane, AccessKind::Store, 0);
    std::memset(to, 0, copy.bytes);
    const uint32_t source_bytes = std::min(copy.source_bytes[lane], copy.bytes);
    if (source_bytes) {
      const uint8_t* from =
          generic_pointer(w, copy.global[lane], source_bytes, lane, AccessKind::Load);
      std::memcpy(to, from, source_bytes);
      mark_unwritten(w, copy.shared[lane],
                     unwritten_bytes(w, copy.global[lane], source_bytes, lane));
    }
  });
  w.count_store();
  copy.mask &= ~saved_mask;
  w.current = saved;
}

void drop_done(Warp& w) {
  w.copies.erase(std::remove_if(w.copies.begin(), w.copies.end(),
                                [](const PendingCopy& copy) { return copy.mask == 0; }),
                 w.copies.end());
}

// Shared memory that a copy under way will write: reading it is an error until it has.
void forget_shared(Warp& w, uint64_t address, uint32_t bytes, int lane) {
  shared_pointer(w, address, bytes, lane, AccessKind::Store, 0);
  mark_unwritten(w, static_cast<uint32_t>(address), (1ull << bytes) - 1);
}

// a: shared address, b: global address, c: source bytes or none; width: bytes
void issue(Warp& w, const Instruction& i, uint32_t active) {
  PendingCopy copy{};
  copy.mask = active;
  copy.bytes = i.width;
  copy.instruction = &i;
  uint64_t shared[32], global[32];
  lane_addresses(w, i, active, shared);
  uint32_t reading = 0, partial = 0;
  for_each_active(active, [&](int lane) {
    copy.shared[lane] = static_cast<uint32_t>(shared[lane]);
    global[lane] = copy.global[lane] =
        w.reg<uint64_t>(i.b)[lane] + static_cast<uint64_t>(static_cast<int32_t>(i.list[0]));
    copy.source_bytes[lane] = i.c == kNone ? i.width : w.reg<uint32_t>(i.c)[lane];
    if (i.d != kNone && (w.predicate(i.d) >> lane & 1)) copy.source_bytes[lane] = 0;  // ignore-src
    copy.group[lane] = w.copy_groups[lane];
    if (copy.source_bytes[lane] > i.width)
      fault(kErrorIllegalInstruction,
            i.text + " with a source size of " + std::to_string(copy.source_bytes[lane]) +
                " bytes, more than the copy's " + std::to_string(i.width),
            lane);
    if (copy.source_bytes[lane] == i.width) {
      reading |= 1u << lane;
    } else if (copy.source_bytes[lane]) {
      partial |= 1u << lane;
    }
  });
  const bool cached = i.width < 16;  // 16 bytes are taken to pass the first level by, as .cg does
  // The addresses are checked and counted now; the copying is left for the wait.
  // One request, whatever each lane asks for: a piece lies in one sector, and so does a part of it.
  const uint64_t sectors = reading | partial ? count_global(w, reading | partial, global, i.width,
                                                            AccessKind::Load, cached)
                                             : 0;
  for (uint32_t left = reading; left;)
    global_span(w, left, global, i.width, AccessKind::Load, kCopied);
  // Copies cut short read only so many bytes, which need not be a power of two: one at a time.
  for_each_active(partial, [&](int lane) {
    for (uint32_t k = 0; k < copy.source_bytes[lane]; ++k, ++global[lane]) {
      uint32_t left = 1u << lane;
      global_span(w, left, global, 1, AccessKind::Load, kCopied);
    }
  });
  count_shared(w, active, shared, i.width, AccessKind::Store);
  // What the copy will write is undefined until a wait: nobody may read it, nor what it held
  // before.
  for_each_active(active, [&](int lane) { forget_shared(w, shared[lane], i.width, lane); });
  copy.ticket = w.loads.issue(32 * sectors);
  w.copies.push_back(copy);
}

void commit(Warp& w, const Instruction&, uint32_t active) {
  for_each_active(active, [&](int lane) { ++w.copy_groups[lane]; });
}

// immediate: groups that may stay pending; flags 1: wait for everything, committed or not
void wait(Warp& w, const Instruction& i, uint32_t active) {
  if (w.trace) w.trace->value((i.flags & 1) ? 0 : static_cast<uint32_t>(i.immediate));
  for (PendingCopy& copy : w.copies) {
    uint32_t due = 0;
    for_each_active(copy.mask & active, [&](int lane) {
      const bool done = (i.flags & 1) ||
                        copy.group[lane] + static_cast<uint32_t>(i.immediate) < w.copy_groups[lane];
      due |= uint32_t{done} << lane;
    });
    if (!due) continue;
    perform(w, copy, due);
    w.loads.wait_until(w.loads.arrival(copy.ticket));
    if (copy.mask == 0) w.loads.complete(copy.ticket);
  }
  drop_done(w);
}

// cp.async.mbarrier.arrive: signals when the lane's copies are done. They are done now, but only
// lanes that wait at the mbarrier know. flags 1: the arrival is one of those expected (.noinc).
void arrive_when_copied(Warp& w, const Instruction& i, uint32_t active) {
  uint64_t latest = w.loads.clock();
  std::vector<uint64_t> done;  // loads that end when the mbarrier is waited for
  for (PendingCopy& copy : w.copies) {
    if (!(copy.mask & active)) continue;
    perform(w, copy, copy.mask & active);
    latest = std::max(latest, w.loads.arrival(copy.ticket));
    if (copy.mask == 0) done.push_back(copy.ticket);
  }
  drop_done(w);
  uint64_t address[32];
  lane_addresses(w, i, active, address);
  for_each_active(active, [&](int lane) {
    Mbarrier& barrier = mbarrier_at(w, lane, address[lane], MbarrierUse::Change);
    if (!(i.flags & 1)) ++barrier.pending;
    leave_knowledge(w, 1u << lane, barrier.left);
    if (w.trace) w.trace->arrive(barrier.signal);
    barrier.latest = std::max(barrier.latest, latest);
    for (const uint64_t ticket : done) barrier.loads.push_back({&w, ticket});
    done.clear();
    mbarrier_arrive(barrier, 1, lane);
  });
}

void decode_copy(Decoder& d, Form& form, Instruction& out) {
  if (!form.take("async")) form.unsupported();
  out.in_flight = kClockNeeded;
  if (form.take("bulk")) return decode_bulk_copy(d, form, out);
  if (form.take("mbarrier")) {
    if (!form.take("arrive")) form.unsupported();
    out.flags = form.take("noinc") ? 1 : 0;
    out.space = form.take_one({"shared", "shared::cta"}) < 0 ? Space::Generic : Space::Shared;
    if (form.take_type() != Type::B64) form.unsupported();
    out.handler = arrive_when_copied;
    d.address(d.operand(0), out);
    return;
  }
  if (form.take("commit_group")) {
    out.handler = commit;
    return;
  }
  if (form.take("wait_group")) {
    out.handler = wait;
    out.immediate = d.operand(0).value;
    return;
  }
  if (form.take("wait_all")) {
    out.handler = wait;
    out.flags = 1;
    return;
  }
  const int cache = form.take_one({"ca", "cg"});
  if (cache < 0 || form.take_one({"shared", "shared::cta"}) < 0 || !form.take("global"))
    form.unsupported();
  form.ignore_one({"L2::64B", "L2::128B", "L2::256B"});
  form.ignore_one({"L2::cache_hint"});
  out.handler = issue;
  out.space = Space::Shared;
  d.address(d.operand(0), out);
  const Operand& source = d.operand(1);
  Instruction from;
  from.space = Space::Global;
  d.address(source, from);
  if (from.flags & kNarrowAddress) form.unsupported("a 32-bit global address");
  out.b = from.a;
  out.list[0] = static_cast<uint32_t>(from.immediate);
  if (from.immediate != static_cast<int32_t>(from.immediate))
    form.unsupported("an offset that large");
  out.width = static_cast<uint8_t>(d.operand(2).value);
  if (out.width != 16 && (cache == 1 || (out.width != 4 && out.width != 8)))
    form.unsupported("a copy of that size");
  if (d.operand_count() > 3) {
    const Operand& extra = d.operand(3);
    const bool is_predicate =
        extra.kind == Operand::Kind::Register && d.register_type(extra.reg) == Type::Pred;
    bool negated = false;
    if (is_predicate) {
      out.d = d.predicate_source(extra, negated);
      if (negated) form.unsupported("a negated ignore-src");
    } else {
      out.c = d.source(extra, Type::U32);
    }
  }
}

}  // namespace

void add_copy_opcodes(OpcodeTable& table) {
  table["cp"] = decode_copy;
}

}  // namespace fusednorm::emulator
