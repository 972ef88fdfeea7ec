// SPDX-License-Identifier: Apache-2.0
// A kernel decoded for execution: one Instruction a PTX statement, operands as offsets into a
// warp's register file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ptx.h"

namespace fusednorm::emulator {

struct Warp;
struct Instruction;

// Executes one instruction for the lanes in `active` (never empty).
using Handler = void (*)(Warp&, const Instruction&, uint32_t active);

// What the warp does after (or instead of) the handler.
enum class Flow : uint8_t {
  Next,         // run the handler, go on
  Branch,       // to `target`, lanes under a false guard fall through
  BranchTable,  // brx.idx
  Exit,
  Barrier,        // wait for the block (bar.sync, barrier, bar.red)
  BarrierArrive,  // bar.arrive: counted, not waited for
  Collective,     // waits for the lanes of its member mask (shfl.sync and its kin)
  WarpBarrier,    // bar.warp.sync: the same, lanes may be at different statements
  ClusterArrive,
  ClusterWait,
  Yield  // run the handler, then let other warps run (a load that may be a spin-wait)
};

constexpr uint32_t kNone = 0xffffffffu;
constexpr uint8_t kRelaxedArrive = 1;  // flags of barrier.cluster.arrive: orders no memory

struct Instruction {
  Handler handler = nullptr;
  Flow flow = Flow::Next;
  uint8_t cost = 1;            // in the counters: 0 for register moves, 10 for IEEE division
  uint8_t width = 0;           // bytes of one element in memory
  uint8_t count = 1;           // elements of a vector access
  uint8_t register_width = 0;  // bytes of the register that holds one element
  Space space = Space::Generic;
  bool guard_negated = false;
  uint8_t flags = 0;  // meaning is the handler's
  // Registers that may wait for a load, in Program::loadable: see loads_in_flight.h.
  uint8_t in_flight = 0;  // InFlightMark
  uint8_t reads = 0, writes = 0;
  uint32_t loadable = 0;
  // Every register, for traces: Program::operands, first those it reads, then those it writes.
  uint8_t operand_reads = 0, operand_writes = 0;
  uint32_t operands = 0;
  uint32_t guard = kNone;  // offset of a predicate
  uint32_t dst = kNone, dst2 = kNone;
  uint32_t a = kNone, b = kNone, c = kNone, d = kNone;  // offsets of source registers
  int64_t immediate = 0;
  uint32_t list[8] = {};  // registers of a vector operand
  uint32_t target = kNone;
  uint32_t reconverge = kNone;  // where lanes that part here meet again
  std::vector<uint32_t> table;  // BranchTable
  int line = 0;
  int location = -1;
  std::string text;
};

enum class Special : uint8_t {
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ,
  LaneId,
  WarpId,
  NwarpId,
  SmId,
  NsmId,
  GridId,
  LanemaskEq,
  LanemaskLe,
  LanemaskLt,
  LanemaskGe,
  LanemaskGt,
  ClusterIdX,
  ClusterIdY,
  ClusterIdZ,
  NclusterIdX,
  NclusterIdY,
  NclusterIdZ,
  ClusterCtaidX,
  ClusterCtaidY,
  ClusterCtaidZ,
  ClusterNctaidX,
  ClusterNctaidY,
  ClusterNctaidZ,
  ClusterCtarank,
  ClusterNctarank,
  IsExplicitCluster,
  DynamicSharedBytes,
  TotalSharedBytes,
  Envreg1,
  Envreg2,
  EnvregZero
};

struct Program {
  std::string name;
  const Function* function = nullptr;
  const Module* module = nullptr;
  std::vector<Instruction> code;
  uint32_t register_bytes = 0;
  struct Constant {
    uint32_t offset;
    uint8_t width;
    uint64_t low, high;
  };
  std::vector<Constant> constants;  // broadcast into the register file when a warp is made
  struct SpecialSlot {
    Special special;
    uint32_t offset;
    uint8_t width;
  };
  std::vector<SpecialSlot> specials;
  std::vector<uint32_t> loadable;  // Instruction::loadable
  uint32_t loadable_registers = 0;
  std::vector<uint32_t> operands;  // Instruction::operands
  int registers = -1;              // a thread; 0: unknown, -1: not asked yet
  uint32_t local_bytes = 0;        // a lane
  uint32_t shared_base = 0;        // the address of a block's first byte of shared memory
  uint32_t static_shared_bytes = 0;
  struct Parameter {
    uint32_t offset, bytes;
  };
  std::vector<Parameter> parameters;
  uint32_t parameter_bytes = 0;
};

// Gives the decoder the addresses of module variables (0: not found).
using SymbolResolver = std::function<uint64_t(const std::string&)>;

// Shared memory begins at `shared_base`, and variables are aligned relative to that, as ptxas does.
Program decode_program(const Module& module, const Function& kernel, const SymbolResolver& resolve,
                       uint32_t shared_base);

// Fills Instruction::reconverge of every branch with its immediate post-dominator.
void find_reconvergence(std::vector<Instruction>& code);

}  // namespace fusednorm::emulator
