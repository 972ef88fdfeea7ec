// SPDX-License-Identifier: Apache-2.0
// Lanes of a warp that wait: for the others of a collective, for each other where branches meet, or
// in a loop for memory that never changes.
#include <cstring>

#include "block.h"
#include "lanes.h"
#include "launch.h"
#include "memory_access.h"
#include "race_checker.h"

namespace fusednorm::emulator {

bool Warp::collective_ready(const Instruction& i, uint32_t active) {
  const uint32_t* members = reg<uint32_t>(i.c);
  uint32_t common = kFullMask;
  for (int lane = 0; lane < 32; ++lane) common &= members[lane];
  if (common == kFullMask && active == alive) return true;
  bool ready = true;
  for_each_active(active, [&](int lane) {
    if (!(members[lane] >> lane & 1))
      fault(kErrorLaunchFailure,
            i.text + " with member mask " + hexadecimal(members[lane]) +
                ", in which the executing lane " + std::to_string(lane) + " is missing",
            lane);
    ready = ready && (members[lane] & alive & ~active) == 0;
  });
  return ready;
}

// Groups that wait for each other at one collective run it together; true if some did.
bool Warp::run_waiting_collectives() {
  const std::vector<Instruction>& code = launch->program->code;
  for (size_t k = 0; k < groups.size(); ++k) {
    if (groups[k].state != Group::State::AtCollective) continue;
    const Instruction& i = code[groups[k].pc];
    auto together = [&](const Group& group) {
      return group.state == Group::State::AtCollective &&
             (group.pc == groups[k].pc ||
              (i.flow == Flow::WarpBarrier && code[group.pc].flow == Flow::WarpBarrier));
    };
    uint32_t waiting = 0;
    for (const Group& group : groups)
      if (together(group)) waiting |= guarded(code[group.pc], group.mask);
    uint32_t able = 0;
    for (const Group& group : groups) {
      if (!together(group)) continue;
      const Instruction& at = code[group.pc];
      const uint32_t active = guarded(at, group.mask);
      const uint32_t* members = reg<uint32_t>(at.c);
      bool complete = true;
      for_each_active(active, [&](int lane) {
        complete = complete && (members[lane] & alive & ~waiting) == 0;
      });
      if (complete) able |= active;
    }
    if (!able) continue;
    current = &i;
    mask = able;
    i.handler(*this, i, able);
    order_lanes(*this, able);
    for (Group& group : groups)
      if (together(group) && (guarded(code[group.pc], group.mask) & ~able) == 0) {
        // `together` looks at the state of group k: leave that one for the end.
        if (&group != &groups[k]) {
          group.state = Group::State::Ready;
          ++group.pc;
        }
      }
    groups[k].state = Group::State::Ready;
    ++groups[k].pc;
    return true;
  }
  return false;
}

// Lanes that wait where they would meet others must not wait for ever (the others may spin on what
// they hold): let them go on alone. True if there were any.
bool Warp::release_waiting_lanes() {
  bool any = false;
  for (size_t k = 0; k < joins.size(); ++k) {
    Join& join = joins[k];
    if (join.arrived == 0 || join.arrived == join.expected) continue;
    Group group;
    group.pc = join.pc;
    group.mask = join.arrived;
    group.join = join.parent;
    join.expected &= ~join.arrived;
    join.arrived = 0;
    groups.push_back(group);
    any = true;
  }
  return any;
}

// A loop that comes back to a branch with the same registers while nobody has stored anything will
// do so for ever, unless another warp, block or the host changes memory.
void Warp::detect_spin(const Group& group) {
  const uint64_t stores_now = launch->stores();
  const uint32_t bytes = launch->program->register_bytes;
  if (snapshot_pc == group.pc && snapshot_mask == group.mask && snapshot_stores == stores_now &&
      snapshot.size() == bytes && std::memcmp(snapshot.data(), file, bytes) == 0) {
    yielded = true;
    spinning = true;
    return;
  }
  spinning = false;
  if (snapshot_pc == group.pc && snapshot_mask == group.mask) {
    snapshot_pc = kNone;
    // A loop that computes is looked at ever more rarely; one that waits while others store, as
    // often as before.
    spin_interval =
        snapshot_stores == stores_now ? std::min<uint64_t>(spin_interval * 2, 1u << 22) : 1024;
    next_spin_check = executed + spin_interval;
    return;
  }
  snapshot_pc = group.pc;
  snapshot_mask = group.mask;
  snapshot_stores = stores_now;
  snapshot.assign(file, file + bytes);
}

}  // namespace fusednorm::emulator
