// SPDX-License-Identifier: Apache-2.0
// What the statements of a traced kernel ask of a multiprocessor, and the order ptxas would give
// them.
#pragma once

#include <cstdint>
#include <vector>

#include "devices.h"
#include "fusednorm_emulator.h"

namespace fusednorm::cost {

enum class Kind : std::uint8_t {
  Free,  ///< no instruction: a move, a parameter
  Arithmetic,
  Branch,
  GlobalLoad,
  GlobalStore,
  SharedLoad,
  SharedStore,
  Shuffle,
  Barrier,      ///< of the block or the cluster, or an arrival at an mbarrier
  Wait,         ///< for an mbarrier or the cluster
  Prefetch,     ///< into the L2
  CopyAsync,    ///< cp.async
  CopyCommit,   ///< of a group of cp.async or bulk copies
  CopyWait,     ///< for groups
  CopySignal,   ///< cp.async.mbarrier.arrive
  BulkLoad,     ///< cp.async.bulk from global memory
  BulkStore,    ///< cp.async.bulk to global memory
  RemoteStore,  ///< st.async
  Fence,
  LaunchWait  ///< griddepcontrol.wait
};

/// Units of a quarter of a multiprocessor, each with its own width.
enum Pipe : std::uint8_t { kF32, kInteger, kF64, kSpecial, kMemory, kNoPipe, kPipes = kNoPipe };

struct StatementCost {
  Kind kind = Kind::Arithmetic;
  Pipe pipe = kNoPipe;
  bool releases = false;   ///< a barrier or fence that earlier stores must be seen before
  double slots = 1;        ///< issue slots
  double pipe_cycles = 0;  ///< that its unit is taken
  double latency = 0;      ///< until its result can be used; loads have theirs from the memory
};

/// By statement of the trace.
std::vector<StatementCost> costs_of(const FusednormEmulatorTrace& trace, const Gpu& gpu);

/// By statement: its place in the basic block once that is scheduled, and the block's first
/// statement.
struct Place {
  std::uint32_t rank = 0, block = 0;
};
std::vector<Place> schedule(const FusednormEmulatorTrace& trace,
                            const std::vector<StatementCost>& costs);

}  // namespace fusednorm::cost
