// SPDX-License-Identifier: Apache-2.0
// Finds where lanes that part at a branch meet again: the immediate post-dominator in the
// control-flow graph.
#include <algorithm>

#include "program.h"

namespace fusednorm::emulator {
namespace {

bool ends_block(const Instruction& instruction) {
  return instruction.flow == Flow::Branch || instruction.flow == Flow::BranchTable ||
         instruction.flow == Flow::Exit;
}

}  // namespace

void find_reconvergence(std::vector<Instruction>& code) {
  const uint32_t size = static_cast<uint32_t>(code.size());
  std::vector<bool> leader(size + 1, false);
  leader[0] = true;
  for (uint32_t pc = 0; pc < size; ++pc) {
    const Instruction& instruction = code[pc];
    if (!ends_block(instruction)) continue;
    leader[pc + 1] = true;
    if (instruction.flow == Flow::Branch) leader[instruction.target] = true;
    for (uint32_t target : instruction.table) leader[target] = true;
  }
  std::vector<uint32_t> block_of(size), first, last;
  for (uint32_t pc = 0; pc < size; ++pc) {
    if (leader[pc]) {
      first.push_back(pc);
      last.push_back(pc);
    }
    block_of[pc] = static_cast<uint32_t>(first.size()) - 1;
    last.back() = pc;
  }
  const uint32_t blocks = static_cast<uint32_t>(first.size());
  const uint32_t end = blocks;  // a virtual block after every exit
  std::vector<std::vector<uint32_t>> successors(blocks), predecessors(blocks + 1);
  for (uint32_t block = 0; block < blocks; ++block) {
    const Instruction& instruction = code[last[block]];
    std::vector<uint32_t>& out = successors[block];
    if (instruction.flow == Flow::Branch) out.push_back(block_of[instruction.target]);
    for (uint32_t target : instruction.table) out.push_back(block_of[target]);
    if (instruction.flow == Flow::Exit) out.push_back(end);
    const bool falls_through = !ends_block(instruction) || (instruction.guard != kNone &&
                                                            instruction.flow != Flow::BranchTable);
    if (falls_through) out.push_back(block + 1);
    for (uint32_t successor : out) predecessors[successor].push_back(block);
  }
  // Post-order of the reversed graph from the virtual end, then Cooper, Harvey and Kennedy's
  // iteration.
  std::vector<uint32_t> order, number(blocks + 1, kNone);
  std::vector<std::pair<uint32_t, size_t>> stack{{end, 0}};
  std::vector<bool> seen(blocks + 1, false);
  seen[end] = true;
  while (!stack.empty()) {
    auto& [block, next] = stack.back();
    if (next < predecessors[block].size()) {
      const uint32_t predecessor = predecessors[block][next++];
      if (!seen[predecessor]) {
        seen[predecessor] = true;
        stack.push_back({predecessor, 0});
      }
    } else {
      number[block] = static_cast<uint32_t>(order.size());
      order.push_back(block);
      stack.pop_back();
    }
  }
  std::vector<uint32_t> dominator(blocks + 1, kNone);
  dominator[end] = end;
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = order.size(); i-- > 0;) {
      const uint32_t block = order[i];
      if (block == end) continue;
      uint32_t best = kNone;
      for (uint32_t successor : successors[block]) {
        if (dominator[successor] == kNone) continue;
        if (best == kNone) {
          best = successor;
          continue;
        }
        uint32_t other = successor;
        while (best != other) {
          while (number[best] < number[other]) best = dominator[best];
          while (number[other] < number[best]) other = dominator[other];
        }
      }
      if (best != dominator[block]) {
        dominator[block] = best;
        changed = true;
      }
    }
  }
  for (uint32_t block = 0; block < blocks; ++block) {
    Instruction& instruction = code[last[block]];
    if (instruction.flow != Flow::Branch && instruction.flow != Flow::BranchTable) continue;
    const uint32_t at = dominator[block];
    instruction.reconverge = at == kNone || at == end ? kNone : first[at];
  }
}

}  // namespace fusednorm::emulator
