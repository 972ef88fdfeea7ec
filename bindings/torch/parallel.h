// SPDX-License-Identifier: Apache-2.0
// PyTorch's threads, without a second OpenMP runtime.
//
// at::parallel_for lives in a header and runs on the OpenMP runtime of the library that includes
// it. Many wheels of PyTorch carry one under a name of their own (libgomp-a34b3233.so.1): the
// system's would be loaded beside it, with threads that torch.set_num_threads does not know. So no
// OpenMP is compiled or linked here. GOMP_parallel, which GNU's, LLVM's and Intel's runtimes all
// export, is found at load time in the runtime that libtorch_cpu itself needs.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>

#if AT_PARALLEL_OPENMP
// Weak: no library that we name has them, and a PyTorch without a runtime leaves them null.
extern "C" {
[[gnu::weak]] void GOMP_parallel(void (*body)(void*), void* argument, unsigned threads,
                                 unsigned flags);
[[gnu::weak]] int omp_get_num_threads();
[[gnu::weak]] int omp_get_thread_num();
}
#endif

namespace fusednorm::operators {

/// Calls body(0) ... body(tasks - 1), each once, on as many threads as PyTorch offers. The body
/// must not throw.
template <typename Body>
void parallel_for(int64_t tasks, const Body& body) {
  const auto serial = [&] {
    for (int64_t task = 0; task < tasks; ++task) body(task);
  };
  if (tasks <= 1 || at::in_parallel_region() || at::get_num_threads() <= 1) return serial();
#if AT_PARALLEL_OPENMP
  if (&GOMP_parallel == nullptr || &omp_get_num_threads == nullptr ||
      &omp_get_thread_num == nullptr) {
    return serial();
  }
  struct Team {
    int64_t tasks;
    const Body& body;
    static void member(void* argument) noexcept {
      const auto& team = *static_cast<const Team*>(argument);
      // Neighbouring tasks on one thread, as at::parallel_for deals them out.
      const int64_t threads = std::min<int64_t>(omp_get_num_threads(), team.tasks);
      const int64_t share = (team.tasks + threads - 1) / threads;
      const int64_t begin = omp_get_thread_num() * share;
      const int64_t end = std::min(begin + share, team.tasks);
      for (int64_t task = begin; task < end; ++task) team.body(task);
    }
  };
  Team team{tasks, body};
  // 0 threads: as many as omp_set_num_threads, which torch.set_num_threads calls, has said.
  GOMP_parallel(&Team::member, &team, 0, 0);
#else
  at::parallel_for(0, tasks, /*grain_size=*/1, [&](int64_t begin, int64_t end) {
    for (auto task = begin; task < end; ++task) body(task);
  });
#endif
}

}  // namespace fusednorm::operators
