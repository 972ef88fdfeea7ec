// SPDX-License-Identifier: Apache-2.0
// Races in global memory between warps of one launch, of one block or of several; order.h says what
// orders accesses. Two accesses of different warps to the same bytes, one of them a write, not both
// strong, are a race unless the later warp knows of the earlier access. Lanes of one warp are not
// told apart. Of the reads of a line of 128 bytes that stand beside each other, the first
// kMostReaders are remembered.
//
// Programmatic dependent launch: before griddepcontrol.wait, what an unfinished earlier launch of
// the stream stores or loads is not to be touched; followed by sectors of 32 bytes.
#pragma once

#include <cstdint>

namespace fusednorm::emulator {

struct Allocation;
struct Warp;
enum class AccessKind : uint8_t;

// Checks and remembers an access of these lanes, all inside the allocation; contiguous: 32 lanes
// one behind the other.
void check_global(Warp& w, Allocation& allocation, uint32_t lanes, const uint64_t address[32],
                  uint32_t bytes, bool contiguous, AccessKind kind, uint8_t flags);

}  // namespace fusednorm::emulator
