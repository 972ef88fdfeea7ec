// SPDX-License-Identifier: Apache-2.0
// Prints measurements: a table for people, JSON for machines, a progress line on a terminal.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "measure.h"

namespace fusednorm::bench {

struct Row {
  problems::Problem problem;
  Measurement measurement;
};

void print_header();
void print_row(const Row& row);

/// Overwrites one line of a terminal; silent when the output is none.
class Progress {
 public:
  explicit Progress(std::size_t total);
  void show(std::size_t done, const problems::Problem& problem) const;
  void clear() const;

 private:
  std::size_t total_;
  bool terminal_;
};

/// Returns false when the file cannot be written.
bool write_json(const std::string& path, const std::vector<Row>& rows, const std::string& device);

}  // namespace fusednorm::bench
