// SPDX-License-Identifier: Apache-2.0
// Two builds of the library in one process, in turns, on the same buffers.
//
//   compare_libraries OLD.so NEW.so [--threads N] [--repeat N] [--set NAME] [--only TEXT]
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

struct Shape {
  std::int64_t rows, cols;
  std::size_t offset;
};

}  // namespace

int main(int argc, char** argv) {
  const Library libraries[2] = {Library(argv[1]), Library(argv[2])};
  int threads = 2, repeat = 21;
  const char *set = nullptr, *only = "";
  for (int i = 3; i + 1 < argc; i += 2) {
    if (!std::strcmp(argv[i], "--threads")) threads = std::atoi(argv[i + 1]);
    if (!std::strcmp(argv[i], "--repeat")) repeat = std::atoi(argv[i + 1]);
    if (!std::strcmp(argv[i], "--set")) set = argv[i + 1];
    if (!std::strcmp(argv[i], "--only")) only = argv[i + 1];
  }
  const Shape shapes[] = {{16384, 768, 0}, {8192, 1024, 0}, {4096, 4096, 0}, {65536, 256, 0},
                          {512, 32768, 0}, {16384, 767, 0}, {16384, 769, 0}, {4096, 4097, 0},
                          {1, 4000000, 0}, {8, 1000000, 0}, {16384, 768, 1}, {4096, 4096, 1},
                          {64, 64, 0}};
  std::printf("%-34s %10s %10s %8s %8s  %s\n", "case", "old us", "new us", "new/old", "best",
              "bits");
  for (const Shape& s : shapes) {
    for (const int dtype : {1, 3, 2}) {
      const char* type = dtype == 1 ? "f32" : dtype == 2 ? "f16" : "bf16";
      for (const int backward : {0, 1}) {
        const std::string name = std::string(backward ? "backward" : "forward") + ":" + type + ":" +
                                 std::to_string(s.rows) + "x" + std::to_string(s.cols) +
                                 (s.offset ? ":offset=1" : "");
        if (name.find(only) == std::string::npos) continue;
        const auto elements = static_cast<std::size_t>(s.rows * s.cols);
        const auto cols = static_cast<std::size_t>(s.cols), rows = static_cast<std::size_t>(s.rows);
        const Array x(elements, dtype, s.offset, 0.1f), dy(elements, dtype, s.offset, 0),
            gamma(cols, dtype, 0, 1), beta(cols, dtype, 0, 0), mean(rows, 1, 0, 0.1f),
            rstd(rows, 1, 0, 1), out(elements, dtype, s.offset, 0), dgamma(cols, dtype, 0, 0),
            dbeta(cols, dtype, 0, 0);
        const ShimBuffers buffers{x.data(),      dy.data(),   gamma.data(), beta.data(),
                                  out.data(),    mean.data(), rstd.data(),  out.data(),
                                  dgamma.data(), dbeta.data()};
        const ShimProblem problem{backward, dtype, dtype, s.rows, s.cols, threads, set};
        void* plans[2];
        std::vector<char> results[2];
        double once = 1;
        for (int i = 0; i < 2; ++i) {
          plans[i] = libraries[i].plan(&problem);
          libraries[i].run(plans[i], &buffers);
          const double begin = now(threads);
          libraries[i].run(plans[i], &buffers);
          once = std::min(once, now(threads) - begin);
          for (const Array* array : {&out, &mean, &rstd, &dgamma, &dbeta}) {
            const auto bytes = array->copy();
            results[i].insert(results[i].end(), bytes.begin(), bytes.end());
          }
        }
        // At least 200 us a turn.
        const int loops = std::max(1, static_cast<int>(200e-6 / std::max(once, 1e-7)));
        std::vector<double> times[2], ratios;
        for (int turn = 0; turn < repeat; ++turn) {
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
        std::printf("%-34s %10.1f %10.1f %8.3f %8.3f  %s\n", name.c_str(), median(times[0]),
                    median(times[1]), median(ratios), best,
                    results[0] == results[1] ? "same" : "DIFFER");
        std::fflush(stdout);
        for (int i = 0; i < 2; ++i) libraries[i].free(plans[i]);
      }
    }
  }
}
