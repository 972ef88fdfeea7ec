// SPDX-License-Identifier: Apache-2.0
// fusednorm-cuda-cost: what the CUDA kernels cost, counted on the emulated device, and what that
// leaves on real ones.
#include <cstdio>
#include <iterator>
#include <string>
#include <vector>

#include "bounds.h"
#include "count.h"
#include "model.h"
#include "published.h"
#include "recorded.h"
#include "resources.h"

using namespace fusednorm::cost;

namespace {

const char* usage =
    "fusednorm-cuda-cost [options] [PROBLEM …]\n"
    "  PROBLEM                as in backward:bf16:8192x1024:offset=1, see problems/problem.h; "
    "default: the recorded ones\n"
    "  --architecture CC      of the emulated device, 75 … 120; default 90\n"
    "  --multiprocessors N    default 132\n"
    "  --widths               the widths of models instead, f32 and bf16, on 16 multiprocessors\n"
    "  --ptxas                also registers, spills and occupancy of each architecture, from "
    "ptxas\n"
    "  --spills               only ask ptxas whether any kernel spills, on every architecture or "
    "on the one given; exit 1 if so\n"
    "  --model                only predict times on real devices, from traces: see "
    "docs/cost-model.md\n"
    "  --published[=NAME]     only hold the model against what is published for kernels of known "
    "structure\n"
    "  --json FILE            also write the figures there\n"
    "  --check FILE           compare with recorded figures; exit 1 where one is worse\n"
    "  --record FILE          write the figures as the recorded ones\n";

void print(const Problem& problem, const Cost& cost) {
  std::printf(
      "%-28s %2d %6lld x %-4d %8.2f %8.2f %7.3f %7.3f %8.2f %8.3f %8.2f %8.2f %6.1f %6.2f\n",
      to_string(problem).c_str(), cost.launches, static_cast<long long>(cost.blocks),
      cost.threads_per_block, cost.instructions, cost.issue_slots, cost.dram_bytes_over_minimum,
      cost.l2_reads_over_minimum, cost.sectors_per_request, cost.shared_conflicts,
      cost.barriers_per_row, cost.shuffles_per_row, cost.bytes_in_flight / 1024,
      cost.in_flight_over_needed);
}

int fail(const std::string& mistake) {
  std::fprintf(stderr, "fusednorm-cuda-cost: %s\n", mistake.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  Device device;
  bool ptxas = false, spills = false, timed = false, held = false;
  std::vector<int> assembled(std::begin(architectures), std::end(architectures));
  std::string json, check, record, subject;
  std::vector<Problem> problems;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const auto value = [&]() -> const char* { return i + 1 < argc ? argv[++i] : ""; };
    Problem problem;
    if (option == "--help") return std::fputs(usage, stdout), 0;
    if (option == "--architecture")
      assembled = {device.compute_capability = std::atoi(value())};
    else if (option == "--multiprocessors")
      device.multiprocessors = std::atoi(value());
    else if (option == "--widths")
      problems = width_problems(), device.multiprocessors = width_multiprocessors;
    else if (option == "--ptxas")
      ptxas = true;
    else if (option == "--spills")
      spills = true;
    else if (option == "--model")
      timed = true;
    else if (option.rfind("--published", 0) == 0 && (option.size() == 11 || option[11] == '='))
      held = true, subject = option.size() > 12 ? option.substr(12) : "";
    else if (option == "--json")
      json = value();
    else if (option == "--check")
      check = value();
    else if (option == "--record")
      record = value();
    else if (option.rfind("--", 0) == 0)
      return fail(option + ": unknown option; --help lists them");
    else if (std::string error; !fusednorm::problems::parse(option, &problem, &error))
      return fail(error);
    else if (error = refusal(problem); !error.empty())
      return fail(error);
    else
      problems.push_back(problem);
  }
  if (device.compute_capability < 75 || device.multiprocessors < 1) {
    return fail("expected --architecture of at least 75 and --multiprocessors of at least 1");
  }
  if (spills) return check_spills(assembled);
  if (problems.empty()) problems = recorded_problems();
  if (held) return print_published(subject);
  if (timed) return print_model(problems);
  std::printf(
      "sm_%d, %d multiprocessors. Instructions and slots an element; bytes and L2 reads over the "
      "minimum; KB of loads in flight\na multiprocessor on average, and over what Little's law "
      "asks "
      "for on the real device of that architecture.\n",
      device.compute_capability, device.multiprocessors);
  std::printf("%-28s %2s %13s %8s %8s %7s %7s %8s %8s %8s %8s %6s %6s\n", "problem", "n", "blocks",
              "instr", "slots", "bytes", "L2", "sec/req", "conflict", "bar/row", "shfl/row",
              "flight", "Little");
  std::vector<Row> rows;
  for (const Problem& problem : problems) {
    rows.push_back({problem, count(problem, device)});
    if (!rows.back().cost.error.empty()) {
      std::fprintf(stderr, "fusednorm-cuda-cost: %s: %s\n", to_string(problem).c_str(),
                   rows.back().cost.error.c_str());
      return 1;
    }
  }
  // After the counting: which addresses arrays have is part of what is recorded.
  for (Row& row : rows) {
    const std::string error = add_bytes_in_flight(row.problem, device, &row.cost);
    if (!error.empty()) return fail(to_string(row.problem) + ": " + error);
    print(row.problem, row.cost);
  }
  if (ptxas) {
    for (const Row& row : rows) print_resources(row);
    for (const Row& row : rows) print_bounds(row);
  }
  if (!json.empty() && !write_json(json, rows, device))
    return fail("--json " + json + ": cannot be written");
  if (!record.empty() && !write_recorded(record, rows, device))
    return fail("--record " + record + ": cannot be written");
  return check.empty() ? 0 : compare(check, rows, device);
}
