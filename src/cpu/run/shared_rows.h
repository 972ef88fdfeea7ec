// SPDX-License-Identifier: Apache-2.0
// The order of work where threads share rows: groups of rows, segment by segment.
#pragma once

#include <algorithm>
#include <utility>

#include "cpu/plan/layout.h"
#include "hwy/cache_control.h"

namespace fusednorm::cpu {

/// A segment of a row in the compute type: y, dy, or dx.
struct KeptSegment {
  alignas(Carver::alignment) std::byte columns[max_segment(DType::f32) * 4];

  /// Where kernels see an array of which these are the columns from `column` on.
  void* array(std::int64_t column, std::int64_t element) {
    return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(columns) -
                                   static_cast<std::uintptr_t>(column * element));
  }
};
static_assert(max_segment(DType::f32) * 4 == max_segment(DType::f64) * 8, "of either type");

/// What is shared: `tasks` tasks take the segments of `rows` rows, `group` rows at a time. `now`
/// and `next` hold a value a row and segment of a group: [group, segments] each.
template <typename Sums>
struct SharedRows {
  std::int64_t rows, group, segments, tasks;
  Sums* now;
  Sums* next;
};

/// read(begin, end, segment, out) fills out[row - begin, segment] for a group's rows; then
/// merge(parts) makes a row's value of its segments', which is left in the first; then
/// write(begin, end, segment, sums) writes, unless `writes` is false. While the segments of one
/// group are written, those of the next are read, so that memory does both at once.
template <typename Sums, typename Read, typename Merge, typename Write>
void run_shared_rows(SharedRows<Sums> shared, bool writes, ParallelFor parallel_for,
                     const Read& read, const Merge& merge, const Write& write) {
  const std::int64_t tasks = shared.tasks, segments = shared.segments;
  const auto first = [&](std::int64_t task) { return split(segments, tasks, task); };
  const auto after = [&](std::int64_t row) { return std::min(row + shared.group, shared.rows); };
  parallel_for(tasks, [&](std::int64_t task) {
    for (std::int64_t s = first(task); s < first(task + 1); ++s) read(0, after(0), s, shared.now);
    hwy::FlushStream();
  });
  bool forwards = false;
  for (std::int64_t begin = 0; begin < shared.rows; begin += shared.group, forwards = !forwards) {
    const std::int64_t end = after(begin);
    if (!writes && end == shared.rows) return;
    for (std::int64_t row = 0; writes && row < end - begin; ++row)
      shared.now[row * segments] = merge(shared.now + row * segments);
    parallel_for(tasks, [&](std::int64_t index) {
      // Alternate direction: the last segments are still cached.
      const std::int64_t task = forwards ? index : tasks - 1 - index;
      for (std::int64_t i = first(task); i < first(task + 1); ++i) {
        const std::int64_t s = forwards ? i : first(task) + first(task + 1) - 1 - i;
        if (writes) write(begin, end, s, shared.now);
        if (end < shared.rows) read(end, after(end), s, shared.next);
      }
      hwy::FlushStream();
    });
    std::swap(shared.now, shared.next);
  }
}

}  // namespace fusednorm::cpu
