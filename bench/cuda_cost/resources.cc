// SPDX-License-Identifier: Apache-2.0
// Finds the PTX in this program, gives it to ptxas -v and reads the answer.
#include "resources.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>

namespace fusednorm::cost {
namespace {

std::string run(const std::string& command) {
  std::string output;
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return output;
  char buffer[4096];
  while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) output.append(buffer, n);
  pclose(pipe);
  return output;
}

/// What `ptxas -v` says of each kernel.
std::vector<std::pair<std::string, Resources>> read(const std::string& output) {
  const std::regex entry(
      "entry function '([^']+)'[^\\n]*\\n[^\\n]*\\n\\s*([0-9]+) bytes stack frame, ([0-9]+) "
      "bytes spill stores, "
      "([0-9]+) bytes spill loads\\n[^\\n]*Used ([0-9]+) registers");
  std::vector<std::pair<std::string, Resources>> kernels;
  for (std::sregex_iterator it(output.begin(), output.end(), entry), end; it != end; ++it) {
    const std::smatch& m = *it;
    Resources resources;
    resources.stack_bytes = std::stoi(m[2]);
    resources.spill_bytes = std::stoi(m[3]) + std::stoi(m[4]);
    resources.registers = std::stoi(m[5]);
    kernels.emplace_back(m[1], resources);
  }
  return kernels;
}

}  // namespace

/// The program was built with uncompressed PTX: the modules stand in it as text.
Assembler::Assembler() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::string image((std::istreambuf_iterator<char>(file)), {});
  for (std::size_t at = image.find(".version "); at != std::string::npos;
       at = image.find(".version ", at + 1)) {
    const std::string text = image.substr(at, image.find('\0', at) - at);
    std::smatch target;
    const std::string head = text.substr(0, 200);
    if (text.size() > 1000 &&
        std::regex_search(head, target, std::regex("\\.target sm_([0-9]+)"))) {
      modules_.push_back({std::stoi(target[1]), text});
    }
  }
}

int Assembler::best_target(int architecture) const {
  int best = 0;
  for (const Module& module : modules_) {
    if (module.target <= architecture) best = std::max(best, module.target);
  }
  return best;
}

std::vector<std::pair<std::string, Resources>> Assembler::assemble(const std::string& name,
                                                                   int architecture,
                                                                   std::string* error) const {
  std::vector<std::pair<std::string, Resources>> result;
  const int target = best_target(architecture);
  if (target == 0)
    return *error = "no PTX for sm_" + std::to_string(architecture) + " in this program", result;
  char path[] = "/tmp/fusednorm-cost-XXXXXX";
  const int descriptor = mkstemp(path);
  if (descriptor < 0) return *error = "no room for a temporary file", result;
  close(descriptor);
  for (const Module& module : modules_) {
    if (module.target != target ||
        (!name.empty() && module.text.find(".entry " + name + "(") == std::string::npos)) {
      continue;
    }
    std::ofstream(path) << module.text;
    const std::string output = run("ptxas -v -arch=sm_" + std::to_string(architecture) +
                                   (name.empty() ? "" : " -e " + name) + " -o /dev/null " + path);
    for (auto& kernel : read(output)) result.push_back(std::move(kernel));
    if (result.empty()) *error = output.substr(0, 400);
    if (!name.empty()) break;
  }
  std::remove(path);
  return result;
}

int Assembler::registers_of(const std::string& name, int architecture) {
  const auto [found, added] = known_registers_.emplace(std::make_pair(name, architecture), 0);
  std::string error;
  if (added) {
    const auto kernels = assemble(name, architecture, &error);
    if (!kernels.empty())
      found->second = kernels[0].second.registers;
    else
      std::fprintf(stderr,
                   "fusednorm-cuda-cost: no registers of %s for sm_%d, so occupancy is by threads "
                   "and shared memory alone: %s\n",
                   name.c_str(), architecture, error.c_str());
  }
  return found->second;
}

int resident_blocks(const Resources& resources, int threads, int architecture) {
  // Registers come in units of 8 a thread; 64 K a multiprocessor on all of these. Threads: 1024 on
  // 75, 1536 on 86, 89 and 120, 2048 on 80, 90 and 100.
  const int registers = std::max(1, (resources.registers + 7) / 8 * 8);
  const int most = architecture == 75                                                ? 1024
                   : architecture == 80 || architecture == 90 || architecture == 100 ? 2048
                                                                                     : 1536;
  return std::min(65536 / (registers * threads), most / threads);
}

void print_resources(const Row& row, const Assembler& assembler) {
  std::printf("\n%s: %s\n", to_string(row.problem).c_str(), row.cost.explanation.c_str());
  for (const int architecture : architectures) {
    std::string error;
    const auto found = assembler.assemble(row.cost.kernels[0], architecture, &error);
    if (found.empty()) {
      std::printf("  sm_%-3d %s\n", architecture, error.c_str());
      continue;
    }
    const Resources& r = found[0].second;
    const int blocks = resident_blocks(r, row.cost.threads_per_block, architecture);
    const int in_flight = blocks * row.cost.threads_per_block * row.cost.load_bytes_per_thread;
    std::printf(
        "  sm_%-3d %3d registers, %d bytes spilled, %d stack; %d blocks, %d warps and %.0f KB of "
        "loads in flight\n",
        architecture, r.registers, r.spill_bytes, r.stack_bytes, blocks,
        blocks * row.cost.threads_per_block / 32, in_flight / 1024.0);
  }
}

int check_spills(const std::vector<int>& on, const Assembler& assembler) {
  int bad = 0;
  for (const int architecture : on) {
    std::string error;
    const auto kernels = assembler.assemble("", architecture, &error);
    if (kernels.empty()) return std::printf("sm_%d: %s\n", architecture, error.c_str()), 1;
    int most = 0;
    for (const auto& [name, resources] : kernels) {
      most = std::max(most, resources.registers);
      if (resources.spill_bytes == 0 && resources.stack_bytes == 0) continue;
      ++bad;
      std::printf("sm_%d: %s: %d bytes spilled, %d bytes of stack\n", architecture, name.c_str(),
                  resources.spill_bytes, resources.stack_bytes);
    }
    std::printf("sm_%d: %zu kernels, at most %d registers\n", architecture, kernels.size(), most);
  }
  std::printf("%d kernels spill\n", bad);
  return bad > 0 ? 1 : 0;
}

}  // namespace fusednorm::cost
