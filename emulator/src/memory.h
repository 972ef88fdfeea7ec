// SPDX-License-Identifier: Apache-2.0
// Device memory: allocations with an address of their own, what has been written, and what a launch
// has touched.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "counters.h"
#include "global_shadow.h"

namespace fusednorm::emulator {

enum class MemoryKind : uint8_t { Device, Host, Managed, Variable, Constant };

// A bit a byte (or a sector), set by several host threads at once.
class AtomicBits {
 public:
  void reset(uint64_t bits);  // all zero
  uint64_t size() const { return bits_; }
  bool all(uint64_t begin, uint64_t end) const;              // every bit of [begin, end)
  bool any(uint64_t begin, uint64_t end) const;              // one of them
  uint64_t first_clear(uint64_t begin, uint64_t end) const;  // end if none
  void set(uint64_t begin, uint64_t end);
  void set_where_clear_in(const AtomicBits& other, uint64_t begin, uint64_t end);
  uint64_t count() const;

 private:
  uint64_t bits_ = 0, capacity_ = 0;
  std::unique_ptr<std::atomic<uint64_t>[]> words_;
};

struct Allocation {
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint8_t* host = nullptr;
  int device = 0;
  MemoryKind kind = MemoryKind::Device;
  bool freed = false;
  std::string name;  // of a variable
  bool owns_host = true;
  bool fully_written = false;
  AtomicBits written;  // a bit a byte

  // Of the launch `touched_by`.
  std::atomic<uint64_t> touched_by{0};
  AtomicBits loaded_first, stored;
  std::unique_ptr<GlobalShadow> shadow;  // only where races are looked for

  ~Allocation();
  bool contains(uint64_t at, uint64_t size) const {
    return at >= address && at - address + size <= bytes;
  }
  void mark_written(uint64_t offset, uint64_t size);
};

// All allocations of all devices; host threads lock it to change it.
class Memory {
 public:
  Allocation* allocate(int device, uint64_t bytes, MemoryKind kind, uint64_t align = 512);
  Allocation* adopt_host(void* host, uint64_t bytes);  // cudaHostRegister
  // False if `address` is not the start of a live allocation.
  bool free(uint64_t address);
  // The allocation (live or freed) at or nearest below an address; nullptr if there is none.
  Allocation* find(uint64_t address);
  Allocation* find_live(uint64_t address, uint64_t bytes);
  uint64_t used(int device) const;
  // A sentence on why `bytes` at `address` are not accessible on `device`.
  std::string explain(uint64_t address, uint64_t bytes, int device);
  void begin_touch(Allocation& allocation, uint64_t launch,
                   bool shadow);                         // clears the launch's marks once
  std::vector<Allocation*> end_launch(uint64_t launch);  // what it has touched
  // The sectors that a launch touched, as far as no later one has touched the allocation.
  struct Touched {
    AtomicBits stored, loaded;
  };
  std::map<const Allocation*, Touched> take_marks(uint64_t launch);

 private:
  mutable std::mutex mutex_;
  std::mutex touch_mutex_;
  std::map<uint64_t, std::unique_ptr<Allocation>> allocations_;
  std::map<int, uint64_t> next_address_, used_;           // by device
  std::map<uint64_t, std::vector<Allocation*>> touched_;  // by launch
};

}  // namespace fusednorm::emulator
