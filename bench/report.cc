// Prints measurements: a table for people, JSON for machines, a progress line on a terminal.
#include "report.h"

#include <unistd.h>

namespace fusednorm::bench {

void print_header() {
  std::printf("%-9s %-5s %-6s %10s %9s %7s %12s %9s %9s %14s\n", "pass", "dtype", "params", "rows",
              "cols", "threads", "microseconds", "GB/s", "copy GB/s", "share_of_copy");
}

void print_row(const Row& row) {
  const auto& [which, m] = row;
  std::printf("%-9s %-5s %-6s %10lld %9lld %7d ", name_of(which.pass),
              fusednorm::name_of(which.dtype), fusednorm::name_of(which.param_dtype),
              static_cast<long long>(which.shape.rows), static_cast<long long>(which.shape.cols),
              m.threads);
  if (!m.error.empty()) {
    std::printf("%s\n", m.error.c_str());
  } else {
    std::printf("%12.2f %9.2f %9.2f %14.3f\n", m.seconds * 1e6, m.gigabytes_per_second(),
                m.copy_gigabytes_per_second(), m.share_of_copy());
  }
  std::fflush(stdout);
}

Progress::Progress(std::size_t total) : total_(total), terminal_(isatty(fileno(stderr)) != 0) {}

void Progress::show(std::size_t done, const Case& which) const {
  if (!terminal_) return;
  std::fprintf(stderr, "\r\033[K[%zu/%zu] %s %s %lldx%lld", done + 1, total_, name_of(which.pass),
               fusednorm::name_of(which.dtype), static_cast<long long>(which.shape.rows),
               static_cast<long long>(which.shape.cols));
  std::fflush(stderr);
}

void Progress::clear() const {
  if (terminal_) std::fprintf(stderr, "\r\033[K");
}

bool write_json(const std::string& path, const std::vector<Row>& rows, const std::string& device) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (!file) return false;
  std::fprintf(file, "[");
  const char* separator = "\n";
  for (const auto& [which, m] : rows) {
    if (!m.error.empty()) continue;
    std::fprintf(file,
                 "%s  {\"op\": \"layer_norm\", \"pass\": \"%s\", \"dtype\": \"%s\", "
                 "\"param_dtype\": \"%s\", "
                 "\"device\": \"%s\", \"rows\": %lld, \"cols\": %lld, \"offset\": %lld, "
                 "\"row_stride\": %lld, "
                 "\"threads\": %d, \"seconds\": %.9g, \"gigabytes_per_second\": %.6g, "
                 "\"copy_gigabytes_per_second\": %.6g, \"share_of_copy\": %.6g}",
                 separator, name_of(which.pass), fusednorm::name_of(which.dtype),
                 fusednorm::name_of(which.param_dtype), device.c_str(),
                 static_cast<long long>(which.shape.rows), static_cast<long long>(which.shape.cols),
                 static_cast<long long>(which.offset), static_cast<long long>(which.row_stride),
                 m.threads, m.seconds, m.gigabytes_per_second(), m.copy_gigabytes_per_second(),
                 m.share_of_copy());
    separator = ",\n";
  }
  std::fprintf(file, "\n]\n");
  return std::fclose(file) == 0;
}

}  // namespace fusednorm::bench
