// SPDX-License-Identifier: Apache-2.0
// Two builds of the library in one process, in turns, on the same buffers.
//
//   compare_libraries OLD.so NEW.so [--threads N] [--repeat N] [--set NAME] [--only TEXT]
//                     [--op rms_norm] [--residual yes] [--groups N] [--shape ROWSxCOLS]
//
// Prints a line a case: the medians, the median over turns of new / old, which drifting load on the
// machine distorts least, and the ratio of the shortest times. Says whether every output has the
// same bits.
#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "shim.h"

namespace {

struct Library {
  decltype(&shim_plan) plan;
  decltype(&shim_run) run;
  decltype(&shim_free) free;

  explicit Library(const char* path) {
    void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      std::fprintf(stderr, "%s\n", dlerror());
      std::exit(1);
    }
    plan = reinterpret_cast<decltype(plan)>(dlsym(handle, "shim_plan"));
    run = reinterpret_cast<decltype(run)>(dlsym(handle, "shim_run"));
    free = reinterpret_cast<decltype(free)>(dlsym(handle, "shim_free"));
  }
};

/// 64-byte aligned, off by `offset` elements, filled with numbers around `centre`.
class Array {
 public:
  Array(std::size_t count, int dtype, std::size_t offset, float centre) {
    const std::size_t element = dtype == 1 ? 4 : 2;
    bytes_ = (count + offset) * element;
    storage_ = static_cast<char*>(std::aligned_alloc(4096, (bytes_ + 8191) / 4096 * 4096));
    data_ = storage_ + offset * element;
    std::mt19937 random(7);
    std::normal_distribution<float> normal(centre, 1);
    std::vector<float> pool(4099);
    for (float& value : pool) value = normal(random);
    for (std::size_t i = 0; i < count; ++i) {
      const float value = pool[(i * 2654435761u >> 7) % pool.size()];
      std::uint32_t bits;
      std::memcpy(&bits, &value, 4);
      if (dtype == 1) std::memcpy(data_ + 4 * i, &bits, 4);
      const auto bf16 = static_cast<std::uint16_t>(bits >> 16);
      // f16: sign, exponent and the top of the mantissa; numbers near 1 are normal in both.
      const auto f16 = static_cast<std::uint16_t>(
          (bits >> 16 & 0x8000) |
          (((bits & 0x7fffffff) < 0x38800000 ? 0 : (bits & 0x7fffffff) - 0x38000000) >> 13));
      if (dtype != 1) std::memcpy(data_ + 2 * i, dtype == 2 ? &f16 : &bf16, 2);
    }
  }
  ~Array() { std::free(storage_); }
  Array(const Array&) = delete;
  void* data() const { return data_; }
  std::vector<char> copy() const { return {storage_, storage_ + bytes_}; }

 private:
  char* storage_;
  char* data_;
  std::size_t bytes_;
};

/// Seconds; of the processor for one thread, which a busy machine disturbs less.
double now(int threads) {
  timespec time;
  clock_gettime(threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

struct Case {
  std::int64_t rows, cols;
  std::size_t offset = 0;
  int dtype = 1;  // 1 f32, 2 f16, 3 bf16
  int backward = 0;
};

struct Options {
  int threads = 2, repeat = 21, rms_norm = 0, residual = 0;
  std::int64_t groups = 1;
  const char *set = nullptr, *only = "", *shape = nullptr;

  Options(int argc, char** argv) {
    for (int i = 3; i + 1 < argc; i += 2) {
      const std::string name = argv[i];
      const char* value = argv[i + 1];
      if (name == "--threads") threads = std::atoi(value);
      if (name == "--repeat") repeat = std::atoi(value);
      if (name == "--set") set = value;
      if (name == "--only") only = value;
      if (name == "--op") rms_norm = !std::strcmp(value, "rms_norm");
      if (name == "--residual") residual = !std::strcmp(value, "yes");
      if (name == "--groups") groups = std::atoi(value);
      if (name == "--shape") shape = value;
    }
  }

  /// A pass of a shape, as the problem grammar has it.
  std::string name(const Case& c) const {
    const char* type = c.dtype == 1 ? "f32" : c.dtype == 2 ? "f16" : "bf16";
    std::string text = c.backward ? "backward:" : "forward:";
    text.append(type).append(":").append(std::to_string(c.rows));
    text.append("x").append(std::to_string(c.cols));
    if (rms_norm) text += ":op=rms_norm";
    if (residual) text.append(":residual=").append(type);
    if (groups > 1) text.append(":groups=").append(std::to_string(groups));
    return text + (c.offset ? ":offset=1" : "");
  }
};

/// The arrays of a case, the same for both libraries.
struct Arrays {
  Array x, dy, gamma, beta, mean, rstd, out, dgamma, dbeta, residual, sum;

  Arrays(const Case& c, const Options& options)
      : Arrays(c, static_cast<std::size_t>(c.rows * c.cols),
               static_cast<std::size_t>(c.cols * options.groups)) {}
  Arrays(const Case& c, std::size_t elements, std::size_t params)
      : x(elements, c.dtype, c.offset, 0.1f),
        dy(elements, c.dtype, c.offset, 0),
        gamma(params, c.dtype, 0, 1),
        beta(params, c.dtype, 0, 0),
        mean(static_cast<std::size_t>(c.rows), 1, 0, 0.1f),
        rstd(static_cast<std::size_t>(c.rows), 1, 0, 1),
        out(elements, c.dtype, c.offset, 0),
        dgamma(params, c.dtype, 0, 0),
        dbeta(params, c.dtype, 0, 0),
        residual(elements, c.dtype, c.offset, 0.2f),
        sum(elements, c.dtype, c.offset, 0) {}

  ShimBuffers buffers() const {
    return {x.data(),    dy.data(),  gamma.data(),  beta.data(),  out.data(),      mean.data(),
            rstd.data(), out.data(), dgamma.data(), dbeta.data(), residual.data(), sum.data()};
  }
  std::vector<char> results() const {
    std::vector<char> all;
    for (const Array* array : {&out, &mean, &rstd, &dgamma, &dbeta, &sum}) {
      const auto bytes = array->copy();
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }
};

void compare(const Library (&libraries)[2], const Case& c, const Options& options) {
  const Arrays arrays(c, options);
  const ShimBuffers buffers = arrays.buffers();
  const ShimProblem problem{c.backward, c.dtype, c.dtype,        options.rms_norm, options.residual,
                            c.rows,     c.cols,  options.groups, options.threads,  options.set};
  const int threads = options.threads;
  void* plans[2];
  std::vector<char> results[2];
  double once = 1;
  for (int i = 0; i < 2; ++i) {
    plans[i] = libraries[i].plan(&problem);
    libraries[i].run(plans[i], &buffers);
    const double begin = now(threads);
    libraries[i].run(plans[i], &buffers);
    once = std::min(once, now(threads) - begin);
    results[i] = arrays.results();
  }
  // At least 200 us a turn.
  const int loops = std::max(1, static_cast<int>(200e-6 / std::max(once, 1e-7)));
  std::vector<double> times[2], ratios;
  for (int turn = 0; turn < options.repeat; ++turn) {
    for (int half = 0; half < 2; ++half) {
      const int i = half ^ (turn & 1);
      const double begin = now(threads);
      for (int loop = 0; loop < loops; ++loop) libraries[i].run(plans[i], &buffers);
      times[i].push_back((now(threads) - begin) / loops * 1e6);
    }
    ratios.push_back(times[1].back() / times[0].back());
  }
  const double best = *std::min_element(times[1].begin(), times[1].end()) /
                      *std::min_element(times[0].begin(), times[0].end());
  std::printf("%-44s %10.1f %10.1f %8.3f %8.3f  %s\n", options.name(c).c_str(), median(times[0]),
              median(times[1]), median(ratios), best, results[0] == results[1] ? "same" : "DIFFER");
  std::fflush(stdout);
  for (int i = 0; i < 2; ++i) libraries[i].free(plans[i]);
}

}  // namespace

int main(int argc, char** argv) {
  const Library libraries[2] = {Library(argv[1]), Library(argv[2])};
  const Options options(argc, argv);
  std::vector<Case> shapes = {{16384, 768}, {8192, 1024}, {4096, 4096},    {65536, 256},
                              {512, 32768}, {16384, 767}, {16384, 769},    {4096, 4097},
                              {1, 4000000}, {8, 1000000}, {16384, 768, 1}, {4096, 4096, 1},
                              {64, 64}};
  if (options.shape) {
    shapes = {{std::atoll(options.shape), std::atoll(std::strchr(options.shape, 'x') + 1)}};
  }
  std::printf("%-44s %10s %10s %8s %8s  %s\n", "case", "old us", "new us", "new/old", "best",
              "bits");
  for (Case c : shapes) {
    for (const int dtype : {1, 3, 2}) {
      for (const int backward : {0, 1}) {
        c.dtype = dtype;
        c.backward = backward;
        if (options.name(c).find(options.only) != std::string::npos) compare(libraries, c, options);
      }
    }
  }
}
