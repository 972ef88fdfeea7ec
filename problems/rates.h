// SPDX-License-Identifier: Apache-2.0
// GB/s and the share of a copy: what they are, for every tool in C++.
// python/fusednorm/measure/rates.py is the same for the Python package; test_measure_agreement.py
// holds the two against each other.
#pragma once

namespace fusednorm::problems {

/// Every rate is of the same statistic as the time beside it: the median.
struct Rates {
  double seconds = 0;        ///< the median of the rounds
  double minimal_bytes = 0;  ///< minimal_bytes.h
  double copy_seconds = 0;   ///< the median of the fastest copy, in the same rounds
  double copy_bytes = 0;     ///< what it reads and writes

  double gigabytes_per_second() const { return minimal_bytes / seconds * 1e-9; }
  double copy_gigabytes_per_second() const { return copy_bytes / copy_seconds * 1e-9; }
  double share_of_copy() const { return gigabytes_per_second() / copy_gigabytes_per_second(); }
};

}  // namespace fusednorm::problems
