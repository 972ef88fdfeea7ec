// SPDX-License-Identifier: Apache-2.0
// Checked access of a warp to global, shared, local and parameter memory: bounds, alignment, marks
// and counts.
#pragma once

#include <cstdint>

#include "block.h"
#include "launch.h"
#include "warp.h"

namespace fusednorm::emulator {

enum class AccessKind : uint8_t { Load, Store, Atomic };

// What an access is told about itself; flags of memory instructions.
enum AccessFlags : uint8_t {
  kStrong = 1,  // volatile, relaxed, acquire, release: takes part in no race
  kAcquire = 2,
  kRelease = 4,
  kVolatile = 8,
  kScopeMask = 0x30,     // a Scope, of a strong access
  kCopied = 0x40,        // bytes that nobody has written may be copied, but not read from the copy
  kNarrowAddress = 0x80  // the address register has 32 bits
};

constexpr int kScopeShift = 4;

void lane_addresses(Warp& w, const Instruction& i, uint32_t active, uint64_t out[32]);

// All lanes of `active` that lie in the allocation of the first one: checked, marked, not counted.
// Removes them from `active` and returns what to add to an address to get a host pointer.
struct GlobalSpan {
  uint8_t* host;  // of address 0: host + address
  uint32_t lanes;
  bool contiguous;  // 32 lanes one behind the other
  uint64_t first;   // address of lane 0, if contiguous
};
GlobalSpan global_span(Warp& w, uint32_t& active, const uint64_t address[32], uint32_t bytes,
                       AccessKind kind, uint8_t flags);
// `cached`: a load that may find its sectors in the first-level cache. Returns the sectors.
uint64_t count_global(Warp& w, uint32_t active, const uint64_t address[32], uint32_t bytes,
                      AccessKind kind, bool cached);
// Which of up to 32 bytes at a global address nobody has written.
uint32_t unwritten_bytes(Warp& w, uint64_t address, uint32_t bytes, int lane);
// A prefetch into the L2: the sectors that hold the addresses count as loaded from DRAM, and are
// returned. Nothing is read, so that nothing of it can race.
uint64_t prefetch_global(Warp& w, uint32_t active, const uint64_t address[32]);

// A pointer into the shared memory of the block that an address names.
uint8_t* shared_pointer(Warp& w, uint64_t address, uint32_t bytes, int lane, AccessKind kind,
                        uint8_t flags);
// Faults unless another block's shared memory may be touched now: it has started and not left.
void require_reachable(Warp& w, Block& owner, int lane, const std::string& access);
void count_shared(Warp& w, uint32_t active, const uint64_t address[32], uint32_t bytes,
                  AccessKind kind);
uint8_t* local_pointer(Warp& w, uint64_t address, uint32_t bytes, int lane);
const uint8_t* parameter_pointer(Warp& w, uint64_t address, uint32_t bytes, int lane);

// Reads a string or a value for printf and assert; generic address.
const uint8_t* generic_pointer(Warp& w, uint64_t address, uint32_t bytes, int lane,
                               AccessKind kind);

[[noreturn]] void fault(int error, const std::string& what, int lane);
std::string hexadecimal(uint64_t value);

// cudaError_t values the device raises.
constexpr int kErrorIllegalAddress = 700, kErrorTimeout = 702, kErrorAssert = 710,
              kErrorIllegalInstruction = 715, kErrorMisaligned = 716, kErrorLaunchFailure = 719;

}  // namespace fusednorm::emulator
