// SPDX-License-Identifier: Apache-2.0
// Traces: steps of warps while they run, statements and registers afterwards.
#include "trace.h"

#include "memory.h"
#include "program.h"

namespace fusednorm::emulator {

void WarpTrace::begin(uint32_t statement, uint32_t lanes) {
  // A loop around a wait: a device would have waited once.
  constexpr size_t kLongestSpin = 16;
  if (spin_ && steps.size() < spin_ + kLongestSpin && steps[spin_ - 1].statement == statement)
    steps.resize(spin_ - 1);
  spin_ = spin_ && steps.size() >= spin_ && steps.size() < spin_ + kLongestSpin ? spin_ : 0;
  FusednormEmulatorStep step{};
  step.statement = statement;
  step.lanes = lanes;
  steps.push_back(step);
}

void WarpTrace::global(const Allocation& allocation, uint64_t new_sectors) {
  const auto [found, added] =
      trace_.array_numbers.emplace(&allocation, static_cast<uint32_t>(trace_.arrays.size()));
  if (added) trace_.arrays.push_back({allocation.address, allocation.bytes});
  steps.back().array = found->second;
  steps.back().new_sectors += static_cast<uint32_t>(new_sectors);
}

void WarpTrace::sectors(uint64_t asked, uint64_t beyond_first_level) {
  steps.back().sectors += static_cast<uint32_t>(asked);
  steps.back().l2_sectors += static_cast<uint32_t>(beyond_first_level);
}

uint32_t WarpTrace::arrive(uint32_t& signal) {
  if (signal == 0) signal = ++trace_.signals;
  FusednormEmulatorStep& step = steps.back();
  if (step.arrives != 0 && step.arrives != signal) {
    FusednormEmulatorStep next{};
    next.statement = step.statement;
    next.lanes = step.lanes;
    next.continues = 1;
    steps.push_back(next);
  }
  steps.back().arrives = signal;
  return signal;
}

void Trace::finish(const Program& program) {
  std::map<uint32_t, uint32_t> numbers;
  for (const Instruction& i : program.code) texts.push_back(i.text);
  for (const uint32_t offset : program.operands)
    registers.push_back(
        numbers.emplace(offset, static_cast<uint32_t>(numbers.size())).first->second);
  register_count = static_cast<uint32_t>(numbers.size());
  for (size_t k = 0; k < program.code.size(); ++k) {
    const Instruction& i = program.code[k];
    FusednormEmulatorStatement statement{};
    statement.text = texts[k].c_str();
    statement.weight = i.cost;
    statement.target = i.flow == Flow::Branch ? i.target : FUSEDNORM_EMULATOR_NO_TARGET;
    statement.jumps = i.flow == Flow::Branch || i.flow == Flow::BranchTable || i.flow == Flow::Exit;
    statement.reads = i.operand_reads;
    statement.writes = i.operand_writes;
    statement.registers = registers.data() + i.operands;
    statements.push_back(statement);
  }
  for (const WarpTrace& warp : warps)
    listed.push_back(
        {warp.cluster, warp.block, warp.rank, warp.warp, warp.steps.size(), warp.steps.data()});
}

}  // namespace fusednorm::emulator
