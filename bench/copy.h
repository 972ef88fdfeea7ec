// SPDX-License-Identifier: Apache-2.0
// The roof of every measurement: a copy on all threads, shared by fusednorm-bench and the Python
// bench (which calls it by its C name).
#pragma once

#include <cstddef>

namespace fusednorm::bench {

/// A copy of at most this size stays in the calling thread, as the kernels do.
constexpr std::size_t single_thread_bytes = 64 << 10;

}  // namespace fusednorm::bench

extern "C" {

/// Copies on `threads` threads. `streaming` writes past the caches, in finer tasks, which is the
/// faster way for arrays that are larger than them.
void fusednorm_bench_copy(void* to, const void* from, std::size_t bytes, int threads,
                          int streaming);
}
