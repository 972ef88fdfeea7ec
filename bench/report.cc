// SPDX-License-Identifier: Apache-2.0
// Prints measurements: a table for people, JSON for machines, a progress line on a terminal.
#include "report.h"

#include <unistd.h>

namespace fusednorm::bench {

void print_header() {
  std::printf("%-32s %7s %12s %9s %9s %14s\n", "problem", "threads", "microseconds", "GB/s",
              "copy GB/s", "share_of_copy");
}

void print_row(const Row& row) {
  const auto& [problem, m] = row;
  std::printf("%-32s %7d ", to_string(problem).c_str(), m.threads);
  if (!m.error.empty()) {
    std::printf("%s\n", m.error.c_str());
  } else {
    std::printf("%12.2f %9.2f %9.2f %14.3f\n", m.seconds * 1e6, m.gigabytes_per_second(),
                m.copy_gigabytes_per_second(), m.share_of_copy());
  }
  std::fflush(stdout);
}

Progress::Progress(std::size_t total) : total_(total), terminal_(isatty(fileno(stderr)) != 0) {}

void Progress::show(std::size_t done, const problems::Problem& problem) const {
  if (!terminal_) return;
  std::fprintf(stderr, "\r\033[K[%zu/%zu] %s", done + 1, total_, to_string(problem).c_str());
  std::fflush(stderr);
}

void Progress::clear() const {
  if (terminal_) std::fprintf(stderr, "\r\033[K");
}

namespace {

/// As --op spells it.
std::string operation_of(const problems::Problem& problem) {
  return (problem.has_residual ? "add_" : "") + std::string(name_of(problem.operation));
}

}  // namespace

bool write_json(const std::string& path, const std::vector<Row>& rows, const std::string& device) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (!file) return false;
  std::fprintf(file, "[");
  const char* separator = "\n";
  for (const auto& [problem, m] : rows) {
    if (!m.error.empty()) continue;
    std::fprintf(file,
                 "%s  {\"problem\": \"%s\", \"op\": \"%s\", \"pass\": \"%s\", \"dtype\": \"%s\", "
                 "\"param_dtype\": \"%s\", \"device\": \"%s\", \"rows\": %lld, \"cols\": %lld, "
                 "\"threads\": %d, \"median_seconds\": %.9g, \"best_seconds\": %.9g, "
                 "\"minimal_bytes\": %.0f, \"copy_seconds\": %.9g, \"copy_bytes\": %.0f, "
                 "\"gigabytes_per_second\": %.6g, \"copy_gigabytes_per_second\": %.6g, "
                 "\"share_of_copy\": %.6g}",
                 separator, to_string(problem).c_str(), operation_of(problem).c_str(),
                 to_string(problem.pass).c_str(), name_of(problem.x_dtype),
                 name_of(problem.param_dtype), device.c_str(), static_cast<long long>(problem.rows),
                 static_cast<long long>(problem.cols), m.threads, m.seconds, m.best_seconds,
                 m.minimal_bytes, m.copy_seconds, m.copy_bytes, m.gigabytes_per_second(),
                 m.copy_gigabytes_per_second(), m.share_of_copy());
    separator = ",\n";
  }
  std::fprintf(file, "\n]\n");
  return std::fclose(file) == 0;
}

}  // namespace fusednorm::bench
