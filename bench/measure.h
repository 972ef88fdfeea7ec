// SPDX-License-Identifier: Apache-2.0
// Times problems against copies of the same size, alternating, so that a busy machine slows all
// alike.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "options.h"
#include "problems/rates.h"

namespace fusednorm::bench {

struct Measurement : problems::Rates {
  std::string error;  ///< empty when measured
  double best_seconds = 0;
  int threads = 0;
};

/// A problem and the copies it is held against, with their times so far.
class Contest {
 public:
  /// Calls an action often enough to be timed; returns the seconds of a call.
  using Time = std::function<double(const std::function<void()>& action)>;

  Contest(std::function<void()> work, std::vector<std::function<void()>> copies, Time time);
  /// Each action once.
  void round();
  std::size_t rounds() const { return seconds_[0].size(); }
  /// The times into `result`; of the copies the one whose median is least.
  void summarise(Measurement* result) const;

 private:
  std::vector<std::function<void()>> actions_;  ///< the work, then the copies
  Time time_;
  std::vector<std::vector<double>> seconds_;  ///< of each action
};

/// Rounds of all contests in turns, until `seconds` a contest have passed.
void run_in_turns(double seconds, const std::vector<Contest*>& contests);

/// Of each problem, a round of each in turns.
std::vector<Measurement> measure_cpu(const std::vector<problems::Problem>& problems,
                                     const Options& options);
Measurement measure_cuda(const problems::Problem& problem, const Options& options);

}  // namespace fusednorm::bench
