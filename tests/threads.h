// SPDX-License-Identifier: Apache-2.0
// Ways to run tasks that the tests own: real threads that ThreadSanitizer sees into, and orders
// that no default would choose.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "data.h"
#include "fusednorm/cpu.h"

namespace fusednorm::testing {

/// std::threads that take tasks as they come, from a queue in order or shuffled.
struct Threads {
  int threads = 1;
  std::uint64_t shuffle_seed = 0;  ///< 0: in order

  void operator()(std::int64_t tasks, cpu::Task body) const {
    std::vector<std::int64_t> queue(static_cast<std::size_t>(tasks));
    for (std::int64_t task = 0; task < tasks; ++task) {
      queue[task] = task;
    }
    for (std::int64_t task = tasks - 1; shuffle_seed != 0 && task > 0; --task) {
      std::swap(queue[task], queue[random_bits(shuffle_seed, task) % (task + 1)]);
    }
    std::atomic<std::int64_t> next{0};
    const auto work = [&] {
      for (std::int64_t at; (at = next.fetch_add(1)) < tasks;) {
        body(queue[at]);
      }
    };
    std::vector<std::thread> others;
    for (int thread = 1; thread < std::min<std::int64_t>(threads, tasks); ++thread) {
      others.emplace_back(work);
    }
    work();
    for (std::thread& other : others) {
      other.join();
    }
  }
};

}  // namespace fusednorm::testing
