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

// Basic blocks; the one after the last is a virtual block that follows every exit.
struct Graph {
  std::vector<uint32_t> first, last;  // instructions of a block
  std::vector<std::vector<uint32_t>> successors, predecessors;

  uint32_t end() const { return static_cast<uint32_t>(first.size()); }
};

Graph graph_of(const std::vector<Instruction>& code) {
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
  Graph graph;
  std::vector<uint32_t> block_of(size);
  for (uint32_t pc = 0; pc < size; ++pc) {
    if (leader[pc]) {
      graph.first.push_back(pc);
      graph.last.push_back(pc);
    }
    block_of[pc] = graph.end() - 1;
    graph.last.back() = pc;
  }
  graph.successors.resize(graph.end());
  graph.predecessors.resize(graph.end() + 1);
  for (uint32_t block = 0; block < graph.end(); ++block) {
    const Instruction& instruction = code[graph.last[block]];
    std::vector<uint32_t>& out = graph.successors[block];
    if (instruction.flow == Flow::Branch) out.push_back(block_of[instruction.target]);
    for (uint32_t target : instruction.table) out.push_back(block_of[target]);
    if (instruction.flow == Flow::Exit) out.push_back(graph.end());
    const bool falls_through = !ends_block(instruction) || (instruction.guard != kNone &&
                                                            instruction.flow != Flow::BranchTable);
    if (falls_through) out.push_back(block + 1);
    for (uint32_t successor : out) graph.predecessors[successor].push_back(block);
  }
  return graph;
}

// Blocks in post-order of the reversed graph, from the virtual end.
std::vector<uint32_t> reversed_post_order(const Graph& graph) {
  std::vector<uint32_t> order;
  std::vector<std::pair<uint32_t, size_t>> stack{{graph.end(), 0}};
  std::vector<bool> seen(graph.end() + 1, false);
  seen[graph.end()] = true;
  while (!stack.empty()) {
    auto& [block, next] = stack.back();
    if (next < graph.predecessors[block].size()) {
      const uint32_t predecessor = graph.predecessors[block][next++];
      if (!seen[predecessor]) {
        seen[predecessor] = true;
        stack.push_back({predecessor, 0});
      }
    } else {
      order.push_back(block);
      stack.pop_back();
    }
  }
  return order;
}

// The immediate post-dominator of each block, by Cooper, Harvey and Kennedy's iteration.
std::vector<uint32_t> post_dominators(const Graph& graph) {
  const std::vector<uint32_t> order = reversed_post_order(graph);
  std::vector<uint32_t> number(graph.end() + 1, kNone), dominator(graph.end() + 1, kNone);
  for (uint32_t i = 0; i < order.size(); ++i) number[order[i]] = i;
  dominator[graph.end()] = graph.end();
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = order.size(); i-- > 0;) {
      const uint32_t block = order[i];
      if (block == graph.end()) continue;
      uint32_t best = kNone;
      for (uint32_t successor : graph.successors[block]) {
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
  return dominator;
}

}  // namespace

void find_reconvergence(std::vector<Instruction>& code) {
  const Graph graph = graph_of(code);
  const std::vector<uint32_t> dominator = post_dominators(graph);
  for (uint32_t block = 0; block < graph.end(); ++block) {
    Instruction& instruction = code[graph.last[block]];
    if (instruction.flow != Flow::Branch && instruction.flow != Flow::BranchTable) continue;
    const uint32_t at = dominator[block];
    instruction.reconverge = at == kNone || at == graph.end() ? kNone : graph.first[at];
  }
}

}  // namespace fusednorm::emulator
