// SPDX-License-Identifier: Apache-2.0
// The default parallel_for.
#include "fusednorm/cpu.h"

namespace fusednorm::cpu {

void OpenMP::operator()(std::int64_t tasks, Task body) const {
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (std::int64_t task = 0; task < tasks; ++task) body(task);
#else
  for (std::int64_t task = 0; task < tasks; ++task) body(task);
#endif
}

}  // namespace fusednorm::cpu
