// SPDX-License-Identifier: Apache-2.0
// Cuts the caller's workspace into aligned arrays; the same cuts size it (from null) and use it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fusednorm::cpu {

class Carver {
 public:
  static constexpr std::size_t alignment = 64;

  /// Sizing only: take() returns null and bytes() grows.
  Carver() = default;
  explicit Carver(void* workspace)
      : base_(reinterpret_cast<std::byte*>(
            (reinterpret_cast<std::uintptr_t>(workspace) + alignment - 1) / alignment *
            alignment)) {}

  template <typename T>
  T* take(std::int64_t count) {
    return static_cast<T*>(take_bytes(static_cast<std::size_t>(count) * sizeof(T)));
  }
  void* take_bytes(std::size_t bytes) {
    void* start = base_ ? base_ + used_ : nullptr;
    used_ += (bytes + alignment - 1) / alignment * alignment;
    return start;
  }

  /// What the caller must lend: room to align its address included.
  std::size_t bytes() const { return used_ == 0 ? 0 : used_ + alignment - 1; }

 private:
  std::byte* base_ = nullptr;
  std::size_t used_ = 0;
};

}  // namespace fusednorm::cpu
