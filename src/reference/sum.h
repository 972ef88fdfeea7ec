// SPDX-License-Identifier: Apache-2.0
// A running sum that carries what each addition lost.
#pragma once

#include <cmath>

namespace fusednorm::reference {

class Sum {
 public:
  void add(long double term) {
    const long double next = total_ + term;
    lost_ += std::fabs(total_) >= std::fabs(term) ? (total_ - next) + term : (term - next) + total_;
    total_ = next;
  }
  /// Inf and NaN as plain addition gives them: there lost_ holds only Inf - Inf.
  long double value() const { return std::isfinite(total_) ? total_ + lost_ : total_; }

 private:
  long double total_ = 0, lost_ = 0;
};

}  // namespace fusednorm::reference
