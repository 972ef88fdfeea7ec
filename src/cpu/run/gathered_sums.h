// SPDX-License-Identifier: Apache-2.0
// Column sums over many rows: plain sums of at most rows_per_sum rows, gathered into compensated
// pairs.
#pragma once

#include "cpu/run/backward_arrays.h"

namespace fusednorm::cpu {

class GatheredSums {
 public:
  /// Six arrays of `count` elements, `pitch` elements apart; two where one plain sum is enough, and
  /// then only plain() and clear_plain() may be called.
  GatheredSums(const BackwardRun& run, std::byte* arrays, std::int64_t pitch, std::int64_t count)
      : run_(run), arrays_(arrays), pitch_(pitch), count_(count) {}

  ColumnSums plain() const { return {array(0), array(1)}; }
  void clear_plain() const {
    for (int i = 0; i < 2; ++i) run_.clear(array(i), count_);
  }
  void clear_pairs() const {
    for (int i = 2; i < 6; ++i) run_.clear(array(i), count_);
  }
  /// Adds the plain sums to the pairs.
  void compensate() const {
    run_.kernels.compensate(array(2), array(3), array(0), count_);
    run_.kernels.compensate(array(4), array(5), array(1), count_);
  }
  void settle(ColumnSums result) const {
    run_.kernels.settle(result.dgamma, array(2), array(3), count_);
    run_.kernels.settle(result.dbeta, array(4), array(5), count_);
  }

 private:
  /// Plain sums of dgamma and of dbeta, then high and low parts of each.
  std::byte* array(int index) const { return arrays_ + index * pitch_ * run_.element; }

  const BackwardRun& run_;
  std::byte* arrays_;
  std::int64_t pitch_;
  std::int64_t count_;
};

}  // namespace fusednorm::cpu
