// SPDX-License-Identifier: Apache-2.0
// Writes and compares figures.
#include "recorded.h"

#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

#include "problems/shapes.h"

namespace fusednorm::cost {
namespace {

struct Figure {
  const char* name;
  double Cost::*value;
  bool more_is_better = false;
  double slack = 0;  ///< of the value, beside half of the last digit
};

/// The figures that a change may not make worse. All but the last are counts, the same on every
/// machine; the last is a replay in double, which compilers may round in their own way.
constexpr Figure figures[] = {{"instructions", &Cost::instructions},
                              {"issue_slots", &Cost::issue_slots},
                              {"dram_bytes_over_minimum", &Cost::dram_bytes_over_minimum},
                              {"l2_reads_over_minimum", &Cost::l2_reads_over_minimum},
                              {"shared_conflicts", &Cost::shared_conflicts},
                              {"barriers_per_row", &Cost::barriers_per_row},
                              {"shuffles_per_row", &Cost::shuffles_per_row},
                              {"in_flight_over_needed", &Cost::in_flight_over_needed, true, 0.01}};

bool is_worse(const Figure& figure, double value, double recorded) {
  const double half_a_digit = 0.5e-4, slack = half_a_digit + figure.slack * recorded;
  return figure.more_is_better ? value < recorded - slack : value > recorded + slack;
}

std::string key_of(const Problem& problem, const Device& device) {
  return "sm_" + std::to_string(device.compute_capability) + "/" +
         std::to_string(device.multiprocessors) + " " + to_string(problem);
}

std::map<std::string, std::string> read(const std::string& path) {
  std::map<std::string, std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t comma = line.find(',');
    lines[line.substr(0, comma)] = line.substr(comma + 1);
  }
  return lines;
}

/// Four decimals: counts are exact, and a figure is a count over elements or rows.
std::string line_of(const Cost& cost) {
  std::ostringstream out;
  out.precision(4);
  out << std::fixed << cost.launches;
  for (const Figure& figure : figures) out << ',' << cost.*figure.value;
  return out.str();
}

}  // namespace

std::vector<Problem> recorded_problems() {
  std::vector<Problem> all;
  for (const std::string pass : {"forward", "backward"}) {
    const auto add = [&](const std::string& dtype, const char* list) {
      for (const auto& shape : problems::listed_shapes(list)) {
        all.push_back(problems::parse(pass + ":" + dtype + ":" + shape.name));
      }
    };
    add("f32", "peer");
    add("bf16", "peer");
    add("f32", "cost");
    all.push_back(problems::parse(pass + ":f32:bert-large:offset=1"));
    all.push_back(problems::parse(pass + ":bf16:bert-large:offset=1"));
    all.push_back(problems::parse(pass + ":bf16:odd-1023"));
    // The family: RMSNorm, the residual of both norms, heads of 128 columns, and heads that have
    // weights of their own.
    for (const char* member :
         {":f32:bert-large:op=rms_norm", ":bf16:llama-7b:op=rms_norm",
          ":bf16:llama-7b:op=rms_norm:residual=bf16", ":bf16:bert-large:residual=bf16",
          ":bf16:65536x128:op=rms_norm", ":bf16:65536x128:op=rms_norm:groups=32"}) {
      all.push_back(problems::parse(pass + member));
    }
  }
  return all;
}

std::vector<Problem> width_problems() {
  std::vector<Problem> all;
  for (const auto& shape : problems::listed_shapes("width")) {
    for (const char* dtype : {":f32:", ":bf16:"}) {
      for (const std::string pass : {"forward", "backward"})
        all.push_back(problems::parse(pass + dtype + shape.name));
    }
  }
  return all;
}

bool write_json(const std::string& path, const std::vector<Row>& rows, const Device& device) {
  std::ofstream file(path);
  file << "[";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& [problem, cost] = rows[i];
    file << (i ? ",\n" : "\n") << "  {\"problem\": \"" << to_string(problem)
         << "\", \"compute_capability\": " << device.compute_capability
         << ", \"multiprocessors\": " << device.multiprocessors
         << ", \"launches\": " << cost.launches << ", \"blocks\": " << cost.blocks
         << ", \"threads_per_block\": " << cost.threads_per_block
         << ", \"sectors_per_request\": " << cost.sectors_per_request;
    for (const Figure& figure : figures)
      file << ", \"" << figure.name << "\": " << cost.*figure.value;
    file << ", \"bytes_in_flight\": " << cost.bytes_in_flight
         << ", \"bytes_in_flight_needed\": " << cost.bytes_in_flight_needed;
    file << ", \"plan\": \"" << cost.explanation << "\"}";
  }
  file << "\n]\n";
  return static_cast<bool>(file);
}

bool write_recorded(const std::string& path, const std::vector<Row>& rows, const Device& device) {
  auto lines = read(path);
  for (const Row& row : rows) lines[key_of(row.problem, device)] = line_of(row.cost);
  std::ofstream file(path);
  file << "# What the CUDA kernels cost, counted on the emulated device. Written by "
          "fusednorm-cuda-cost --record.\n"
          "# device problem,launches";
  for (const Figure& figure : figures) file << ',' << figure.name;
  file << '\n';
  for (const auto& [key, line] : lines) file << key << ',' << line << '\n';
  return static_cast<bool>(file);
}

int compare(const std::string& path, const std::vector<Row>& rows, const Device& device) {
  const auto lines = read(path);
  int worse = 0;
  for (const Row& row : rows) {
    const std::string key = key_of(row.problem, device);
    const auto found = lines.find(key);
    if (found == lines.end()) {
      std::printf("%s: not recorded in %s; --record adds it\n", key.c_str(), path.c_str());
      ++worse;
      continue;
    }
    std::istringstream fields(found->second);
    std::string field;
    std::getline(fields, field, ',');
    if (row.cost.launches > std::stoi(field)) {
      std::printf("%s: %d launches, recorded %s\n", key.c_str(), row.cost.launches, field.c_str());
      ++worse;
    }
    for (const Figure& figure : figures) {
      if (!std::getline(fields, field, ',')) {
        std::printf("%s: %s is not recorded; --record adds it\n", key.c_str(), figure.name);
        ++worse;
      } else if (is_worse(figure, row.cost.*figure.value, std::stod(field))) {
        std::printf("%s: %s %.4f, recorded %s\n", key.c_str(), figure.name, row.cost.*figure.value,
                    field.c_str());
        ++worse;
      }
    }
  }
  if (worse > 0) {
    std::printf(
        "%d figures are worse than recorded. If that is meant, record them anew and say why.\n",
        worse);
  }
  return worse > 0 ? 1 : 0;
}

}  // namespace fusednorm::cost
