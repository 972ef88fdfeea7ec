// SPDX-License-Identifier: Apache-2.0
// Loads and stores of a warp in every space, scalar and vector; .param variables of calls.
#include "execute_memory.h"

#include <cstring>

#include "address_space.h"
#include "lanes.h"
#include "memory_access.h"
#include "order.h"
#include "register_transfer.h"

namespace fusednorm::emulator {
namespace {

void load_global(Warp& w, const Instruction& i, uint32_t active, const uint64_t address[32],
                 bool counted) {
  const uint32_t bytes = access_bytes(i);
  const uint32_t all = active;
  while (active) {
    const GlobalSpan span = global_span(w, active, address, bytes, AccessKind::Load, i.flags);
    if (!span.contiguous || !load_fast(w, i, span.host + span.first))
      for_each_active(span.lanes,
                      [&](int lane) { load_lane(w, i, lane, span.host + address[lane]); });
    if (i.flags & kStrong) observe_global(w, span.lanes, address, i.flags);
  }
  if (counted)
    w.loads.issue_load(
        i, 32 * count_global(w, all, address, bytes, AccessKind::Load, !(i.flags & kStrong)));
}

void store_global(Warp& w, const Instruction& i, uint32_t active, const uint64_t address[32]) {
  const uint32_t bytes = access_bytes(i);
  const uint32_t all = active;
  while (active) {
    const GlobalSpan span = global_span(w, active, address, bytes, AccessKind::Store, i.flags);
    if (i.flags & kStrong) publish_global(w, span.lanes, address, i.flags);
    if (span.contiguous && store_fast(w, i, span.host + span.first)) continue;
    for_each_active(span.lanes,
                    [&](int lane) { store_lane(w, i, lane, span.host + address[lane]); });
  }
  count_global(w, all, address, bytes, AccessKind::Store, false);
}

bool is_uniform(uint32_t active, const uint64_t address[32]) {
  const uint64_t first = address[__builtin_ctz(active)];
  uint64_t difference = 0;
  for (int lane = 0; lane < 32; ++lane)
    difference |= (active >> lane & 1) ? address[lane] ^ first : 0;
  return difference == 0;
}

void load_shared(Warp& w, const Instruction& i, uint32_t active, const uint64_t address[32]) {
  const uint32_t bytes = access_bytes(i);
  if (i.flags & kStrong)
    for_each_active(active, [&](int lane) { observe_shared(w, lane, address[lane], i.flags); });
  if (is_uniform(active, address)) {
    // A broadcast. Checking two lanes is enough: at least one of them is not the writer.
    const int low = __builtin_ctz(active), high = 31 - __builtin_clz(active);
    const uint8_t* from = shared_pointer(w, address[low], bytes, low, AccessKind::Load, i.flags);
    if (high != low) shared_pointer(w, address[high], bytes, high, AccessKind::Load, i.flags);
    if (i.width == 4 && i.register_width == 4) {
      for (int element = 0; element < i.count; ++element) {
        uint32_t value;
        std::memcpy(&value, from + 4 * element, 4);
        for_lanes(w.reg<uint32_t>(i.list[element]), active, [=](int) { return value; });
      }
    } else {
      for_each_active(active, [&](int lane) { load_lane(w, i, lane, from); });
    }
    count_shared(w, active & (0u - active), address, 4, AccessKind::Load);
    return;
  }
  for_each_active(active, [&](int lane) {
    load_lane(w, i, lane, shared_pointer(w, address[lane], bytes, lane, AccessKind::Load, i.flags));
  });
  count_shared(w, active, address, bytes, AccessKind::Load);
}

// Whether lanes that store to one address agree on the value.
bool equal_where_shared(Warp& w, const Instruction& i, uint32_t active,
                        const uint64_t address[32]) {
  for (uint32_t left = active; left; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    for (uint32_t rest = left & (left - 1); rest; rest &= rest - 1) {
      const int other = __builtin_ctz(rest);
      if (address[lane] != address[other]) continue;
      for (int element = 0; element < i.count; ++element)
        if (std::memcmp(w.file + i.list[element] + i.register_width * lane,
                        w.file + i.list[element] + i.register_width * other, i.width) != 0)
          return false;
    }
  }
  return true;
}

void store_shared(Warp& w, const Instruction& i, uint32_t active, const uint64_t address[32]) {
  const uint32_t bytes = access_bytes(i);
  // Only where two lanes meet does it matter whether they agree; the ascending case cannot.
  bool ascending = true;
  uint64_t last = 0;
  for_each_active(active, [&](int lane) {
    ascending = ascending && (last == 0 || address[lane] + 1 > last);
    last = address[lane] + 1;
  });
  bool meets = !ascending;
  if (ascending) {
    uint64_t before = ~0ull;
    for_each_active(active, [&](int lane) {
      meets = meets || address[lane] == before;
      before = address[lane];
    });
  }
  w.same_value_store = meets && equal_where_shared(w, i, active, address);
  if (i.flags & kStrong)
    for_each_active(active, [&](int lane) { publish_shared(w, lane, address[lane], i.flags); });
  for_each_active(active, [&](int lane) {
    store_lane(w, i, lane,
               shared_pointer(w, address[lane], bytes, lane, AccessKind::Store, i.flags));
  });
  w.same_value_store = false;
  w.count_store();
  count_shared(w, active, address, bytes, AccessKind::Store);
}

void load_local(Warp& w, const Instruction& i, uint32_t active, const uint64_t address[32]) {
  const uint32_t bytes = access_bytes(i);
  ++w.counters->local_requests;
  for_each_active(active, [&](int lane) {
    load_lane(w, i, lane, local_pointer(w, address[lane], bytes, lane));
  });
}
void store_local(Warp& w, const Instruction& i, uint32_t active, const uint64_t address[32]) {
  const uint32_t bytes = access_bytes(i);
  ++w.counters->local_requests;
  for_each_active(active, [&](int lane) {
    store_lane(w, i, lane, local_pointer(w, address[lane], bytes, lane));
  });
}
void load_parameter(Warp& w, const Instruction& i, uint32_t active, const uint64_t address[32]) {
  const uint32_t bytes = access_bytes(i);
  for_each_active(active, [&](int lane) {
    load_lane(w, i, lane, parameter_pointer(w, address[lane], bytes, lane));
  });
}

struct Windows {
  uint32_t global = 0, shared = 0, local = 0, param = 0;
};

// Sorts lanes by the window of a generic address and leaves each address as its space wants it.
Windows split_generic(uint32_t active, uint64_t address[32]) {
  Windows lanes;
  for_each_active(active, [&](int lane) {
    const uint32_t bit = 1u << lane;
    const uint64_t a = address[lane];
    if (in_window(a, kSharedWindow)) {
      lanes.shared |= bit;
      address[lane] = a & 0xffffffffu;
    } else if (in_window(a, kLocalWindow)) {
      lanes.local |= bit;
      address[lane] = a & 0xffffffffu;
    } else if (in_window(a, kParamWindow)) {
      lanes.param |= bit;
      address[lane] = a & 0xffffffffu;
    } else {
      lanes.global |= bit;
    }
  });
  return lanes;
}

}  // namespace

void execute_load(Warp& w, const Instruction& i, uint32_t active) {
  uint64_t address[32];
  lane_addresses(w, i, active, address);
  switch (i.space) {
    case Space::Global:
      load_global(w, i, active, address, true);
      return;
    case Space::Const:
      load_global(w, i, active, address, false);
      return;
    case Space::Shared:
      load_shared(w, i, active, address);
      return;
    case Space::Local:
      load_local(w, i, active, address);
      return;
    case Space::Param:
      load_parameter(w, i, active, address);
      return;
    case Space::Generic:
      break;
  }
  const Windows lanes = split_generic(active, address);
  if (lanes.global) load_global(w, i, lanes.global, address, true);
  if (lanes.shared) load_shared(w, i, lanes.shared, address);
  if (lanes.local) load_local(w, i, lanes.local, address);
  if (lanes.param) load_parameter(w, i, lanes.param, address);
}

void execute_strong_load(Warp& w, const Instruction& i, uint32_t active) {
  execute_load(w, i, active);
  w.yielded = true;  // it may be a spin-wait: let the others run
}

void execute_prefetch(Warp& w, const Instruction& i, uint32_t active) {
  uint64_t address[32];
  lane_addresses(w, i, active, address);
  w.loads.issue_unawaited(32 * prefetch_global(w, active, address));
}

void execute_store(Warp& w, const Instruction& i, uint32_t active) {
  uint64_t address[32];
  lane_addresses(w, i, active, address);
  switch (i.space) {
    case Space::Global:
      store_global(w, i, active, address);
      return;
    case Space::Shared:
      store_shared(w, i, active, address);
      return;
    case Space::Local:
      store_local(w, i, active, address);
      return;
    default:
      break;
  }
  const Windows lanes = split_generic(active, address);
  if (lanes.param)
    fault(kErrorIllegalAddress, "store to kernel parameters", __builtin_ctz(lanes.param));
  if (lanes.global) store_global(w, i, lanes.global, address);
  if (lanes.shared) store_shared(w, i, lanes.shared, address);
  if (lanes.local) store_local(w, i, lanes.local, address);
}

// ld.param of a kernel's own parameter: the same for every lane.
void load_kernel_parameter(Warp& w, const Instruction& i, uint32_t active) {
  const uint8_t* from = parameter_pointer(w, static_cast<uint64_t>(i.immediate), access_bytes(i),
                                          __builtin_ctz(active));
  if (i.count == 1 && i.width == i.register_width && i.width >= 4) {
    if (i.width == 4) {
      uint32_t value;
      std::memcpy(&value, from, 4);
      for_lanes(w.reg<uint32_t>(i.list[0]), active, [=](int) { return value; });
      return;
    }
    if (i.width == 8) {
      uint64_t value;
      std::memcpy(&value, from, 8);
      for_lanes(w.reg<uint64_t>(i.list[0]), active, [=](int) { return value; });
      return;
    }
  }
  for_each_active(active, [&](int lane) { load_lane(w, i, lane, from); });
}

// .param variables between a call and its callee: words of 32 lanes from slot c, immediate is the
// byte offset.
void load_slot(Warp& w, const Instruction& i, uint32_t active) {
  for_each_active(active, [&](int lane) {
    uint8_t bytes[64];
    const uint64_t first = static_cast<uint64_t>(i.immediate);
    for (uint64_t k = 0; k < access_bytes(i); ++k)
      bytes[k] =
          w.file[i.c + (first + k) / 4 * 128 + 4 * static_cast<uint64_t>(lane) + (first + k) % 4];
    load_lane(w, i, lane, bytes);
  });
}
void store_slot(Warp& w, const Instruction& i, uint32_t active) {
  for_each_active(active, [&](int lane) {
    uint8_t bytes[64];
    store_lane(w, i, lane, bytes);
    const uint64_t first = static_cast<uint64_t>(i.immediate);
    for (uint64_t k = 0; k < access_bytes(i); ++k)
      w.file[i.c + (first + k) / 4 * 128 + 4 * static_cast<uint64_t>(lane) + (first + k) % 4] =
          bytes[k];
  });
}

}  // namespace fusednorm::emulator
