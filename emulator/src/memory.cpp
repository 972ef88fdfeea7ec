// SPDX-License-Identifier: Apache-2.0
// Device memory: allocations with an address of their own, what has been written, and what a launch
// has touched.
#include "memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "address_space.h"

namespace fusednorm::emulator {

namespace {
// Bits [begin, end) of the word that holds bit `begin`.
uint64_t word_mask(uint64_t begin, uint64_t end) {
  const uint64_t first = begin % 64;
  const uint64_t count = std::min<uint64_t>(64 - first, end - begin);
  return (count == 64 ? ~0ull : (1ull << count) - 1) << first;
}

std::string hex(uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}
}  // namespace

void AtomicBits::reset(uint64_t bits) {
  const uint64_t words = (bits + 63) / 64;
  if (words > capacity_) {
    words_.reset(new std::atomic<uint64_t>[words]);
    capacity_ = words;
  }
  bits_ = bits;
  for (uint64_t i = 0; i < words; ++i) words_[i].store(0, std::memory_order_relaxed);
}

bool AtomicBits::all(uint64_t begin, uint64_t end) const {
  return first_clear(begin, end) == end;
}

bool AtomicBits::any(uint64_t begin, uint64_t end) const {
  for (uint64_t at = begin; at < end && at < bits_; at = (at / 64 + 1) * 64)
    if (words_[at / 64].load(std::memory_order_relaxed) & word_mask(at, end)) return true;
  return false;
}

uint64_t AtomicBits::first_clear(uint64_t begin, uint64_t end) const {
  for (uint64_t at = begin; at < end; at = (at / 64 + 1) * 64) {
    const uint64_t missing = ~words_[at / 64].load(std::memory_order_relaxed) & word_mask(at, end);
    if (missing) return at / 64 * 64 + __builtin_ctzll(missing);
  }
  return end;
}

void AtomicBits::set(uint64_t begin, uint64_t end) {
  for (uint64_t at = begin; at < end; at = (at / 64 + 1) * 64) {
    const uint64_t mask = word_mask(at, end);
    std::atomic<uint64_t>& word = words_[at / 64];
    if (mask == ~0ull) {
      word.store(mask, std::memory_order_relaxed);
    } else if ((word.load(std::memory_order_relaxed) & mask) != mask) {
      word.fetch_or(mask, std::memory_order_relaxed);
    }
  }
}

void AtomicBits::set_where_clear_in(const AtomicBits& other, uint64_t begin, uint64_t end) {
  for (uint64_t at = begin; at < end; at = (at / 64 + 1) * 64) {
    const uint64_t mask =
        word_mask(at, end) & ~other.words_[at / 64].load(std::memory_order_relaxed);
    std::atomic<uint64_t>& word = words_[at / 64];
    if ((word.load(std::memory_order_relaxed) & mask) != mask)
      word.fetch_or(mask, std::memory_order_relaxed);
  }
}

uint64_t AtomicBits::count() const {
  uint64_t total = 0;
  for (uint64_t i = 0; i < (bits_ + 63) / 64; ++i)
    total += __builtin_popcountll(words_[i].load(std::memory_order_relaxed));
  return total;
}

Allocation::~Allocation() {
  if (host && owns_host) munmap(host, bytes ? bytes : 1);
}

void Allocation::mark_written(uint64_t offset, uint64_t size) {
  if (fully_written) return;
  if (offset == 0 && size == bytes) {
    fully_written = true;
  } else {
    written.set(offset, offset + size);
  }
}

Allocation* Memory::allocate(int device, uint64_t bytes, MemoryKind kind, uint64_t align) {
  std::lock_guard<std::mutex> lock(mutex_);
  void* host = mmap(nullptr, bytes ? bytes : 1, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (host == MAP_FAILED) return nullptr;
  auto allocation = std::make_unique<Allocation>();
  allocation->bytes = bytes;
  allocation->host = static_cast<uint8_t*>(host);
  allocation->device = device;
  allocation->kind = kind;
  if (kind == MemoryKind::Host || kind == MemoryKind::Managed) {
    allocation->address = reinterpret_cast<uint64_t>(host);
    allocation->fully_written = true;  // the host may have written it unseen
  } else {
    // Addresses are never used twice and lie apart, so an access past an end or after a free always
    // shows.
    uint64_t& next = next_address_[device];
    if (next == 0) next = kDeviceMemory + static_cast<uint64_t>(device) * kDeviceMemorySize + 512;
    allocation->address = (next + align - 1) / align * align;
    next = allocation->address + bytes + 512;
  }
  if (!allocation->fully_written) allocation->written.reset(bytes);
  if (kind == MemoryKind::Device) used_[device] += bytes;
  Allocation* result = allocation.get();
  allocations_[result->address] = std::move(allocation);
  return result;
}

Allocation* Memory::adopt_host(void* host, uint64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto allocation = std::make_unique<Allocation>();
  allocation->bytes = bytes;
  allocation->host = static_cast<uint8_t*>(host);
  allocation->address = reinterpret_cast<uint64_t>(host);
  allocation->kind = MemoryKind::Host;
  allocation->owns_host = false;
  allocation->fully_written = true;
  Allocation* result = allocation.get();
  allocations_[result->address] = std::move(allocation);
  return result;
}

bool Memory::free(uint64_t address) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = allocations_.find(address);
  if (found == allocations_.end() || found->second->freed) return false;
  Allocation& allocation = *found->second;
  if (allocation.kind == MemoryKind::Host || allocation.kind == MemoryKind::Managed) {
    allocations_.erase(found);  // the host's addresses are used again
    return true;
  }
  if (allocation.kind == MemoryKind::Device) used_[allocation.device] -= allocation.bytes;
  munmap(allocation.host, allocation.bytes ? allocation.bytes : 1);
  allocation.host = nullptr;
  allocation.freed = true;
  allocation.written.reset(0);
  allocation.shadow.reset();
  // Freed allocations are remembered for reports; a program that makes thousands gets its oldest
  // forgotten.
  constexpr size_t kRemembered = 512;
  if (allocations_.size() > kRemembered) {
    for (auto it = allocations_.begin(); it != allocations_.end();)
      it = it->second->freed ? allocations_.erase(it) : std::next(it);
  }
  return true;
}

Allocation* Memory::find(uint64_t address) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto after = allocations_.upper_bound(address);
  return after == allocations_.begin() ? nullptr : std::prev(after)->second.get();
}

Allocation* Memory::find_live(uint64_t address, uint64_t bytes) {
  Allocation* allocation = find(address);
  return allocation && !allocation->freed && allocation->contains(address, bytes) ? allocation
                                                                                  : nullptr;
}

uint64_t Memory::used(int device) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = used_.find(device);
  return found == used_.end() ? 0 : found->second;
}

std::string Memory::explain(uint64_t address, uint64_t bytes, int device) {
  const Allocation* below = find(address);
  if (!below || address - below->address > below->bytes + (1u << 20))
    return "no allocation is there (a host pointer, a null pointer or a wild one)";
  const std::string what =
      (below->name.empty() ? "the allocation of " : "the variable " + below->name + " of ") +
      std::to_string(below->bytes) + " bytes at " + hex(below->address);
  if (address + bytes > below->address + below->bytes) {
    const uint64_t end = below->address + below->bytes;
    return std::string(address >= end ? std::to_string(address - end) + " bytes past" : "across") +
           " the end of " + what + (below->freed ? ", already freed" : "");
  }
  if (below->freed) return "use after free: inside " + what + ", which has been freed";
  if (below->device != device) return what + " belongs to device " + std::to_string(below->device);
  if (below->kind == MemoryKind::Constant) return what + " is constant";
  return "inside " + what;
}

std::map<const Allocation*, Memory::Touched> Memory::take_marks(uint64_t launch) {
  std::scoped_lock lock(mutex_, touch_mutex_);
  std::map<const Allocation*, Touched> out;
  for (const auto& [address, allocation] : allocations_) {
    if (allocation->freed || allocation->touched_by.load(std::memory_order_relaxed) != launch)
      continue;
    Touched& touched = out[allocation.get()];
    touched.stored = std::move(allocation->stored);
    touched.loaded = std::move(allocation->loaded_first);
    allocation->stored = AtomicBits();
    allocation->loaded_first = AtomicBits();
    allocation->touched_by.store(0, std::memory_order_relaxed);
  }
  return out;
}

void Memory::begin_touch(Allocation& allocation, uint64_t launch, bool shadow) {
  std::lock_guard<std::mutex> lock(touch_mutex_);
  if (allocation.touched_by.load(std::memory_order_relaxed) == launch) return;
  const uint64_t sectors =
      (allocation.bytes + 31) / 32 + 1;  // one more: host memory need not start on a sector
  allocation.loaded_first.reset(sectors);
  allocation.stored.reset(sectors);
  if (shadow && !allocation.shadow) allocation.shadow = GlobalShadow::make(allocation.bytes);
  touched_[launch].push_back(&allocation);
  allocation.touched_by.store(launch, std::memory_order_release);
}

std::vector<Allocation*> Memory::end_launch(uint64_t launch) {
  std::lock_guard<std::mutex> lock(touch_mutex_);
  std::vector<Allocation*> out = std::move(touched_[launch]);
  touched_.erase(launch);
  for (Allocation* allocation : out)
    if (allocation->shadow) allocation->shadow->end_launch(launch);
  return out;
}

}  // namespace fusednorm::emulator
