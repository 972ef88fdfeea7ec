// SPDX-License-Identifier: Apache-2.0
// Loads in flight: how many bytes a warp has requested of global memory and not used yet, on a
// virtual clock. The model and its assumptions are in include/fusednorm_emulator.h.
//
// When a program is loaded, each instruction that reads or overwrites a register that may hold the
// result of a global load is marked, so that the others cost a test of one byte. Which load a
// register waits for is found by its place in a table; a move hands it on, for ptxas makes no
// instruction of a move.
#pragma once

#include <cstdint>
#include <vector>

namespace fusednorm::emulator {

struct Counters;
struct Instruction;
struct Launch;
struct Program;

// Instruction::in_flight. Any of them brings the warp's clock up to date before the handler runs,
// which LoadsInFlight::issue and complete need.
enum InFlightMark : uint8_t {
  kClockNeeded = 1,  // cp.async and its waits
  kGlobalLoad = 2,   // may load from global memory into its registers
  kCarries = 4,      // a move: its destination waits for what its source waits for
  kUsesLoad = 8      // reads a register that a load may have written
};

// Marks the instructions of a program and numbers the registers that may wait for a load. Each
// instruction has its registers listed in Program::loadable: first those it reads, then those it
// writes; afterwards only loadable ones are left, as numbers.
void mark_loads(Program& program);

// Of one warp. Clocks count quarters of a cycle, so that any number of warps on four schedulers
// gives whole numbers.
//
// What one warp issues and others wait for (cp.async.bulk and an mbarrier): at the copy, the
// barrier keeps ticket = issuer.issue(bytes) and issuer.arrival(ticket); a warp that passes the
// wait calls wait_until(arrival) and issuer.complete_at(ticket, clock()). Both instructions need
// kClockNeeded.
class LoadsInFlight {
 public:
  void start(const Launch& launch);
  // The warp has exited; waits for what is outstanding, and counts.
  void finish(Counters& counters);

  void advance(uint64_t warp_instructions) { clock_ += warp_instructions * slot_; }
  uint64_t clock() const { return clock_; }
  // The warp waits until then (a barrier's latest arrival), unless it is past it.
  void wait_until(uint64_t clock) { clock_ = clock > clock_ ? clock : clock_; }

  // A request of so many bytes; the ticket is never 0.
  uint64_t issue(uint64_t bytes);
  // The same, that nobody waits for.
  void issue_unawaited(uint64_t bytes) {
    const uint64_t ticket = issue(bytes);
    complete_at(ticket, arrival(ticket));
  }
  // The same, awaited by the first use of the registers that the load writes.
  void issue_load(const Instruction& instruction, uint64_t bytes);
  // When a request arrives; 0 if it has been completed.
  uint64_t arrival(uint64_t ticket) const;
  // The warp waits for a request, which ends with that. One that has ended is ignored.
  void complete(uint64_t ticket);
  // A request that another warp waited for ends at that warp's clock; this warp does not wait.
  void complete_at(uint64_t ticket, uint64_t clock);

  // Before an instruction with any InFlightMark but kClockNeeded alone: waits for what it reads.
  void before(const Instruction& instruction) {
    if (!outstanding_.empty()) settle(instruction);
  }

  uint64_t peak_bytes() const { return peak_bytes_; }

 private:
  struct Request {
    uint64_t ticket, issued, bytes;
    uint32_t registers;  // that wait for it
  };

  Request* find(uint64_t ticket);
  void end(Request* request, uint64_t clock);
  void settle(const Instruction& instruction);
  void overwrite(uint32_t loadable);

  const Program* program_ = nullptr;
  uint64_t clock_ = 0, slot_ = 4, latency_ = 0;
  uint64_t next_ticket_ = 1;
  uint64_t bytes_ = 0, peak_bytes_ = 0;
  uint64_t byte_quarters_ = 0;
  std::vector<Request> outstanding_;  // by ticket
  std::vector<uint64_t> awaited_by_;  // by loadable register: a ticket, or 0
};

}  // namespace fusednorm::emulator
