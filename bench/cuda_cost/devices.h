// SPDX-License-Identifier: Apache-2.0
// The one table of what is known of real devices. devices.cc says where each figure is from.
#pragma once

namespace fusednorm::cost {

/// Latencies are in cycles of `clock`, unless the name says otherwise; rates are a
/// multiprocessor's.
struct Gpu {
  const char* name;
  int architecture;
  int multiprocessors;
  double clock;              ///< Hz, under load
  double bandwidth;          ///< of DRAM, peak, bytes a second
  double copy_share;         ///< of that, what a plain copy of large arrays reaches
  double loaded_latency_ns;  ///< of DRAM with its memory at work: for Little's law
  double dram_latency_ns;    ///< of DRAM with nothing else going on
  double l2_latency, l1_latency, shared_latency, remote_latency;
  double l2_bytes;
  double l2_bandwidth;  ///< bytes a second, all multiprocessors together
  /// Threads whose instruction a multiprocessor begins each cycle.
  double f32_lanes, integer_lanes, f64_lanes;
  double launch_us;  ///< a kernel's time with nothing in it
  double gap_us;     ///< from the end of a kernel to the first statement of one that waits for it
  double absorbed_bytes;  ///< stores that L2 keeps and never has to write: 0 when it starts dirty
};

/// A100, H100, B200, RTX 4090, RTX 5090.
inline constexpr int gpu_count = 5;
extern const Gpu gpus[gpu_count];
/// The machine of the cycle-level simulations that the model is held against.
extern const Gpu half_v100;

/// A multiprocessor issues four warp instructions a cycle.
inline constexpr double issues_per_cycle = 4;

/// Bytes a multiprocessor must have in flight to draw its share of the peak bandwidth: Little's
/// law.
inline double needed_bytes_in_flight(const Gpu& gpu) {
  return gpu.bandwidth / gpu.multiprocessors * gpu.loaded_latency_ns * 1e-9;
}

/// The first of the table with this architecture, or the newest that is not newer.
const Gpu& gpu_of_architecture(int architecture);

}  // namespace fusednorm::cost
