// SPDX-License-Identifier: Apache-2.0
// How rounds are timed and summarised.
#include "measure.h"

#include <algorithm>
#include <chrono>

namespace fusednorm::bench {
namespace {

constexpr std::size_t least_rounds = 5;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

void Rounds::run(double seconds, const std::function<void()>& work,
                 const std::vector<std::function<void()>>& copies, const Time& time) {
  seconds_.assign(1 + copies.size(), {});
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  do {
    seconds_[0].push_back(time(work));
    for (std::size_t i = 0; i < copies.size(); ++i) seconds_[1 + i].push_back(time(copies[i]));
  } while (seconds_[0].size() < least_rounds || std::chrono::steady_clock::now() < end);
}

void Rounds::summarise(Measurement* result) const {
  result->seconds = median(seconds_[0]);
  result->best_seconds = *std::min_element(seconds_[0].begin(), seconds_[0].end());
  result->copy_seconds = median(seconds_[1]);
  for (std::size_t i = 2; i < seconds_.size(); ++i) {
    result->copy_seconds = std::min(result->copy_seconds, median(seconds_[i]));
  }
}

}  // namespace fusednorm::bench
