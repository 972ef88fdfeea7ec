// SPDX-License-Identifier: Apache-2.0
// fusednorm-cuda-cost: what the CUDA kernels cost, counted on the emulated device, and what that
// leaves on real ones.
#include <cstdio>
#include <cstdlib>
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

struct Arguments {
  Device device;
  std::vector<int> assembled{std::begin(architectures), std::end(architectures)};  ///< by --spills
  std::vector<Problem> problems;  ///< empty: the recorded ones
  std::string json, check, record, subject;
  bool help = false, ptxas = false, spills = false, model = false, published = false;
};

/// Fills `arguments`; returns a sentence about the first mistake, or nothing.
std::string parse(int argc, char** argv, Arguments* arguments) {
  Device& device = arguments->device;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const auto value = [&]() -> const char* { return i + 1 < argc ? argv[++i] : ""; };
    Problem problem;
    if (option == "--help")
      arguments->help = true;
    else if (option == "--architecture")
      arguments->assembled = {device.compute_capability = std::atoi(value())};
    else if (option == "--multiprocessors")
      device.multiprocessors = std::atoi(value());
    else if (option == "--widths")
      arguments->problems = width_problems(), device.multiprocessors = width_multiprocessors;
    else if (option == "--ptxas")
      arguments->ptxas = true;
    else if (option == "--spills")
      arguments->spills = true;
    else if (option == "--model")
      arguments->model = true;
    else if (option.rfind("--published", 0) == 0 && (option.size() == 11 || option[11] == '='))
      arguments->published = true, arguments->subject = option.size() > 12 ? option.substr(12) : "";
    else if (option == "--json")
      arguments->json = value();
    else if (option == "--check")
      arguments->check = value();
    else if (option == "--record")
      arguments->record = value();
    else if (option.rfind("--", 0) == 0)
      return option + ": unknown option; --help lists them";
    else if (std::string error; !fusednorm::problems::parse(option, &problem, &error))
      return error;
    else if (error = not_measured(problem, "fusednorm-cuda-cost"); !error.empty())
      return error;
    else
      arguments->problems.push_back(problem);
  }
  return device.compute_capability < 75 || device.multiprocessors < 1
             ? "expected --architecture of at least 75 and --multiprocessors of at least 1"
             : "";
}

void print(const Problem& problem, const Cost& cost) {
  std::printf(
      "%-28s %2d %6lld x %-4d %8.2f %8.2f %7.3f %7.3f %8.2f %8.3f %8.2f %8.2f %6.1f %6.2f %6.2f\n",
      to_string(problem).c_str(), cost.launches, static_cast<long long>(cost.blocks),
      cost.threads_per_block, cost.instructions, cost.issue_slots, cost.dram_bytes_over_minimum,
      cost.l2_reads_over_minimum, cost.sectors_per_request, cost.shared_conflicts,
      cost.barriers_per_row, cost.shuffles_per_row, cost.bytes_in_flight / 1024,
      cost.in_flight_over_needed, cost.in_flight_over_reads);
}

/// Counts and prints; returns a sentence about the first problem that fails, or nothing.
std::string count_all(const std::vector<Problem>& problems, const Device& device,
                      Assembler* assembler, std::vector<Row>* rows) {
  for (const Problem& problem : problems) {
    rows->push_back({problem, count(problem, device, assembler)});
    const std::string& error = rows->back().cost.error;
    if (!error.empty()) return to_string(problem) + ": " + error;
  }
  // After the counting: which addresses arrays have is part of what is recorded.
  for (Row& row : *rows) {
    const std::string error = add_bytes_in_flight(row.problem, device, assembler, &row.cost);
    if (!error.empty()) return to_string(row.problem) + ": " + error;
    print(row.problem, row.cost);
  }
  return "";
}

int fail(const std::string& mistake, int code = 2) {
  std::fprintf(stderr, "fusednorm-cuda-cost: %s\n", mistake.c_str());
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  const std::string mistake = parse(argc, argv, &arguments);
  if (arguments.help) return std::fputs(usage, stdout), 0;
  if (!mistake.empty()) return fail(mistake);
  Assembler assembler;
  const Device& device = arguments.device;
  if (arguments.spills) return check_spills(arguments.assembled, assembler);
  if (arguments.published) return print_published(arguments.subject, &assembler);
  if (arguments.problems.empty()) arguments.problems = recorded_problems();
  if (arguments.model) return print_model(arguments.problems, &assembler);
  std::printf(
      "sm_%d, %d multiprocessors. Instructions and slots an element; bytes and L2 reads over the "
      "minimum; KB of loads in flight\na multiprocessor on average, and over what Little's law "
      "asks for on the real device of that architecture, if all traffic were loads, and for the "
      "loads there are.\n",
      device.compute_capability, device.multiprocessors);
  std::printf("%-28s %2s %13s %8s %8s %7s %7s %8s %8s %8s %8s %6s %6s %6s\n", "problem", "n",
              "blocks", "instr", "slots", "bytes", "L2", "sec/req", "conflict", "bar/row",
              "shfl/row", "flight", "Little", "loads");
  std::vector<Row> rows;
  if (const auto error = count_all(arguments.problems, device, &assembler, &rows); !error.empty())
    return fail(error, 1);
  if (arguments.ptxas) {
    for (const Row& row : rows) print_resources(row, assembler);
    for (const Row& row : rows) print_bounds(row, &assembler);
  }
  if (!arguments.json.empty() && !write_json(arguments.json, rows, device))
    return fail("--json " + arguments.json + ": cannot be written");
  if (!arguments.record.empty() && !write_recorded(arguments.record, rows, device))
    return fail("--record " + arguments.record + ": cannot be written");
  return arguments.check.empty() ? 0 : compare(arguments.check, rows, device);
}
