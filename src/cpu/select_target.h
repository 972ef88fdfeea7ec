// Highway's own dispatch remembers its choice in a global variable; here the caller names the
// target.
#pragma once

#include "hwy/highway.h"

namespace fusednorm::cpu {

/// Where `target` stands in a table that HWY_EXPORT makes. Static, for that depends on the targets
/// of the including file.
static inline size_t dispatch_index(int64_t target) {
  if ((HWY_TARGETS & (HWY_TARGETS - 1)) == 0) return 0;
  hwy::ChosenTarget chosen;
  chosen.Update(target);
  return chosen.GetIndex();
}

}  // namespace fusednorm::cpu

// The function for `target` that HWY_EXPORT(function) noted, or null when this build does not hold
// it.
#define FUSEDNORM_SELECT_TARGET(function, target) \
  (((target) & (HWY_TARGETS)) == 0                \
       ? nullptr                                  \
       : HWY_DISPATCH_TABLE(function)[::fusednorm::cpu::dispatch_index(target)])
