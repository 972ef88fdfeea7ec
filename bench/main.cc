// SPDX-License-Identifier: Apache-2.0
// fusednorm-bench: measures problems, by default over the list of shapes.
#include <cstdio>

#include "report.h"

using namespace fusednorm;
using namespace fusednorm::bench;

int main(int count, char** arguments) {
  Options options;
  if (const std::string mistake = parse(count, arguments, &options); !mistake.empty()) {
    std::fprintf(stderr, "fusednorm-bench: %s\n", mistake.c_str());
    return 2;
  }
  if (options.help) {
    std::fputs(usage().c_str(), stdout);
    return 0;
  }
#ifndef FUSEDNORM_BENCH_CUDA
  if (options.device == "cuda") {
    std::fprintf(stderr,
                 "fusednorm-bench: --device cuda: this build has no CUDA backend; configure with "
                 "-DFUSEDNORM_CUDA=ON\n");
    return 2;
  }
#endif
  const Progress progress(options.problems.size());
  std::vector<Row> rows;
  bool failed = false;
  print_header();
  for (const problems::Problem& problem : options.problems) {
    progress.show(rows.size(), problem);
#ifdef FUSEDNORM_BENCH_CUDA
    const auto measure = options.device == "cuda" ? measure_cuda : measure_cpu;
#else
    const auto measure = measure_cpu;
#endif
    rows.push_back({problem, measure(problem, options)});
    failed = failed || !rows.back().measurement.error.empty();
    progress.clear();
    print_row(rows.back());
  }
  if (!options.json.empty() && !write_json(options.json, rows, options.device)) {
    std::fprintf(stderr, "fusednorm-bench: --json %s: cannot be written\n", options.json.c_str());
    return 2;
  }
  return failed ? 1 : 0;
}
