// SPDX-License-Identifier: Apache-2.0
// The model of time beside what is published for kernels of the same structure.
#include "published.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "model.h"
#include "subjects/subjects.h"

namespace fusednorm::cost {
namespace {

/// Shares of the peak bandwidth in per cent, as their projects report them. Shapes are mostly not
/// given: the model's range is over those below.
struct Published {
  const char* subject;
  const char* gpu;
  double low, high;
  const char* of;
};

constexpr Published published[] = {
    {"copy", "A100", 0, 0, "the table's copy_share, so no test"},
    {"copy", "H100", 0, 0, "the same"},
    {"welford forward", "H100", 42, 63, "torch native"},
    {"welford forward", "B200", 36, 36, "torch native, GB200"},
    {"welford forward", "A100", 58, 58, "apex FusedLayerNorm"},
    {"registers forward", "A100", 81, 81, "apex FastLayerNorm"},
    {"registers forward", "H100", 87, 89, "Liger, quack"},
    {"two-pass backward", "H100", 13, 37, "torch native"},
    {"split backward", "B200", 29, 34, "torch native, GB300"},
    {"split backward", "A100", 37, 37, "apex FusedLayerNorm"},
};

constexpr Shape forward_shapes[] = {{8192, 1024, true}, {32768, 1024, true}, {8192, 4096, true}};
/// A strip of 32 columns is a block of the second launch: 1024 columns leave most of a device idle.
constexpr Shape backward_shapes[] = {{8192, 1024, true}, {8192, 4096, true}, {4096, 8192, true}};

/// Cycles of GPGPU-Sim on half a V100, f32.
struct Simulated {
  const char* subject;
  Shape shape;
  double cycles;
  const char* of;
};

constexpr Simulated simulated[] = {
    {"welford forward", {2048, 1024, false}, 54900, "torch native"},
    {"registers forward", {2048, 1024, false}, 55306, "apex FastLayerNorm"},
    {"two-pass backward", {1024, 1024, false}, 76100, "torch native"},
};

const Subject& subject_of(const char* name) {
  return *std::find_if(std::begin(subjects), std::end(subjects),
                       [&](const Subject& s) { return std::strcmp(s.name, name) == 0; });
}

const Gpu& gpu_of(const char* name) {
  return *std::find_if(std::begin(gpus), std::end(gpus),
                       [&](const Gpu& g) { return std::strcmp(g.name, name) == 0; });
}

Modelled model_subject(const Subject& subject, const Shape& shape, const Gpu& gpu,
                       Assembler* assembler) {
  return model([&] { return subject.launch(shape, gpu.multiprocessors); }, gpu, false, assembler);
}

double share_of(const Subject& subject, const Shape& shape, const Gpu& gpu, Assembler* assembler,
                std::string* bound) {
  const Modelled modelled = model_subject(subject, shape, gpu, assembler);
  if (!modelled.error.empty()) return *bound = modelled.error, 0;
  *bound = modelled.timed.bound;
  const double bytes = subject.streams * shape.rows * shape.cols * (shape.bf16 ? 2 : 4);
  return 100 * bytes / gpu.bandwidth / modelled.timed.seconds;
}

}  // namespace

int print_published(const std::string& name, Assembler* assembler) {
  std::printf("| structure | device | published, %% of peak | by | predicted, %% | bound by |");
  std::printf("\n|---|---|---|---|---|---|\n");
  const auto wanted = [&](const char* subject) {
    return std::string(subject).find(name) != std::string::npos;
  };
  for (const Published& line : published) {
    if (!wanted(line.subject)) continue;
    const Subject& subject = subject_of(line.subject);
    double low = 1e9, high = 0;
    std::string bounds;
    const bool backward = subject.streams > 2;
    const Shape* first = backward ? backward_shapes : forward_shapes;
    const Shape* last = backward ? std::end(backward_shapes) : std::end(forward_shapes);
    for (const Shape& shape : std::vector<Shape>(first, last)) {
      std::string bound;
      const double share = share_of(subject, shape, gpu_of(line.gpu), assembler, &bound);
      low = std::min(low, share);
      high = std::max(high, share);
      if (bounds.find(bound) == std::string::npos) bounds += (bounds.empty() ? "" : ", ") + bound;
    }
    char range[16] = "-";
    if (line.high > 0) std::snprintf(range, sizeof range, "%.0f-%.0f", line.low, line.high);
    std::printf("| %s | %s | %s | %s | %.0f-%.0f | %s |\n", line.subject, line.gpu, range, line.of,
                low, high, bounds.c_str());
    std::fflush(stdout);
  }
  std::printf("\n| structure | shape, f32 | simulated cycles | by | predicted | ratio |\n");
  std::printf("|---|---|---|---|---|---|\n");
  for (const Simulated& line : simulated) {
    if (!wanted(line.subject)) continue;
    const Modelled modelled =
        model_subject(subject_of(line.subject), line.shape, half_v100, assembler);
    if (!modelled.error.empty()) {
      std::printf("| %s | | | | %s | |\n", line.subject, modelled.error.c_str());
      continue;
    }
    const double cycles = modelled.timed.seconds * half_v100.clock;
    std::printf("| %s | %dx%d | %.0f | %s | %.0f | %.2f |\n", line.subject, line.shape.rows,
                line.shape.cols, line.cycles, line.of, cycles, cycles / line.cycles);
  }
  return 0;
}

}  // namespace fusednorm::cost
