// The order in which a kernel takes up the segments of its rows: as steps of a pipeline whose later
// stages trail the first.
#pragma once

#include <cstddef>

#include "cpu/policy.h"
#include "cpu/segments.h"

namespace fusednorm::cpu {

/// Part of a step's columns.
struct Piece {
  std::size_t n;
  bool last;
  explicit operator bool() const { return n > 0; }
};

/// Where a stage is: at one segment of a row. It runs segment by segment, then on to the next row.
/// Counters, not divisions: those would cost as much as a hundred columns.
struct Step {
  const Segments& segments;
  std::int64_t end;
  std::int64_t wait;  ///< steps that this stage is behind the first
  std::int64_t row;
  std::int64_t segment = 0;
  std::int64_t column = 0;
  std::int64_t length = 0;  ///< 0: nothing to do at this step
  int ring = 0;             ///< the row's place among three: no more are on their way at once
  int turn = 0;             ///< the step's place among two
  std::int64_t chunk;       ///< columns of a piece

  Step(const Segments& cut, std::int64_t row_begin, std::int64_t row_end, std::int64_t columns,
       std::int64_t lag)
      : segments(cut), end(row_end), wait(lag), row(row_begin), chunk(columns) {
    if (wait == 0) enter();
  }

  bool first_segment() const { return segment == 0; }
  bool last_segment() const { return segment == segments.count - 1; }

  void advance() {
    if (wait > 0) {
      if (--wait == 0) enter();
      return;
    }
    turn ^= 1;
    if (++segment == segments.count) {
      segment = 0;
      ++row;
      ring = ring == 2 ? 0 : ring + 1;
    }
    enter();
  }

  /// The chunk that begins `offset` columns into the segment. The last one takes up to a granule
  /// more, so that none is shorter than a vector.
  Piece piece(std::int64_t offset) const {
    const std::int64_t left = length - offset;
    if (left <= 0 || (offset > 0 && left <= segment_granule)) return {0, false};
    const bool last = left <= chunk + segment_granule;
    return {static_cast<std::size_t>(last ? left : chunk), last};
  }

 private:
  void enter() {
    column = segments.begin(segment);
    length = row < end ? segments.end(segment) - column : 0;
  }
};

}  // namespace fusednorm::cpu
