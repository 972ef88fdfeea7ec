// What a measurement counts, and how turns are taken.
#include "measure.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace fusednorm::bench {
namespace {

double time_of(const std::function<void()>& action, int repeats) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / repeats;
}

}  // namespace

double minimal_bytes(const Case& which) {
  const double elements =
      static_cast<double>(which.shape.rows) * static_cast<double>(which.shape.cols);
  const double streams = which.pass == Pass::forward ? 2 : 3;
  // Forward: gamma and beta. Backward: gamma, dgamma and dbeta, and both statistics.
  const double vectors = which.pass == Pass::forward ? 2 : 3;
  const double statistics = which.pass == Pass::forward ? 0 : 2;
  return streams * elements * static_cast<double>(size_of(which.dtype)) +
         vectors * static_cast<double>(which.shape.cols) *
             static_cast<double>(size_of(which.param_dtype)) +
         statistics * static_cast<double>(which.shape.rows) *
             static_cast<double>(size_of(compute_dtype(which.dtype)));
}

ForwardProblem forward_problem(const Case& which) {
  ForwardProblem problem;
  problem.rows = which.shape.rows;
  problem.cols = which.shape.cols;
  problem.x_dtype = problem.y_dtype = which.dtype;
  problem.param_dtype = which.param_dtype;
  problem.x_row_stride = problem.y_row_stride = which.row_stride;
  return problem;
}

BackwardProblem backward_problem(const Case& which) {
  BackwardProblem problem;
  problem.rows = which.shape.rows;
  problem.cols = which.shape.cols;
  problem.x_dtype = problem.y_dtype = which.dtype;
  problem.param_dtype = which.param_dtype;
  problem.dy_row_stride = problem.source_row_stride = problem.dx_row_stride = which.row_stride;
  return problem;
}

Timing take_turns(double seconds, const std::function<void()>& work,
                  const std::vector<std::function<void()>>& copies) {
  // A turn of a millisecond or more, so that the clock and a cold start do not count.
  work();
  const double once = std::max(time_of(work, 1), 1e-7);
  const int repeats = static_cast<int>(std::clamp(1e-3 / once, 1.0, 1e5));
  Timing best{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int rounds = 0;
  do {
    best.work = std::min(best.work, time_of(work, repeats));
    for (const auto& copy : copies) best.copy = std::min(best.copy, time_of(copy, repeats));
  } while (++rounds < 5 || std::chrono::steady_clock::now() < end);
  return best;
}

}  // namespace fusednorm::bench
