// Happens-before between blocks, through fences and atomics on global memory; see global_races.cpp for the rules.
#pragma once

#include <cstdint>

#include "warp.h"

namespace fusednorm::emulator {

void release_fence(Warp& w);

// An atomic (or volatile, acquire, release) access to a global address: publishes and learns.
void synchronise_at(Warp& w, uint64_t address, bool writes);

}  // namespace fusednorm::emulator
