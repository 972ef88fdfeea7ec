// fusednorm-bench: measures LayerNorm over a list of shapes.
#include <cstdio>

#include "report.h"

using namespace fusednorm;
using namespace fusednorm::bench;

namespace {

std::vector<Case> cases_of(const Options& options) {
  std::vector<Case> cases;
  for (const DType dtype : options.dtypes) {
    DType param = dtype;
    for (const DType candidate : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
      if (options.param_dtype == fusednorm::name_of(candidate)) param = candidate;
    }
    for (const Pass pass : options.passes) {
      for (const Shape& shape : options.shapes) {
        cases.push_back({pass, dtype, param, shape, options.offset, options.row_stride});
      }
    }
  }
  return cases;
}

}  // namespace

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
  const std::vector<Case> cases = cases_of(options);
  const Progress progress(cases.size());
  std::vector<Row> rows;
  bool failed = false;
  print_header();
  for (const Case& which : cases) {
    progress.show(rows.size(), which);
#ifdef FUSEDNORM_BENCH_CUDA
    const auto measure = options.device == "cuda" ? measure_cuda : measure_cpu;
#else
    const auto measure = measure_cpu;
#endif
    rows.push_back({which, measure(which, options)});
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
