// SPDX-License-Identifier: Apache-2.0
// Times one problem against a copy of the same size, alternating, so that a busy machine slows both
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

/// Times actions in rounds, each action once a round, until `seconds` have passed.
class Rounds {
 public:
  /// `time` returns the seconds of a call.
  using Time = std::function<double(const std::function<void()>& action)>;

  void run(double seconds, const std::function<void()>& work,
           const std::vector<std::function<void()>>& copies, const Time& time);
  /// The times into `result`; of the copies the one whose median is least.
  void summarise(Measurement* result) const;

 private:
  std::vector<std::vector<double>> seconds_;  ///< the work's, then each copy's
};

Measurement measure_cpu(const problems::Problem& problem, const Options& options);
Measurement measure_cuda(const problems::Problem& problem, const Options& options);

}  // namespace fusednorm::bench
