// SPDX-License-Identifier: Apache-2.0
// L2 and DRAM of the model of time: rates shared by the multiprocessors that are replayed.
#pragma once

#include <algorithm>

#include "devices.h"

namespace fusednorm::cost {

/// How memory is played.
struct MemoryOptions {
  bool unlimited = false;  ///< no rate limits L2 and DRAM; DRAM answers after loaded_latency_ns
};

/// Both serve in the order of asking, at a rate each. What is stored lies in the L2 and drains to
/// DRAM while nothing is read, or at once when a share of the L2 is full of it.
class MemoryModel {
 public:
  /// `share` of the device's rates belongs to what is replayed.
  MemoryModel(const Gpu& gpu, double share, MemoryOptions options)
      : unlimited_(options.unlimited),
        dram_rate_(gpu.bandwidth * gpu.copy_share / gpu.clock * share),
        l2_rate_(gpu.l2_bandwidth / gpu.clock * share),
        l2_latency_(gpu.l2_latency),
        dram_latency_((unlimited_ ? gpu.loaded_latency_ns : gpu.dram_latency_ns) * 1e-9 *
                      gpu.clock),
        dirty_limit_(gpu.l2_bytes * dirty_share * share),
        absorbed_(gpu.absorbed_bytes * share) {}

  /// When bytes asked of the L2 at `time` are there, of which `dram` must come from DRAM.
  double load(double time, double bytes, double dram) {
    double done = time;
    if (!unlimited_) {
      l2_free_ = std::max(l2_free_, time) + bytes / l2_rate_;
      done = l2_free_;
      if (dram > 0) done = std::max(done, read_dram(time, dram));
    }
    dram_bytes_ += dram;
    return done + (dram > 0 ? dram_latency_ : l2_latency_);
  }

  /// Bytes of whole sectors that reach the L2, of which `dram` have not been stored before.
  void store(double time, double bytes, double dram) {
    const double kept = std::min(absorbed_, dram);
    absorbed_ -= kept;
    dram_bytes_ += dram - kept;
    if (unlimited_) return;
    l2_free_ = std::max(l2_free_, time) + bytes / l2_rate_;
    dirty_ += dram - kept;
    if (dirty_ <= dirty_limit_) return;
    dram_free_ = std::max(dram_free_, time) + (dirty_ - dirty_limit_) / dram_rate_;
    dirty_ = dirty_limit_;
  }

  /// When all is written, if the last instruction was over at `time`.
  double end(double time) const {
    if (unlimited_) return time;
    const double drained = std::max(0.0, time - dram_free_) * dram_rate_;
    return std::max(time, dram_free_) + std::max(0.0, dirty_ - drained) / dram_rate_;
  }

  double dram_bytes() const { return dram_bytes_; }
  double dram_cycles() const { return dram_bytes_ / dram_rate_; }

 private:
  static constexpr double dirty_share = 0.25;  // of the L2 that may wait to be written: assumed

  double read_dram(double time, double bytes) {
    if (time > dram_free_) {
      dirty_ = std::max(0.0, dirty_ - (time - dram_free_) * dram_rate_);
      dram_free_ = time;
    }
    dram_free_ += bytes / dram_rate_;
    return dram_free_;
  }

  const bool unlimited_;
  const double dram_rate_, l2_rate_, l2_latency_, dram_latency_, dirty_limit_;
  double absorbed_;
  double l2_free_ = 0, dram_free_ = 0, dirty_ = 0, dram_bytes_ = 0;
};

}  // namespace fusednorm::cost
