// SPDX-License-Identifier: Apache-2.0
// Checked access of a warp to global, shared, local and parameter memory: bounds, alignment, marks
// and counts.
#include "memory_access.h"

#include <algorithm>
#include <cstdio>

#include "address_space.h"
#include "global_races.h"
#include "lanes.h"
#include "partial_sectors.h"
#include "race_checker.h"
#include "trace.h"

namespace fusednorm::emulator {

void fault(int error, const std::string& what, int lane) {
  throw Fault(error, what, lane);
}

std::string hexadecimal(uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

namespace {

const char* verb(AccessKind kind) {
  return kind == AccessKind::Load    ? "load"
         : kind == AccessKind::Store ? "store"
                                     : "atomic operation";
}

std::string describe(AccessKind kind, const char* space, uint32_t bytes, uint64_t address) {
  return std::string(space) + " " + verb(kind) + " of " + std::to_string(bytes) + " bytes at " +
         hexadecimal(address);
}

void check_alignment(uint32_t active, const uint64_t address[32], uint32_t bytes, AccessKind kind,
                     const char* space) {
  uint64_t low_bits = 0;
  for (int lane = 0; lane < 32; ++lane) low_bits |= (active >> lane & 1) ? address[lane] : 0;
  if ((low_bits & (bytes - 1)) == 0) return;
  for_each_active(active, [&](int lane) {
    if (address[lane] & (bytes - 1))
      fault(kErrorMisaligned,
            "misaligned " + describe(kind, space, bytes, address[lane]) +
                ": the address must be a multiple of " + std::to_string(bytes),
            lane);
  });
}

bool is_contiguous(uint32_t active, const uint64_t address[32], uint32_t bytes) {
  if (active != kFullMask) return false;
  uint64_t difference = 0;
  for (int lane = 0; lane < 32; ++lane)
    difference |= address[lane] ^ (address[0] + static_cast<uint64_t>(lane) * bytes);
  return difference == 0;
}

Allocation& locate(Warp& w, uint64_t address, uint32_t bytes, int lane, AccessKind kind) {
  Allocation* allocation = w.recent;
  if (!allocation || !allocation->contains(address, bytes)) {
    allocation = w.launch->memory->find_live(address, bytes);
    const bool usable = allocation && (allocation->device == w.launch->device ||
                                       allocation->kind == MemoryKind::Host ||
                                       allocation->kind == MemoryKind::Managed);
    if (!usable || (kind != AccessKind::Load && allocation->kind == MemoryKind::Constant))
      fault(kErrorIllegalAddress,
            "out-of-bounds " + describe(kind, "global", bytes, address) + ": " +
                w.launch->memory->explain(address, bytes, w.launch->device),
            lane);
    if (allocation->touched_by.load(std::memory_order_acquire) != w.launch->id)
      w.launch->memory->begin_touch(*allocation, w.launch->id, w.launch->checks.global_races);
    if (w.launch->checks.global_races && !allocation->shadow)
      fault(kErrorLaunchFailure,
            "no memory left to look for races between blocks in " +
                std::to_string(allocation->bytes) +
                " bytes; FUSEDNORM_EMULATOR_CHECKS=uninitialised,shared-races leaves that out",
            lane);
    w.recent = allocation;
  } else if (kind != AccessKind::Load && allocation->kind == MemoryKind::Constant) {
    fault(kErrorIllegalAddress,
          describe(kind, "global", bytes, address) + ": constant memory is read-only", lane);
  }
  return *allocation;
}

void mark_sectors(Warp& w, Allocation& allocation, uint64_t first_byte, uint64_t end_byte,
                  AccessKind kind) {
  const uint64_t origin = allocation.address / 32;
  const uint64_t begin = first_byte / 32 - origin, end = (end_byte + 31) / 32 - origin;
  if (w.trace) {
    uint64_t fresh = 0;
    for (uint64_t k = begin; k < end; ++k)
      fresh += !allocation.stored.any(k, k + 1) &&
               (kind == AccessKind::Store || !allocation.loaded_first.any(k, k + 1));
    w.trace->global(allocation, fresh);
  }
  if (kind != AccessKind::Store)
    allocation.loaded_first.set_where_clear_in(allocation.stored, begin, end);
  if (kind != AccessKind::Load) allocation.stored.set(begin, end);
}

[[noreturn]] void uninitialised(const Allocation& allocation, uint64_t offset, uint32_t bytes,
                                uint64_t address, int lane, AccessKind kind) {
  fault(kErrorLaunchFailure,
        "uninitialised " + describe(kind, "global", bytes, address) + ": nobody has written byte " +
            std::to_string(offset) + " of the allocation of " + std::to_string(allocation.bytes) +
            " bytes at " + hexadecimal(allocation.address),
        lane);
}

}  // namespace

void lane_addresses(Warp& w, const Instruction& i, uint32_t, uint64_t out[32]) {
  const uint64_t offset = static_cast<uint64_t>(i.immediate);
  if (i.flags & kNarrowAddress) {
    const uint32_t* a = w.reg<uint32_t>(i.a);
    for (int lane = 0; lane < 32; ++lane) out[lane] = uint32_t(a[lane] + uint32_t(offset));
  } else {
    const uint64_t* a = w.reg<uint64_t>(i.a);
    for (int lane = 0; lane < 32; ++lane) out[lane] = a[lane] + offset;
  }
}

GlobalSpan global_span(Warp& w, uint32_t& active, const uint64_t address[32], uint32_t bytes,
                       AccessKind kind, uint8_t flags) {
  check_alignment(active, address, bytes, kind, "global");
  const int leader = __builtin_ctz(active);
  Allocation& allocation = locate(w, address[leader], bytes, leader, kind);
  GlobalSpan span{};
  span.contiguous =
      is_contiguous(active, address, bytes) && allocation.contains(address[31], bytes);
  span.host = allocation.host - allocation.address;
  const bool check_written =
      w.launch->checks.uninitialised && !allocation.fully_written && !(flags & kCopied);
  if (span.contiguous) {
    span.lanes = active;
    span.first = address[0];
    const uint64_t offset = address[0] - allocation.address, size = 32ull * bytes;
    mark_sectors(w, allocation, address[0], address[0] + size, kind);
    if (check_written && kind != AccessKind::Store) {
      const uint64_t missing = allocation.written.first_clear(offset, offset + size);
      if (missing < offset + size) {
        const int lane = static_cast<int>((missing - offset) / bytes);
        uninitialised(allocation, missing, bytes, address[lane], lane, kind);
      }
    }
    if (kind == AccessKind::Store && !allocation.fully_written)
      allocation.written.set(offset, offset + size);
  } else {
    for_each_active(active, [&](int lane) {
      if (!allocation.contains(address[lane], bytes)) return;
      span.lanes |= 1u << lane;
      const uint64_t offset = address[lane] - allocation.address;
      mark_sectors(w, allocation, address[lane], address[lane] + bytes, kind);
      if (check_written && kind != AccessKind::Store) {
        const uint64_t missing = allocation.written.first_clear(offset, offset + bytes);
        if (missing < offset + bytes)
          uninitialised(allocation, missing, bytes, address[lane], lane, kind);
      }
      if (kind == AccessKind::Store && !allocation.fully_written)
        allocation.written.set(offset, offset + bytes);
    });
  }
  if (w.launch->checks.global_races)
    check_global(w, allocation, span.lanes, address, bytes, span.contiguous, kind, flags);
  active &= ~span.lanes;
  if (kind == AccessKind::Store) w.count_store();  // an atomic counts only if it changes something
  return span;
}

uint32_t unwritten_bytes(Warp& w, uint64_t address, uint32_t bytes, int lane) {
  const Allocation& allocation = locate(w, address, bytes, lane, AccessKind::Load);
  if (!w.launch->checks.uninitialised || allocation.fully_written) return 0;
  const uint64_t offset = address - allocation.address;
  uint32_t unwritten = 0;
  for (uint32_t k = 0; k < bytes; ++k)
    unwritten |= uint32_t{!allocation.written.any(offset + k, offset + k + 1)} << k;
  return unwritten;
}

uint64_t count_global(Warp& w, uint32_t active, const uint64_t address[32], uint32_t bytes,
                      AccessKind kind, bool cached) {
  uint64_t sectors = 0, missing = 0, partial = 0;
  const bool looks_up = cached && kind == AccessKind::Load;
  FirstLevelCache& cache = w.block->first_level;
  if (is_contiguous(active, address, bytes)) {
    const uint64_t first = address[0] / 32, last = (address[31] + bytes - 1) / 32;
    sectors = last - first + 1;
    if (looks_up) missing = cache.load(first, last);
    // An aligned run of 32 accesses is a multiple of 32 bytes long: both ends are cut, or none is.
    if (address[0] % 32) partial = 2;
  } else {
    uint64_t list[64];
    int count = 0;
    bool sorted = true;
    for_each_active(active, [&](int lane) {
      for (uint64_t sector = address[lane] / 32; sector <= (address[lane] + bytes - 1) / 32;
           ++sector) {
        if (count && list[count - 1] == sector) continue;
        if (count && list[count - 1] > sector) sorted = false;
        list[count++] = sector;
      }
    });
    if (!sorted) {
      std::sort(list, list + count);
      count = static_cast<int>(std::unique(list, list + count) - list);
    }
    sectors = static_cast<uint64_t>(count);
    if (kind == AccessKind::Store) partial = partial_sectors(active, address, bytes);
    if (looks_up)
      for (int k = 0; k < count; ++k) missing += cache.load(list[k], list[k]);
  }
  Counters& counters = *w.counters;
  if (w.trace) w.trace->sectors(sectors, looks_up ? missing : sectors);
  if (kind == AccessKind::Load) {
    ++counters.global_load_requests;
    counters.global_load_sectors += sectors;
    counters.l2_load_sectors += looks_up ? missing : sectors;
  } else {
    ++counters.global_store_requests;
    counters.global_store_sectors += sectors;
    if (kind == AccessKind::Store) counters.partial_store_sectors += partial;
    if (kind == AccessKind::Atomic) ++counters.global_atomics;
  }
  return sectors;
}

uint64_t prefetch_global(Warp& w, uint32_t active, const uint64_t address[32]) {
  uint64_t sectors = 0, last = ~0ull;
  for_each_active(active, [&](int lane) {
    // A real device may ignore an address that nothing is mapped to, or not: PTX does not say.
    Allocation& allocation = locate(w, address[lane], 1, lane, AccessKind::Load);
    if (address[lane] / 32 == last) return;
    last = address[lane] / 32;
    mark_sectors(w, allocation, address[lane], address[lane] + 1, AccessKind::Load);
    ++sectors;
  });
  if (w.trace) w.trace->sectors(sectors, sectors);
  return sectors;
}

uint8_t* shared_pointer(Warp& w, uint64_t address, uint32_t bytes, int lane, AccessKind kind,
                        uint8_t flags) {
  Block* owner = w.block;
  uint32_t offset = static_cast<uint32_t>(address);
  const bool remote =
      offset >> kClusterRankShift && (offset >> kClusterRankShift) - 1 != owner->rank;
  if (offset >> kClusterRankShift) {
    const uint32_t rank = (offset >> kClusterRankShift) - 1;
    offset &= (1u << kClusterRankShift) - 1;
    if (rank >= w.block->cluster->blocks.size())
      fault(kErrorIllegalAddress,
            "out-of-bounds " + describe(kind, "shared", bytes, address) + ": no block of rank " +
                std::to_string(rank) + " in the cluster",
            lane);
    owner = &w.block->cluster->blocks[rank];
  }
  if (remote && w.trace) w.trace->remote();
  if (remote)
    require_reachable(w, *owner, lane, describe(kind, "distributed shared", bytes, address));
  if (offset < owner->shared_base)
    fault(kErrorIllegalAddress,
          "out-of-bounds " + describe(kind, "shared", bytes, offset) +
              ": shared memory begins at " + hexadecimal(owner->shared_base) +
              ", below is the system's; an address was computed as if it began at 0",
          lane);
  if (uint64_t{offset} - owner->shared_base + bytes > owner->shared.size())
    fault(kErrorIllegalAddress,
          "out-of-bounds " + describe(kind, "shared", bytes, offset) + ": the block has " +
              std::to_string(owner->shared.size()) + " bytes of shared memory from " +
              hexadecimal(owner->shared_base) + " on",
          lane);
  if (offset & (bytes - 1))
    fault(kErrorMisaligned,
          "misaligned " + describe(kind, "shared", bytes, offset) +
              ": the address must be a multiple of " + std::to_string(bytes),
          lane);
  const Checks& checks = w.launch->checks;
  if (checks.uninitialised) {
    // An access is aligned to its size, so it never straddles a word of bits.
    uint64_t& word = owner->shared_written[(offset - owner->shared_base) / 64];
    const uint64_t mask = ((bytes == 64 ? 0 : 1ull << bytes) - 1) << (offset % 64);
    if (kind != AccessKind::Store && (word & mask) != mask)
      fault(kErrorLaunchFailure,
            "uninitialised " + describe(kind, "shared", bytes, offset) +
                ": nobody in the block has written it (is a __syncthreads or a cp.async wait "
                "missing?)",
            lane);
    if (kind != AccessKind::Load) word |= mask;
  }
  if (checks.shared_races) check_shared(w, *owner, offset, bytes, lane, kind, flags);
  return owner->shared.data() + (offset - owner->shared_base);
}

// A block's shared memory may be touched from others after it has started and before it leaves.
void require_reachable(Warp& w, Block& owner, int lane, const std::string& access) {
  const std::string by = access + " by the block of rank " + std::to_string(w.block->rank);
  const std::string of = "the block of rank " + std::to_string(owner.rank);
  if (owner.finished) fault(kErrorIllegalAddress, by + ": " + of + " has already exited", lane);
  if (!owner.started || (w.launch->checks.shared_races && !knows_started(w, lane, owner.rank)))
    fault(kErrorIllegalAddress,
          by + ": " + of + (owner.started ? " may not have started" : " has not started") +
              "; a barrier of the cluster must come first",
          lane);
  const uint32_t here = cluster_warp(w);
  if (owner.remote_ticks.size() <= here) owner.remote_ticks.resize(here + 1, 0);
  owner.remote_ticks[here] = w.order.tick;
}

void count_shared(Warp& w, uint32_t active, const uint64_t address[32], uint32_t bytes,
                  AccessKind kind) {
  Counters& counters = *w.counters;
  if (kind == AccessKind::Load) {
    ++counters.shared_load_requests;
  } else {
    ++counters.shared_store_requests;
    if (kind == AccessKind::Atomic) ++counters.shared_atomics;
  }
  const uint32_t words = bytes <= 4 ? 1 : bytes / 4;
  if (is_contiguous(active, address, bytes)) {
    counters.shared_wavefronts += words;
    counters.shared_ideal_wavefronts += bytes < 4 ? 1 : words;
    if (w.trace) w.trace->shared(words);
    return;
  }
  // 8-byte accesses go half a warp at a time, 16-byte ones a quarter; a wavefront serves one word
  // of each of 32 banks.
  const int lanes_a_pass = static_cast<int>(32 / words);
  uint64_t ideal_words = 0, wavefronts = 0;
  for (int first = 0; first < 32; first += lanes_a_pass) {
    uint32_t seen[32 * 4];
    int count = 0;
    uint8_t depth[32] = {};
    for (int lane = first; lane < first + lanes_a_pass; ++lane) {
      if (!(active >> lane & 1)) continue;
      for (uint32_t k = 0; k < words; ++k) {
        const uint32_t word = static_cast<uint32_t>(address[lane] / 4) + k;
        if (std::find(seen, seen + count, word) != seen + count) continue;
        seen[count++] = word;
        ++depth[word % 32];
      }
    }
    wavefronts += *std::max_element(depth, depth + 32);
    ideal_words += static_cast<uint64_t>(count);
  }
  counters.shared_wavefronts += wavefronts;
  counters.shared_ideal_wavefronts += (ideal_words + 31) / 32;
  if (w.trace) w.trace->shared(wavefronts);
}

uint8_t* local_pointer(Warp& w, uint64_t address, uint32_t bytes, int lane) {
  const uint32_t size = w.launch->program->local_bytes;
  if (address + bytes > size)
    fault(kErrorIllegalAddress,
          "out-of-bounds local access of " + std::to_string(bytes) + " bytes at " +
              hexadecimal(address) + ": the thread has " + std::to_string(size) +
              " bytes of local memory",
          lane);
  if (address & (bytes - 1))
    fault(kErrorMisaligned, "misaligned local access at " + hexadecimal(address), lane);
  return w.local.data() + static_cast<size_t>(lane) * size + address;
}

const uint8_t* parameter_pointer(Warp& w, uint64_t address, uint32_t bytes, int lane) {
  if (address + bytes > w.launch->parameters.size())
    fault(kErrorIllegalAddress,
          "out-of-bounds access to kernel parameters at offset " + std::to_string(address), lane);
  return w.launch->parameters.data() + address;
}

const uint8_t* generic_pointer(Warp& w, uint64_t address, uint32_t bytes, int lane,
                               AccessKind kind) {
  if (in_window(address, kSharedWindow))
    return shared_pointer(w, address & 0xffffffffu, bytes, lane, kind, 0);
  if (in_window(address, kLocalWindow)) return local_pointer(w, address & 0xffffffffu, bytes, lane);
  if (in_window(address, kParamWindow))
    return parameter_pointer(w, address & 0xffffffffu, bytes, lane);
  Allocation& allocation = locate(w, address, bytes, lane, kind);
  return allocation.host + (address - allocation.address);
}

}  // namespace fusednorm::emulator
