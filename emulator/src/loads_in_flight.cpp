// SPDX-License-Identifier: Apache-2.0
// Loads in flight: marks of a program, and the clock and the requests of a warp.
#include "loads_in_flight.h"

#include <algorithm>
#include <map>

#include "counters.h"
#include "launch.h"
#include "program.h"

namespace fusednorm::emulator {

void mark_loads(Program& program) {
  // Registers that loads write, and those that moves bring them to.
  std::map<uint32_t, uint32_t> number;
  const std::vector<uint32_t> listed = std::move(program.loadable);
  bool changed = true;
  while (changed) {
    changed = false;
    for (const Instruction& i : program.code) {
      const auto reads = listed.begin() + i.loadable, writes = reads + i.reads;
      const bool carries =
          (i.in_flight & kCarries) &&
          std::any_of(reads, writes, [&](uint32_t reg) { return number.count(reg) != 0; });
      if (!carries && !(i.in_flight & kGlobalLoad)) continue;
      for (auto reg = writes; reg != writes + i.writes; ++reg)
        changed = number.emplace(*reg, static_cast<uint32_t>(number.size())).second || changed;
    }
  }
  program.loadable.clear();
  program.loadable_registers = static_cast<uint32_t>(number.size());
  for (Instruction& i : program.code) {
    const uint32_t begin = static_cast<uint32_t>(program.loadable.size());
    uint8_t kept[2] = {};
    auto reg = listed.begin() + i.loadable;
    for (int k = 0; k < i.reads + i.writes; ++k, ++reg) {
      const auto known = number.find(*reg);
      if (known == number.end()) continue;
      program.loadable.push_back(known->second);
      ++kept[k < i.reads ? 0 : 1];
    }
    i.loadable = begin;
    i.reads = kept[0];
    i.writes = kept[1];
    if (i.reads + i.writes == 0) {
      i.in_flight &= static_cast<uint8_t>(~kCarries);
    } else if (i.reads && !(i.in_flight & kCarries)) {
      i.in_flight |= kUsesLoad;
    }
  }
}

void LoadsInFlight::start(const Launch& launch) {
  program_ = launch.program;
  clock_ = bytes_ = peak_bytes_ = byte_quarters_ = 0;
  slot_ = std::max<uint64_t>(4, launch.resident_warps());
  latency_ = 4 * launch.load_latency;
  next_ticket_ = 1;
  outstanding_.clear();
  awaited_by_.assign(program_->loadable_registers, 0);
}

void LoadsInFlight::finish(Counters& counters) {
  while (!outstanding_.empty()) complete(outstanding_.front().ticket);
  counters.load_byte_quarters += byte_quarters_;
  counters.warp_quarters += clock_;
}

LoadsInFlight::Request* LoadsInFlight::find(uint64_t ticket) {
  for (Request& request : outstanding_)
    if (request.ticket == ticket) return &request;
  return nullptr;
}

uint64_t LoadsInFlight::arrival(uint64_t ticket) const {
  for (const Request& request : outstanding_)
    if (request.ticket == ticket) return request.issued + latency_;
  return 0;
}

void LoadsInFlight::end(Request* request, uint64_t clock) {
  byte_quarters_ += request->bytes * (clock - request->issued);
  bytes_ -= request->bytes;
  outstanding_.erase(outstanding_.begin() + (request - outstanding_.data()));
}

uint64_t LoadsInFlight::issue(uint64_t bytes) {
  outstanding_.push_back({next_ticket_, clock_, bytes, 0});
  bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, bytes_);
  return next_ticket_++;
}

void LoadsInFlight::issue_load(const Instruction& i, uint64_t bytes) {
  const uint32_t* const writes = program_->loadable.data() + i.loadable + i.reads;
  for (int k = 0; k < i.writes; ++k) overwrite(writes[k]);
  const uint64_t ticket = issue(bytes);
  for (int k = 0; k < i.writes; ++k) awaited_by_[writes[k]] = ticket;
  outstanding_.back().registers = i.writes;
}

void LoadsInFlight::complete(uint64_t ticket) {
  Request* const request = find(ticket);
  if (!request) return;
  wait_until(request->issued + latency_);
  end(request, clock_);
}

void LoadsInFlight::complete_at(uint64_t ticket, uint64_t clock) {
  Request* const request = find(ticket);
  if (request) end(request, std::max(clock, request->issued + latency_));
}

// The register no longer holds what it waited for. A load that nobody can use any more must still
// arrive before the register is written again.
void LoadsInFlight::overwrite(uint32_t loadable) {
  Request* const request = awaited_by_[loadable] ? find(awaited_by_[loadable]) : nullptr;
  awaited_by_[loadable] = 0;
  if (request && --request->registers == 0) complete(request->ticket);
}

void LoadsInFlight::settle(const Instruction& i) {
  const uint32_t* const reads = program_->loadable.data() + i.loadable;
  if (i.in_flight & kCarries) {
    // A move of what one load brings is no use. One that packs the results of several is.
    uint64_t carried = 0;
    bool several = false;
    for (int k = 0; k < i.reads; ++k) {
      const uint64_t ticket = awaited_by_[reads[k]];
      if (!ticket || !find(ticket)) continue;
      several = several || (carried && carried != ticket);
      carried = ticket;
    }
    if (!several) {
      for (int k = 0; k < i.writes; ++k) {
        const uint32_t reg = reads[i.reads + k];
        if (awaited_by_[reg] == carried && carried) continue;
        overwrite(reg);
        Request* const request = carried ? find(carried) : nullptr;
        if (!request) continue;
        awaited_by_[reg] = carried;
        ++request->registers;
      }
      return;
    }
  }
  for (int k = 0; k < i.reads; ++k) {
    uint64_t& ticket = awaited_by_[reads[k]];
    if (ticket) complete(ticket);
    ticket = 0;
  }
  if (i.in_flight & kCarries)
    for (int k = 0; k < i.writes; ++k) overwrite(reads[i.reads + k]);
}

}  // namespace fusednorm::emulator
