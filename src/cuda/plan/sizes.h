// SPDX-License-Identifier: Apache-2.0
// Sizes that kernels and plans must agree on, each with the arithmetic behind it.
#pragma once

#include <cstddef>

namespace fusednorm::cuda {

/// Threads of a block of the narrow forward kernel; 4 warps share one staging of gamma and beta.
inline constexpr int narrow_threads = 128;
/// Narrow forward rows: which parameters wait in shared memory, for the registers that the tile of
/// a lane takes. 16-bit rows have the least to load for each row in flight, so there more warps are
/// worth more than the loads: one tile instead of three leaves 16 warps a multiprocessor where
/// three would leave 12.
constexpr bool narrow_keeps_beta(int tile_registers, std::size_t element) {
  return tile_registers > (element == 4 ? 12 : 16);
}
constexpr bool narrow_keeps_gamma(int tile_registers, std::size_t element) {
  return tile_registers > (element == 2 ? 16 : 32);
}
/// Blocks of narrow_threads that fit a multiprocessor's 64 K registers: 4 at 128 registers a thread
/// where that is enough for the tiles, 16-bit words as loaded and a residual, else 3 at 168.
constexpr int narrow_blocks(int tile_registers, std::size_t element) {
  return tile_registers <= (element == 2 ? 32 : element == 4 ? 16 : 8) ? 4 : 3;
}
/// Whether that leaves registers for the row after the one that is worked on, as it was stored:
/// where there are no copies to shared memory it is loaded there.
constexpr bool narrow_spares_registers(int tile_registers) {
  return tile_registers < 40;
}
/// Wide forward rows: beta waits in shared memory where rows are ragged or have clusters, and in
/// whole rows of 16 bits whose lanes hold 32 columns, since the words as loaded take registers,
/// too. So does gamma in ragged rows of clusters, and in f64.
constexpr bool wide_keeps_beta(std::size_t element, int vectors, bool clustered) {
  return clustered || (element == 2 && vectors > 3);
}
constexpr bool wide_keeps_gamma(std::size_t element, bool clustered, bool whole) {
  return !whole && (element == 8 || clustered);
}
/// A block of the kernels for rows that are read twice: 168 registers a thread, for three tiles and
/// the way through a row of any length.
inline constexpr int long_threads = 384;
/// Most threads of a block that works on one row: 512 leave each 128 of 64 K registers.
inline constexpr int wide_threads = 512;
/// Of a backward block whose lanes hold more than usual, or with rows of several warps in a
/// backward from y: 128 registers do not suffice there; 384 threads leave each 168.
inline constexpr int stretched_threads = 384;
/// Threads of a backward block, for the registers that the tile of a lane takes: x, dy, gamma and
/// both column sums are five such.
constexpr int backward_threads(int tile_registers) {
  return tile_registers <= 16 ? wide_threads : stretched_threads;
}
/// Whether gamma waits in shared memory: of 168 registers four tiles of 24 leave enough for the
/// rest, five do not.
constexpr bool backward_keeps_gamma(int tile_registers) {
  return tile_registers > 20;
}
/// A block of a cluster has fewer: addressing other blocks' memory takes registers, and of the
/// kernels for whole rows two such blocks fit a multiprocessor, so that one works while the other
/// waits.
inline constexpr int cluster_threads = 256;
/// Blocks in a cluster that every device with clusters can schedule, and at most: some devices
/// schedule 16, where kernels ask for it.
inline constexpr int portable_cluster_blocks = 8;
inline constexpr int max_cluster_blocks = 16;
/// Segments of a row that a cluster of so many blocks can hold, a warp each.
constexpr int cluster_segments(int blocks) {
  return blocks * (cluster_threads / 32);
}
/// The most, for the size of an element: f64 rows have no clusters of 16, for their moments would
/// take twice the static shared memory of all others.
constexpr int max_cluster_segments(std::size_t element) {
  return cluster_segments(element == 8 ? portable_cluster_blocks : max_cluster_blocks);
}
/// Segments of a row that a block can hold.
inline constexpr int max_block_segments = wide_threads / 32;
/// Static shared memory of a kernel that has dynamic shared memory as well: at most this. Two sets
/// of 64 segments' moments in f64, or of 128 in f32, and their mbarriers.
inline constexpr int most_static_bytes = (4 << 10) + 32;

/// Of the kernel that gives a forward row a block: two sets of moments, four numbers a segment, and
/// what is beside them, in whole 128 bytes as the device gives it.
constexpr int wide_static_bytes(int compute_bytes) {
  return (2 * max_block_segments * 4 * compute_bytes + 16 + 127) / 128 * 128;
}

/// Bytes of a warp's lanes side by side, 16 each, in a slot of a ring; and 16 more where rows may
/// start anywhere: such a row is copied as it lies between boundaries of 16 bytes.
inline constexpr int plane_bytes = 32 * 16;
inline constexpr int skewed_plane_bytes = plane_bytes + 16;
/// Stages of a ring: kernels wait for a number of copies that must be a constant.
inline constexpr int most_stages = 6;
/// Whether rows of this size of element are requested ahead. f64 arithmetic and a backward from y
/// leave no registers for it.
constexpr bool has_ring(std::size_t element, bool from_y) {
  return element != 8 && !from_y;
}
/// Whether rows that start anywhere are, too. A backward pass of f32 rows issues a third more
/// instructions for them, and has no more in flight than without.
constexpr bool has_skewed_ring(std::size_t element, bool backward) {
  return has_ring(element, false) && !(backward && element == 4);
}
/// Bytes that a multiprocessor should have in flight. Little's law asks for bandwidth x latency
/// over multiprocessors: B200 8 TB/s x 0.8 us / 148 = 43 KB, and a third more under load. A row's
/// copies are not in flight from when they arrive until its slot is requested again: as much again
/// as a quarter of that.
inline constexpr int wanted_in_flight = 72 << 10;
/// Shared memory that the system takes of each block, from sm_80 on.
inline constexpr int system_shared_bytes = 1 << 10;

/// Rows that a thread of a backward kernel adds up in one go. Longer sums are left as further
/// partials, so that the error of dgamma does not grow with rows.
inline constexpr int rows_per_partial = 256;

/// A strip of columns: a segment a warp.
inline constexpr int strip_threads = 256;
inline constexpr int strip_warps = strip_threads / 32;
/// Segments of a row that a block of the second strip launch takes.
inline constexpr int strip_segments = 4 * strip_warps;

inline constexpr int copy_threads = 256;

inline constexpr int column_threads = 256;
inline constexpr int column_warps = column_threads / 32;
/// Partial sums of each gradient that a thread of the column kernel loads before it adds the first.
inline constexpr int column_batch = 8;
/// Partial sums that a warp of the column kernel adds up, if it need not be more.
inline constexpr int partials_per_warp = 16;

}  // namespace fusednorm::cuda
