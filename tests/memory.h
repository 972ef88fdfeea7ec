// SPDX-License-Identifier: Apache-2.0
// Memory for a test: allocations whose every byte is known before a run, so that a stray write
// shows wherever it lands, and arrays as places in them, so that any backend can copy them to where
// it computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "fusednorm/dtype.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace fusednorm::testing {

/// As f16, bf16, f32 and f64: large, finite, and no result of any problem.
inline constexpr unsigned char poison = 0x7B;

/// Aligned bytes between two guard zones. Under AddressSanitizer the guards may be made
/// untouchable for reads as well.
class Allocation {
 public:
  static constexpr std::size_t alignment = 256;  // what cudaMalloc gives
  static constexpr std::size_t guard = 256;

  explicit Allocation(std::size_t payload) : payload_(payload), bytes_(make(size())) {
    std::memset(data(), poison, size());
  }
  Allocation(const Allocation& other) : payload_(other.payload_), bytes_(make(other.size())) {
    std::memcpy(data(), other.data(), size());
  }
  Allocation(Allocation&&) = default;
  Allocation& operator=(Allocation&&) = default;

  /// Guards included: [0, guard) and [guard + payload(), size()).
  std::byte* data() { return bytes_.get(); }
  const std::byte* data() const { return bytes_.get(); }
  std::size_t payload() const { return payload_; }
  std::size_t size() const { return guard + payload_ + guard; }

  void forbid_guards() {
#if defined(__SANITIZE_ADDRESS__)
    __asan_poison_memory_region(data(), guard);
    __asan_poison_memory_region(data() + guard + payload_, guard);
#endif
  }
  void allow_guards() {
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(data(), size());
#endif
  }

 private:
  struct Free {
    void operator()(std::byte* bytes) const {
      ::operator delete (bytes, std::align_val_t{alignment});
    }
  };
  static std::byte* make(std::size_t size) {
    return static_cast<std::byte*>(::operator new (size, std::align_val_t{alignment}));
  }

  std::size_t payload_;
  std::unique_ptr<std::byte, Free> bytes_;
};

/// Where an array begins: byte `offset` of allocation `allocation`. A negative one: a null pointer.
struct Place {
  int allocation = -1;
  std::size_t offset = 0;
  explicit operator bool() const { return allocation >= 0; }
};

struct Memory {
  std::vector<Allocation> allocations;

  /// Room for `elements` of dtype, `offset` elements past the alignment.
  Place allocate(DType dtype, std::int64_t elements, std::int64_t offset) {
    const std::size_t before = static_cast<std::size_t>(offset) * size_of(dtype);
    allocations.emplace_back(before + static_cast<std::size_t>(elements) * size_of(dtype));
    return {static_cast<int>(allocations.size()) - 1, Allocation::guard + before};
  }
  std::byte* at(Place place) {
    return place ? allocations[place.allocation].data() + place.offset : nullptr;
  }
  const std::byte* at(Place place) const {
    return place ? allocations[place.allocation].data() + place.offset : nullptr;
  }
};

}  // namespace fusednorm::testing
