// SPDX-License-Identifier: Apache-2.0
// Lines of the problem grammar: each is refused with a sentence or survives being printed and read
// again; small ones are run on every instruction set, in guarded memory with a workspace of exactly
// the bytes of the plan, and held against the f64 formula as the tests do.
#include <cmath>
#include <cstdint>
#include <string>

#include "backend.h"
#include "expect.h"
#include "fusednorm/fusednorm.h"
#include "harness.h"

namespace {

using namespace fusednorm;
using namespace fusednorm::testing;

bool planned(const Problem& problem) {
  const cpu::Device device;
  return problem.is_forward() ? cpu::plan(forward_problem(problem), device).ok()
                              : cpu::plan(backward_problem(problem), device).ok();
}

/// What a run of a few microseconds can hold, and the tolerances are derived for
/// (docs/tolerances.md: an eps that is no number of the compute type is not among it).
bool is_small(const Problem& problem) {
  bool small = problem.rows <= 64 && problem.cols <= 2048 && problem.rows * problem.cols <= 8192;
  for (int array = 0; array < 3; ++array) {
    small = small && problem.stride[array] <= 4096 && problem.offset[array] <= 64;
  }
  return small && (problem.eps == 0 || (problem.eps >= 1e-12 && problem.eps <= 10));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  Problem problem, again;
  std::string error;
  if (!parse(text, &problem, &error)) {
    fuzz::expect(!error.empty(), "refused without a reason: " + text);
    return 0;
  }
  const std::string printed = to_string(problem);
  fuzz::expect(parse(printed, &again, &error), printed + ": " + error);
  fuzz::expect(to_string(again) == printed, printed + " is read as " + to_string(again));
  // The table leaves out rms_norm of values whose squares overflow: the contract computes in f32.
  const bool overflows = problem.operation == Operation::rms_norm && problem.data == Data::beyond;
  if (!is_small(problem) || overflows || !planned(problem)) return 0;
  static const Backends backends = backends_under_test();
  const Trial trial(problem);
  for (const auto& backend : backends) {
    const std::string report = trial.check(*backend);
    fuzz::expect(report.empty(), report);
  }
  return 0;
}
