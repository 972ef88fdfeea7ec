// Times one case against a copy of the same size, in turns, so that a busy machine slows both
// alike.
#pragma once

#include <functional>
#include <string>

#include "fusednorm/problem.h"
#include "options.h"

namespace fusednorm::bench {

struct Case {
  Pass pass;
  DType dtype;
  DType param_dtype;
  Shape shape;
  std::int64_t offset;
  std::int64_t row_stride;
};

struct Measurement {
  std::string error;  ///< empty when measured
  double seconds = 0;
  double bytes = 0;  ///< minimal traffic, see minimal_bytes
  double copy_seconds = 0;
  double copy_bytes = 0;
  int threads = 0;
  std::string explanation;

  double gigabytes_per_second() const { return bytes / seconds * 1e-9; }
  double copy_gigabytes_per_second() const { return copy_bytes / copy_seconds * 1e-9; }
  double share_of_copy() const { return gigabytes_per_second() / copy_gigabytes_per_second(); }
};

/// Every array that must move, once: x and y forward, dy, x and dx backward, with the parameters,
/// their gradients and the statistics, which matter only where rows are few.
double minimal_bytes(const Case& which);

ForwardProblem forward_problem(const Case& which);
BackwardProblem backward_problem(const Case& which);

/// The best time of a call of each action over `seconds` of rounds in which they take turns.
struct Timing {
  double work;
  double copy;
};
Timing take_turns(double seconds, const std::function<void()>& work,
                  const std::vector<std::function<void()>>& copies);

Measurement measure_cpu(const Case& which, const Options& options);
Measurement measure_cuda(const Case& which, const Options& options);

}  // namespace fusednorm::bench
