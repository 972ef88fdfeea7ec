// SPDX-License-Identifier: Apache-2.0
// cp.async.bulk (one dimension) and st.async: copies by an engine beside the threads.
#include <cstring>

#include "async_copies.h"
#include "block.h"
#include "lanes.h"
#include "memory_access.h"
#include "trace.h"

namespace fusednorm::emulator {
namespace {

// flags: where the copy goes
constexpr uint8_t kGlobalToShared = 0, kSharedToShared = 1, kSharedToGlobal = 2;

void require(bool holds, const Instruction& i, const std::string& what, int lane) {
  if (!holds) fault(kErrorMisaligned, i.text + ": " + what, lane);
}

// Marks a range of global memory as read or written by the lane, 16 bytes at a time, and counts it
// as one request, which passes the first-level cache by.
void touch_global(Warp& w, int lane, uint64_t address, uint32_t bytes, AccessKind kind) {
  uint64_t places[32] = {};
  for (uint32_t done = 0; done < bytes; done += 16) {
    places[lane] = address + done;
    uint32_t one = 1u << lane;
    global_span(w, one, places, 16, kind, 0);
  }
  const uint64_t sectors = (address + bytes - 1) / 32 - address / 32 + 1;
  if (w.trace) w.trace->sectors(sectors, sectors);
  Counters& counters = *w.counters;
  if (kind == AccessKind::Load) {
    ++counters.global_load_requests;
    counters.global_load_sectors += sectors;
    counters.l2_load_sectors += sectors;
  } else {
    ++counters.global_store_requests;
    counters.global_store_sectors += sectors;
    counters.partial_store_sectors += (address % 32 != 0) + ((address + bytes) % 32 != 0);
  }
}

// Bounds of a range of shared memory; its order is checked by issue_copy.
uint32_t shared_range(Warp& w, int lane, uint64_t address, uint32_t bytes, const Instruction& i) {
  const uint32_t key = shared_key(w, address);
  const Block& owner = block_of_key(*w.block->cluster, key);
  const uint32_t offset = (key & 0xffffffu) - owner.shared_base;
  if ((key & 0xffffffu) < owner.shared_base || uint64_t{offset} + bytes > owner.shared.size())
    fault(kErrorIllegalAddress,
          "out-of-bounds " + i.text + " of " + std::to_string(bytes) + " bytes at shared address " +
              hexadecimal(key & 0xffffffu) + ": the block has " +
              std::to_string(owner.shared.size()) + " bytes of shared memory from " +
              hexadecimal(owner.shared_base) + " on",
          lane);
  if (&owner != w.block) require_reachable(w, block_of_key(*w.block->cluster, key), lane, i.text);
  return key;
}

// a: target, b: source, c: bytes, d: mbarrier
void issue_bulk(Warp& w, const Instruction& i, uint32_t active) {
  for_each_active(active, [&](int lane) {
    const auto place = [&](uint32_t reg, uint8_t wide) {
      return wide ? w.reg<uint64_t>(reg)[lane] : uint64_t{w.reg<uint32_t>(reg)[lane]};
    };
    const uint64_t to = place(i.a, i.list[0] & 1) + static_cast<uint64_t>(i.immediate);
    const uint64_t from = place(i.b, i.list[0] & 2) + i.list[1];
    const uint32_t bytes = w.reg<uint32_t>(i.c)[lane];
    require(bytes % 16 == 0, i, std::to_string(bytes) + " bytes: not a multiple of 16", lane);
    require(to % 16 == 0 && from % 16 == 0, i, "an address that is not a multiple of 16", lane);
    if (bytes == 0) return;
    AsyncCopy copy;
    copy.lane = lane;
    copy.bytes = bytes;
    if (i.flags == kGlobalToShared) {
      copy.global = from;
      touch_global(w, lane, from, bytes, AccessKind::Load);
      copy.load = w.loads.issue(bytes);
      copy.arrival = w.loads.arrival(copy.load);
    } else {
      copy.from_shared = shared_range(w, lane, from, bytes, i);
    }
    if (i.flags == kSharedToGlobal) {
      copy.global = to;
      copy.to_global = true;
      copy.group = w.bulk_groups[lane];
      touch_global(w, lane, to, bytes, AccessKind::Store);
    } else {
      copy.to_shared = shared_range(w, lane, to, bytes, i);
      const uint64_t barrier = place(i.d, i.list[0] & 4) + i.list[2];
      Mbarrier& signalled = mbarrier_at(w, lane, barrier, MbarrierUse::Signal);
      if (w.trace) w.trace->arrive(signalled.signal);
      copy.barrier = shared_key(w, barrier);
    }
    issue_copy(w, std::move(copy), true);
  });
}

void commit(Warp& w, const Instruction&, uint32_t active) {
  for_each_active(active, [&](int lane) { ++w.bulk_groups[lane]; });
}

void wait(Warp& w, const Instruction& i, uint32_t active) {
  if (w.trace) w.trace->value(static_cast<uint32_t>(i.immediate));
  for_each_active(
      active, [&](int lane) { complete_groups_of(w, lane, static_cast<uint32_t>(i.immediate)); });
}

void no_operation(Warp&, const Instruction&, uint32_t) {}

// An address operand: its register, whether that has 64 bits, and the offset.
void address_of(Decoder& d, Form& form, const Operand& operand, Space space, uint32_t& reg,
                bool& wide, int64_t& offset) {
  Instruction place;
  place.space = space;
  d.address(operand, place);
  if (place.immediate != static_cast<int32_t>(place.immediate))
    form.unsupported("an offset that large");
  reg = place.a;
  wide = !(place.flags & kNarrowAddress);
  offset = place.immediate;
}

// a: address, list: values, d: mbarrier
void store_async(Warp& w, const Instruction& i, uint32_t active) {
  for_each_active(active, [&](int lane) {
    const auto place = [&](uint32_t reg, bool wide) {
      return wide ? w.reg<uint64_t>(reg)[lane] : uint64_t{w.reg<uint32_t>(reg)[lane]};
    };
    const uint64_t to =
        place(i.a, !(i.flags & kNarrowAddress)) + static_cast<uint64_t>(i.immediate);
    AsyncCopy copy;
    copy.lane = lane;
    copy.bytes = uint32_t{i.width} * i.count;
    require(to % copy.bytes == 0, i, "an address that is not a multiple of its size", lane);
    copy.to_shared = shared_range(w, lane, to, copy.bytes, i);
    for (int k = 0; k < i.count; ++k) {
      const uint8_t* value = w.file + i.list[k] + i.register_width * lane;
      copy.value.insert(copy.value.end(), value, value + i.width);
    }
    const uint64_t barrier = place(i.d, i.c != 0) + i.dst2;
    Mbarrier& signalled = mbarrier_at(w, lane, barrier, MbarrierUse::Signal);
    if (w.trace) w.trace->arrive(signalled.signal);
    copy.barrier = shared_key(w, barrier);
    issue_copy(w, std::move(copy), false);
  });
}

}  // namespace

void decode_bulk_copy(Decoder& d, Form& form, Instruction& out) {
  if (form.take("commit_group")) {
    out.handler = commit;
    return;
  }
  if (form.take("wait_group")) {
    form.ignore_one({"read"});
    out.handler = wait;
    out.immediate = d.operand(0).value;
    return;
  }
  if (form.take("prefetch")) {
    if (!form.take("L2") || !form.take("global")) form.unsupported();
    form.ignore_one({"L2::cache_hint"});
    out.handler = no_operation;
    return;
  }
  // Two spaces are named, the target first.
  const int shared = form.take_one({"shared::cluster", "shared::cta"});
  const bool between_blocks = shared == 0 && form.take("shared::cta");
  const bool global = form.take("global");
  const bool signals = form.take("mbarrier::complete_tx::bytes");
  const bool grouped = !signals && form.take("bulk_group");
  form.ignore_one({"L2::cache_hint"});
  if (signals && global && shared >= 0 && !between_blocks)
    out.flags = kGlobalToShared;
  else if (signals && between_blocks && !global)
    out.flags = kSharedToShared;
  else if (grouped && global && shared == 1)
    out.flags = kSharedToGlobal;
  else
    form.unsupported();
  out.handler = issue_bulk;
  out.in_flight = kClockNeeded;
  bool wide[3] = {};
  int64_t offset[3] = {};
  const Space target = out.flags == kSharedToGlobal ? Space::Global : Space::Shared;
  const Space source = out.flags == kGlobalToShared ? Space::Global : Space::Shared;
  address_of(d, form, d.operand(0), target, out.a, wide[0], offset[0]);
  address_of(d, form, d.operand(1), source, out.b, wide[1], offset[1]);
  out.c = d.source(d.operand(2), Type::U32);
  if (signals) address_of(d, form, d.operand(3), Space::Shared, out.d, wide[2], offset[2]);
  out.list[0] = (wide[0] ? 1u : 0) | (wide[1] ? 2u : 0) | (wide[2] ? 4u : 0);
  out.immediate = offset[0];
  out.list[1] = static_cast<uint32_t>(offset[1]);
  out.list[2] = static_cast<uint32_t>(offset[2]);
}

void decode_async_store(Decoder& d, Form& form, Instruction& out) {
  form.ignore_one({"weak"});
  out.space = Space::Shared;
  form.ignore_one({"shared::cluster"});
  if (!form.take("mbarrier::complete_tx::bytes")) form.unsupported();
  out.count = static_cast<uint8_t>(1 << (1 + form.take_one({"v2", "v4"})));
  const Type type = form.take_type();
  const bool known =
      type == Type::B32 || type == Type::U32 || type == Type::S32 || type == Type::F32 ||
      (out.count < 4 &&
       (type == Type::B64 || type == Type::U64 || type == Type::S64 || type == Type::F64));
  if (!known) form.unsupported();
  out.width = static_cast<uint8_t>(byte_size(type));
  out.handler = store_async;
  const Operand& value = d.operand(1);
  const bool vector = value.kind == Operand::Kind::List;
  if ((vector ? value.list.size() : 1) != out.count) form.unsupported("another number of values");
  int register_bytes = 0;
  for (int k = 0; k < out.count; ++k)
    out.list[k] =
        d.source_any(vector ? value.list[static_cast<size_t>(k)] : value, register_bytes, type);
  out.register_width = static_cast<uint8_t>(register_bytes);
  d.address(d.operand(0), out);
  bool wide = false;
  int64_t offset = 0;
  address_of(d, form, d.operand(2), Space::Shared, out.d, wide, offset);
  out.c = wide ? 1 : 0;
  out.dst2 = static_cast<uint32_t>(offset);
}

}  // namespace fusednorm::emulator
