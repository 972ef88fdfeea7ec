// SPDX-License-Identifier: Apache-2.0
// How rounds are timed and summarised.
#include "measure.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace fusednorm::bench {
namespace {

constexpr std::size_t least_rounds = 5;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

Contest::Contest(std::function<void()> work, std::vector<std::function<void()>> copies, Time time)
    : actions_(std::move(copies)), time_(std::move(time)), seconds_(1 + actions_.size()) {
  actions_.insert(actions_.begin(), std::move(work));
}

void Contest::round() {
  for (std::size_t i = 0; i < actions_.size(); ++i) seconds_[i].push_back(time_(actions_[i]));
}

void run_in_turns(double seconds, const std::vector<Contest*>& contests) {
  if (contests.empty()) return;
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::duration<double>(seconds * static_cast<double>(contests.size()));
  do {
    for (Contest* contest : contests) contest->round();
  } while (contests[0]->rounds() < least_rounds || std::chrono::steady_clock::now() < end);
}

void Contest::summarise(Measurement* result) const {
  result->seconds = median(seconds_[0]);
  result->best_seconds = *std::min_element(seconds_[0].begin(), seconds_[0].end());
  result->copy_seconds = median(seconds_[1]);
  for (std::size_t i = 2; i < seconds_.size(); ++i) {
    result->copy_seconds = std::min(result->copy_seconds, median(seconds_[i]));
  }
}

}  // namespace fusednorm::bench
