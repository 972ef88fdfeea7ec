// SPDX-License-Identifier: Apache-2.0
// Handlers of ld and st, picked by decode_memory.cpp.
#pragma once

#include "memory_access.h"

namespace fusednorm::emulator {

inline uint32_t access_bytes(const Instruction& i) {
  return uint32_t{i.width} * i.count;
}

void execute_load(Warp& w, const Instruction& i, uint32_t active);
void execute_strong_load(Warp& w, const Instruction& i,
                         uint32_t active);  // volatile, relaxed, acquire
void execute_store(Warp& w, const Instruction& i, uint32_t active);
void execute_prefetch(Warp& w, const Instruction& i, uint32_t active);
void load_kernel_parameter(Warp& w, const Instruction& i, uint32_t active);
void load_slot(Warp& w, const Instruction& i, uint32_t active);
void store_slot(Warp& w, const Instruction& i, uint32_t active);

}  // namespace fusednorm::emulator
