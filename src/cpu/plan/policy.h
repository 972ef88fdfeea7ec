// SPDX-License-Identifier: Apache-2.0
// The numbers that plans and kernels of the CPU backend are tuned with, each with the arithmetic or
// the measurement behind it. None changes a result, but for those that say "decides bits".
#pragma once

#include <algorithm>
#include <cstdint>

#include "fusednorm/dtype.h"

namespace fusednorm::cpu::policy {

// --- How work is divided -----------------------------------------------------------------------

/// Waking a thread costs about 5 us; at 10 GB/s a core that is 50 KB. Below twice that, none is
/// woken.
inline constexpr std::int64_t calling_thread_bytes = 100 << 10;

/// More tasks than threads, so that a thread that is held up delays only a little of the work.
inline constexpr std::int64_t tasks_per_thread = 4;

/// A task of fewer bytes costs more to hand out than to run.
inline constexpr std::int64_t task_bytes = 64 << 10;

/// Columns past which a row no longer stays in one core's cache between its passes (x and dy in
/// f32: 512 KiB), so that threads share a row; in forward only if rows are few, see below. Decides
/// the order of dgamma's sum, and so bits: shape only.
inline constexpr std::int64_t shared_row_cols = 1 << 16;

/// Forward, where it decides no bits, with rows enough for all threads: they share a row only if
/// its x has more bytes than this, a core's part of a last-level cache. Below that a row to a
/// thread was 1.2 to 1.6 times as fast, for no thread waits for another.
inline constexpr std::int64_t shared_row_bytes = 2 << 20;

/// Rows whose chunks are written together when threads share rows.
inline constexpr std::int64_t max_shared_rows = 8;

/// A group of shared rows is read twice, and stays between in this part (one over it) of the shared
/// cache. For x alone a quarter was 7 % faster than an eighth; for x and dy it was 10 % slower.
inline constexpr std::int64_t forward_group_share = 4;
inline constexpr std::int64_t backward_group_share = 8;

// --- Column sums (dgamma, dbeta) ---------------------------------------------------------------

/// Rows summed plainly before the sum goes into a compensated pair: the error of dgamma is that of
/// 128 additions, whatever the number of rows. Decides bits: constant.
inline constexpr std::int64_t rows_per_sum = 128;

/// Blocks of rows with partial sums of their own. Enough for 32 threads; their partial sums within
/// 256 KiB where 16 blocks fit that; at least 16 rows each, so that gathering costs under 1/16 of
/// the work; one block where threads share rows, or where the problem is too small to share.
/// Decides bits: shape only.
inline constexpr std::int64_t max_row_blocks = 32;
inline constexpr std::int64_t min_row_blocks = 16;
inline constexpr std::int64_t partial_bytes = 256 << 10;
inline constexpr std::int64_t min_rows_per_block = 16;
inline constexpr std::int64_t one_block_elements = 16 << 10;

constexpr std::int64_t row_blocks(std::int64_t rows, std::int64_t cols, DType compute) {
  if (cols == 0 || cols > shared_row_cols || rows <= one_block_elements / cols) return 1;
  const std::int64_t block_bytes = 2 * cols * static_cast<std::int64_t>(size_of(compute));
  const std::int64_t fit = std::clamp(partial_bytes / block_bytes, min_row_blocks, max_row_blocks);
  return std::clamp<std::int64_t>(rows / min_rows_per_block, 1, fit);
}

// --- How much one pass takes before the other continues ----------------------------------------

/// A chunk, in the compute type. Ends of loops cost 20 to 30 cycles each; 4 KiB spread them over
/// 128 vectors, and are short enough for reads and writes to overlap: a copy in two passes loses a
/// fifth with 16 KiB. In backward, the columns that a chain of additions takes. Decides bits:
/// constant.
inline constexpr std::int64_t chunk_bytes = 4 << 10;

/// Length of the constant arrays that stand for an absent gamma or beta, and the longest row that
/// forward takes whole: a chunk of 16-bit elements.
inline constexpr std::int64_t max_constants = chunk_bytes / 2;

/// Rows of at most so many bytes are taken four at a time, and their statistics found in vectors of
/// rows: from sums to rstd it is some 60 cycles of latency, as long as the work on 256 columns of
/// f32. Four such rows are a chunk.
inline constexpr std::int64_t narrow_bytes = 1024;
inline constexpr std::int64_t rows_at_once = 4;

/// Rows between their add pass and their write pass where kernels add themselves: those of this
/// pass and of the next. A power of two.
constexpr std::int64_t rows_in_ring(std::int64_t row_bytes) {
  return row_bytes <= narrow_bytes ? 2 * rows_at_once : 2;
}

// --- Rows that are not simply one after another, and rows between passes ------------------------

/// Rows that a kernel takes at once without a loss: filling and draining its pipeline costs about
/// one row more.
inline constexpr std::int64_t min_run = 8;

/// Elements of an array in a tile of rows that is taken run by run: x, dy and dx of it in f32 are
/// 768 KiB, in 16 bits 384 KiB, which leaves room in a second-level cache for the next tile. Twice
/// as many where runs would be shorter than min_run. Decides bits: constant.
inline constexpr std::int64_t tile_elements = 1 << 16;
inline constexpr std::int64_t max_tile_elements = 2 * tile_elements;

/// Bytes of rows that are kept between an add pass and the passes of a norm. With half a
/// first-level cache the change from pass to pass costs too much; the second-level cache holds
/// more, but not while rows stream through it.
inline constexpr std::int64_t kept_bytes = 32 << 10;

/// Rows of more bytes are not kept aside for the norm: it reads the sum where it is stored.
inline constexpr std::int64_t longest_kept_bytes = 256 << 10;

// --- Cache ---------------------------------------------------------------------------------------

inline constexpr std::int64_t cache_line = 64;
inline constexpr std::int64_t first_level_bytes = 32 << 10;

/// Outputs are streamed past the cache when everything read and written is more than this part (one
/// over it) of the shared cache: half, since little of it would still be there when it is read.
inline constexpr std::int64_t streaming_share = 2;

/// Prefetch distance of f32, f64 and forward. 8 KiB are 500 ns at 16 bytes per nanosecond and core;
/// 2 KiB lost a tenth.
inline constexpr std::int64_t prefetch_bytes = 8192;

/// Backward of 16-bit rows prefetches what it sums next but one, four rows on, and at least so many
/// bytes ahead in each of its two arrays: what a core reads in the 250 ns of one request.
inline constexpr std::int64_t backward_rows_ahead = 4;
inline constexpr std::int64_t backward_bytes_ahead = 2048;

/// Rows of heads are prefetched whole periods ahead: at least two, and at least so many bytes.
inline constexpr std::int64_t head_bytes_ahead = 4096;

/// A row's unaligned head is prefetched so many rows before it is written.
inline constexpr std::int64_t head_rows_ahead = 2;

// --- Arrays that go with the columns -------------------------------------------------------------

/// Padding in elements: whole vectors of every instruction set, and whole cache lines, so that no
/// two tasks write to one line.
inline constexpr std::int64_t sum_padding = 64;

constexpr std::int64_t padded(std::int64_t cols) {
  return (cols + sum_padding - 1) / sum_padding * sum_padding;
}

/// Elements of such an array, and where the odd columns begin in bf16 pairs. Not a multiple of 4
/// KiB where cols are one: lines of one column of gamma, both sums, and x and dy of two rows would
/// share the 8 ways that the first-level cache has for them.
constexpr std::int64_t room(std::int64_t cols) {
  return padded(cols) + 2 * sum_padding;
}
constexpr std::int64_t odd_columns(std::int64_t cols) {
  return padded(cols) / 2 + sum_padding;
}

}  // namespace fusednorm::cpu::policy
