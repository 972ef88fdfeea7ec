// SPDX-License-Identifier: Apache-2.0
// Copies an array in even tasks of whole cache lines, with plain or with streaming stores.
#include "copy.h"

#include <cstdint>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace {

void streaming_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__SSE2__)
  const std::size_t head = (16 - reinterpret_cast<std::uintptr_t>(to) % 16) % 16;
  if (bytes < 64 + head) {
    std::memcpy(to, from, bytes);
    return;
  }
  std::memcpy(to, from, head);
  std::size_t i = head;
  for (; i + 64 <= bytes; i += 64) {
    for (std::size_t part = 0; part < 64; part += 16) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i + part),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i + part)));
    }
  }
  std::memcpy(to + i, from + i, bytes - i);
  _mm_sfence();
#else
  std::memcpy(to, from, bytes);
#endif
}

}  // namespace

void fusednorm_bench_copy(void* to, const void* from, std::size_t bytes, int threads,
                          int streaming) {
  const bool wake = threads > 1 && bytes > fusednorm::bench::single_thread_bytes;
  const int tasks = wake ? threads * (streaming ? 4 : 1) : 1;
  const auto begin_of = [&](int task) {
    const auto count = static_cast<std::size_t>(tasks);
    return task == tasks ? bytes : bytes / count * static_cast<std::size_t>(task) / 64 * 64;
  };
#if defined(_OPENMP)
#pragma omp parallel for num_threads(threads) schedule(static) if (wake)
#endif
  for (int task = 0; task < tasks; ++task) {
    const std::size_t begin = begin_of(task), size = begin_of(task + 1) - begin;
    auto* target = static_cast<std::byte*>(to) + begin;
    const auto* source = static_cast<const std::byte*>(from) + begin;
    if (streaming)
      streaming_copy(target, source, size);
    else
      std::memcpy(target, source, size);
  }
}
