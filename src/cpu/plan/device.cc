// SPDX-License-Identifier: Apache-2.0
// Asks the machine what a plan needs to know of it.
#include <unistd.h>

#include <fstream>

#include "cpu/dispatch/kernels.h"
#include "fusednorm/cpu.h"
#include "hwy/targets.h"
#ifdef _OPENMP
#include <omp.h>
#endif

namespace fusednorm::cpu {
namespace {

/// The size of one last-level cache. The kernel's own listing comes first: sysconf adds up every
/// third-level cache of an AMD processor, of which a thread can use but one, and it says 0 or -1
/// where it does not know (in some containers, on other systems).
std::int64_t last_level_bytes(std::int64_t otherwise) {
  std::ifstream listed("/sys/devices/system/cpu/cpu0/cache/index3/size");
  std::int64_t kilobytes = 0;
  char unit = 0;
  if (listed >> kilobytes >> unit && kilobytes > 0 && unit == 'K') return kilobytes << 10;
  long bytes = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
  bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
  return bytes > 0 ? bytes : otherwise;
}

}  // namespace

std::string InstructionSet::name() const {
  if (highway_target == 0) return "none";
  return hwy::TargetName(highway_target);
}

std::vector<InstructionSet> instruction_sets() {
  std::vector<InstructionSet> sets;
  const std::int64_t usable = compiled_targets() & hwy::SupportedTargets();
  for (std::int64_t rest = usable; rest != 0; rest &= rest - 1) sets.push_back({rest & -rest});
  return sets;
}

// Highway numbers targets so that a lower bit is a better one.
InstructionSet best_instruction_set() {
  const std::int64_t usable = compiled_targets() & hwy::SupportedTargets();
  return {usable & -usable};
}

Device query() {
  Device device;
#ifdef _OPENMP
  device.threads = omp_get_max_threads();
#endif
  device.cache_shared = last_level_bytes(device.cache_shared);
  return device;
}

}  // namespace fusednorm::cpu
