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
  const auto measure = [&](const std::vector<problems::Problem>& some) {
#ifdef FUSEDNORM_BENCH_CUDA
    if (options.device == "cuda") return std::vector{measure_cuda(some[0], options)};
#endif
    return measure_cpu(some, options);
  };
  const Progress progress(options.problems.size());
  std::vector<Row> rows;
  bool failed = false;
  print_header();
  const std::size_t at_once = options.in_turns ? options.problems.size() : 1;
  for (auto first = options.problems.begin(); first != options.problems.end();) {
    progress.show(rows.size(), *first);
    const std::vector<problems::Problem> some(first, first + static_cast<std::ptrdiff_t>(at_once));
    const std::vector<Measurement> measured = measure(some);
    progress.clear();
    for (std::size_t i = 0; i < at_once; ++i, ++first) {
      rows.push_back({some[i], measured[i]});
      failed = failed || !measured[i].error.empty();
      print_row(rows.back());
    }
  }
  if (!options.json.empty() && !write_json(options.json, rows, options.device)) {
    std::fprintf(stderr, "fusednorm-bench: --json %s: cannot be written\n", options.json.c_str());
    return 2;
  }
  return failed ? 1 : 0;
}
