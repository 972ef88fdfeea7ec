// SPDX-License-Identifier: Apache-2.0
// fusednorm-check: runs problems given in the grammar of problems/problem.h and says how they went.
#include <cstdio>

#include "harness.h"

int main(int argc, char** argv) {
  using namespace fusednorm::testing;
  if (argc < 2) {
    std::fprintf(stderr, "usage: fusednorm-check PROBLEM…\n  e.g. forward:bf16/f32:3x769\n");
    return 2;
  }
  int failures = 0;
  for (int argument = 1; argument < argc; ++argument) {
    Problem problem;
    std::string error;
    if (!parse(argv[argument], &problem, &error)) {
      std::fprintf(stderr, "%s\n", error.c_str());
      return 2;
    }
    const Trial trial(problem);
    for (const auto& backend : backends_under_test()) {
      const std::string report = trial.check(*backend);
      std::printf("%s  %s  %s%s\n", report.empty() ? "ok  " : "FAIL", to_string(problem).c_str(),
                  backend->name().c_str(), report.c_str());
      failures += report.empty() ? 0 : 1;
    }
  }
  return failures == 0 ? 0 : 1;
}
