// SPDX-License-Identifier: Apache-2.0
// The order in which a pass takes up its rows: chunk by chunk, segment by segment, row by row.
#pragma once

#include <algorithm>

#include "cpu/plan/segments.h"

namespace fusednorm::cpu {

/// Where a pass is. Counters, not divisions: those would cost as much as a hundred columns.
struct Cursor {
  const Segments& segments;
  std::int64_t chunk;  ///< columns of a whole one
  std::int64_t row;
  std::int64_t segment = 0;
  std::int64_t column = 0;
  std::int64_t length = 0;  ///< columns of this chunk
  bool first = true;        ///< in its segment
  bool last = false;

  Cursor(const Segments& cut, std::int64_t columns, std::int64_t first_row)
      : segments(cut), chunk(columns), row(first_row) {
    enter();
  }

  bool first_segment() const { return segment == 0; }
  bool last_segment() const { return segment == segments.count - 1; }

  void advance() {
    column += length;
    first = last;
    if (last && ++segment == segments.count) {
      segment = 0;
      column = 0;
      ++row;
    }
    enter();
  }

 private:
  /// The last chunk takes up to a granule more, so that none is shorter than a vector.
  void enter() {
    const std::int64_t left = segments.end(segment) - column;
    last = left <= chunk + segment_granule;
    length = last ? left : chunk;
  }
};

/// The columns [begin, end) that the write pass takes at a cursor. It moves its chunks by `shift`
/// columns, so that they begin with whole cache lines of its output.
struct Span {
  std::int64_t begin;
  std::int64_t end;

  /// The row's last segment may be shorter than the shift: then nothing is left of it, nor of the
  /// end of the chunk before.
  Span(const Cursor& at, std::int64_t shift)
      : begin(at.column == 0 ? 0 : std::min(at.column + shift, at.segments.cols)),
        end(at.last && at.last_segment()
                ? at.segments.cols
                : std::min(at.column + at.length + shift, at.segments.cols)) {}
};

/// The chunks of a segment of n columns: the last takes up to a granule more.
constexpr std::int64_t chunks_in(std::int64_t n, std::int64_t chunk) {
  return n <= chunk + segment_granule ? 1 : (n - segment_granule - 1) / chunk + 1;
}

/// The chunks of a row.
constexpr std::int64_t chunks_of(const Segments& segments, std::int64_t chunk) {
  const std::int64_t last = segments.count - 1;
  return last * chunks_in(segments.length, chunk) +
         chunks_in(segments.cols - segments.begin(last), chunk);
}

/// Where the last one begins.
constexpr std::int64_t last_chunk_of(const Segments& segments, std::int64_t chunk) {
  const std::int64_t begin = segments.begin(segments.count - 1);
  return begin + (chunks_in(segments.cols - begin, chunk) - 1) * chunk;
}

}  // namespace fusednorm::cpu
