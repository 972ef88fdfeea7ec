// SPDX-License-Identifier: Apache-2.0
// Classes of PTX statements, and a list scheduler in the place of ptxas's.
#include "statements.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

namespace fusednorm::cost {
namespace {

/// The words of an opcode: "ld.global.v4.f32".
struct Words {
  std::vector<std::string> words;
  explicit Words(const char* text) {
    std::string rest = text;
    for (std::size_t at; (at = rest.find('.')) != std::string::npos; rest = rest.substr(at + 1))
      words.push_back(rest.substr(0, at));
    words.push_back(rest);
  }
  const std::string& opcode() const { return words[0]; }
  bool has(const char* word) const {
    return std::find(words.begin(), words.end(), word) != words.end();
  }
  bool has_prefix(const char* prefix) const {
    return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
      return word.compare(0, std::strlen(prefix), prefix) == 0;
    });
  }
  bool is(std::initializer_list<const char*> names) const {
    return std::any_of(names.begin(), names.end(),
                       [&](const char* name) { return opcode() == name; });
  }
};

/// Cycles that a quarter of a multiprocessor takes for 32 threads at so many threads a cycle.
double cycles(double lanes) {
  return 32 / (lanes / 4);
}

constexpr double special_lanes = 16, convert_lanes = 64;  // a multiprocessor, all of these devices
constexpr double arithmetic_latency = 4, special_latency = 20, shuffle_latency = 24,
                 barrier_latency = 20, f64_latency = 16;

Kind copy_kind(const Words& words) {
  if (words.has("commit_group")) return Kind::CopyCommit;
  if (words.has("wait_group") || words.has("wait_all")) return Kind::CopyWait;
  if (words.has("mbarrier") && words.has("arrive")) return Kind::CopySignal;
  if (!words.has("bulk")) return Kind::CopyAsync;
  if (words.has("prefetch")) return Kind::Arithmetic;
  if (words.has("bulk_group")) return Kind::BulkStore;
  return words.has("global") ? Kind::BulkLoad : Kind::RemoteStore;
}

Kind kind_of(const Words& words) {
  if (words.is({"bra", "brx", "call", "ret", "exit"})) return Kind::Branch;
  if (words.opcode() == "cp") return copy_kind(words);
  if (words.is({"ld", "ldu"})) {
    if (words.has("param") || words.has("const") || words.has("local")) return Kind::Free;
    return words.has_prefix("shared") ? Kind::SharedLoad : Kind::GlobalLoad;
  }
  if (words.opcode() == "prefetch" && words.has("global") && words.has("L2")) return Kind::Prefetch;
  if (words.opcode() == "st") {
    if (words.has("param") || words.has("local")) return Kind::Free;
    if (words.has("async")) return Kind::RemoteStore;
    return words.has_prefix("shared") ? Kind::SharedStore : Kind::GlobalStore;
  }
  if (words.is({"atom", "red"}))
    return words.has_prefix("shared") ? Kind::SharedLoad : Kind::GlobalLoad;
  if (words.is({"shfl", "match", "vote", "redux", "activemask"})) return Kind::Shuffle;
  if (words.is({"bar", "barrier"})) {
    if (words.has("warp")) return Kind::Arithmetic;
    return words.has("cluster") && words.has("wait") ? Kind::Wait : Kind::Barrier;
  }
  if (words.opcode() == "mbarrier") {
    if (words.has("test_wait") || words.has("try_wait")) return Kind::Wait;
    return words.has("arrive") || words.has("arrive_drop") ? Kind::Barrier : Kind::SharedStore;
  }
  if (words.is({"membar", "fence"})) return Kind::Fence;
  if (words.opcode() == "griddepcontrol" && words.has("wait")) return Kind::LaunchWait;
  return Kind::Arithmetic;
}

void arithmetic_cost(const Words& words, const Gpu& gpu, double weight, StatementCost& out) {
  const bool wide = words.has("f64");
  const bool packed = words.has("f32x2");
  const bool floating = packed || words.has("f32") || words.has("f16") || words.has("f16x2") ||
                        words.has("bf16") || words.has("bf16x2");
  out.latency = arithmetic_latency;
  if (wide) {
    out.pipe = kF64;
    out.pipe_cycles = cycles(gpu.f64_lanes);
    out.latency = f64_latency;
  } else if (words.opcode() == "cvt") {
    out.pipe = kSpecial;
    out.pipe_cycles = cycles(convert_lanes);
    out.latency = 6;
  } else if (words.is({"rcp", "rsqrt", "sqrt", "ex2", "lg2", "sin", "cos", "tanh"})) {
    out.pipe = kSpecial;
    out.pipe_cycles = cycles(special_lanes);
    out.latency = special_latency;
  } else if (floating && words.is({"add", "sub", "mul", "fma", "mad", "neg", "abs"})) {
    out.pipe = kF32;
    out.pipe_cycles = cycles(gpu.f32_lanes) * (packed ? 2 : 1);
  } else {
    out.pipe = kInteger;
    const bool wide_integer = words.has("s64") || words.has("u64") || words.has("b64");
    out.slots = wide_integer ? 2 : 1;
    out.pipe_cycles = cycles(gpu.integer_lanes) * out.slots;
    out.latency = arithmetic_latency * out.slots;
  }
  if (weight > 1) {  // IEEE division and its kin: a routine of so many instructions
    out.slots = weight;
    out.pipe_cycles += (weight - 1) * cycles(gpu.f32_lanes);
    out.latency += weight * arithmetic_latency;
  }
}

}  // namespace

std::vector<StatementCost> costs_of(const FusednormEmulatorTrace& trace, const Gpu& gpu) {
  std::vector<StatementCost> all;
  for (std::size_t k = 0; k < trace.statement_count; ++k) {
    const FusednormEmulatorStatement& statement = trace.statements[k];
    const Words words(statement.text);
    StatementCost out;
    out.kind = kind_of(words);
    if (statement.weight == 0 && out.kind == Kind::Arithmetic) out.kind = Kind::Free;
    switch (out.kind) {
      case Kind::Free:
        out.slots = 0;
        break;
      case Kind::Arithmetic:
        arithmetic_cost(words, gpu, statement.weight, out);
        break;
      case Kind::SharedLoad:
        out.latency = gpu.shared_latency;
        out.pipe = kMemory;
        break;
      case Kind::Shuffle:
        out.latency = shuffle_latency;
        out.pipe = kMemory;
        break;
      case Kind::Barrier:
      case Kind::Wait:
        out.latency = barrier_latency;
        // barrier.cluster.arrive makes all stores visible to the cluster unless it is relaxed: a
        // fence of the device and a flush of the L1 in machine code.
        out.releases = words.has("cluster") && words.has("arrive") && words.opcode() == "barrier" &&
                       !words.has("relaxed");
        break;
      case Kind::Fence:
        out.releases = !words.has("proxy") && !words.has("mbarrier_init") && !words.has("cta");
        out.latency = barrier_latency;
        break;
      case Kind::Branch:
        out.slots = statement.weight ? 1 : 0;
        break;
      default:
        out.pipe = kMemory;
        break;
    }
    all.push_back(out);
  }
  return all;
}

namespace {

/// The latency that a scheduler of the compiler would plan with.
double planned(const StatementCost& cost) {
  if (cost.kind == Kind::GlobalLoad) return 300;
  return std::max(cost.latency, cost.slots);
}

bool reads_memory(Kind kind) {
  return kind == Kind::GlobalLoad || kind == Kind::SharedLoad;
}

/// Stores, copies, barriers: no two of them change places, and no load passes them.
bool keeps_place(Kind kind) {
  return kind != Kind::Free && kind != Kind::Arithmetic && kind != Kind::Shuffle &&
         !reads_memory(kind);
}

/// What a statement of a basic block must come after: with the result, or in order only.
struct Needs {
  std::vector<std::uint32_t> results, order;
};

std::vector<Needs> needs_of(const FusednormEmulatorTrace& trace,
                            const std::vector<StatementCost>& costs, std::uint32_t begin,
                            std::uint32_t end) {
  std::vector<Needs> all(end - begin);
  std::map<std::uint32_t, std::uint32_t> writer;  // by register
  std::map<std::uint32_t, std::vector<std::uint32_t>> readers;
  std::vector<std::uint32_t> loads;  // since the last statement that keeps its place
  std::uint32_t last_ordered = end;
  for (std::uint32_t k = begin; k < end; ++k) {
    const FusednormEmulatorStatement& statement = trace.statements[k];
    Needs& needs = all[k - begin];
    for (std::uint32_t r = 0; r < statement.reads; ++r) {
      const std::uint32_t reg = statement.registers[r];
      if (const auto found = writer.find(reg); found != writer.end())
        needs.results.push_back(found->second);
      readers[reg].push_back(k);
    }
    for (std::uint32_t r = statement.reads; r < statement.reads + statement.writes; ++r) {
      const std::uint32_t reg = statement.registers[r];
      if (const auto found = writer.find(reg); found != writer.end())
        needs.order.push_back(found->second);
      for (const std::uint32_t reader : readers[reg])
        if (reader != k) needs.order.push_back(reader);
      readers[reg].clear();
      writer[reg] = k;
    }
    const Kind kind = costs[k].kind;
    if ((keeps_place(kind) || reads_memory(kind)) && last_ordered != end)
      needs.order.push_back(last_ordered);
    if (keeps_place(kind)) {
      needs.order.insert(needs.order.end(), loads.begin(), loads.end());
      loads.clear();
      last_ordered = k;
    } else if (reads_memory(kind)) {
      loads.push_back(k);
    }
    if (statement.jumps)  // the last of its block
      for (std::uint32_t other = begin; other < k; ++other) needs.order.push_back(other);
  }
  return all;
}

/// Ranks of the statements of [begin, end): at each step the ready one with the longest way to go.
void schedule_block(const FusednormEmulatorTrace& trace, const std::vector<StatementCost>& costs,
                    std::uint32_t begin, std::uint32_t end, std::vector<Place>& places) {
  const std::uint32_t count = end - begin;
  const std::vector<Needs> needs = needs_of(trace, costs, begin, end);
  std::vector<std::vector<std::pair<std::uint32_t, double>>> after(count);  // and how much later
  std::vector<std::uint32_t> missing(count, 0);
  for (std::uint32_t k = 0; k < count; ++k) {
    for (const std::uint32_t other : needs[k].results)
      after[other - begin].push_back({k, planned(costs[other])});
    for (const std::uint32_t other : needs[k].order) after[other - begin].push_back({k, 0});
    missing[k] = static_cast<std::uint32_t>(needs[k].results.size() + needs[k].order.size());
  }
  std::vector<double> way(count, 0), ready(count, 0);
  for (std::uint32_t k = count; k-- > 0;) {
    for (const auto& [next, later] : after[k]) way[k] = std::max(way[k], way[next] + later);
    way[k] += costs[begin + k].slots;
  }
  std::vector<std::uint32_t> candidates;
  for (std::uint32_t k = 0; k < count; ++k)
    if (missing[k] == 0) candidates.push_back(k);
  double now = 0;
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    const auto better = [&](std::uint32_t a, std::uint32_t b) {
      const double ta = std::max(now, ready[a]), tb = std::max(now, ready[b]);
      if (ta != tb) return ta < tb;
      return way[a] != way[b] ? way[a] > way[b] : a < b;
    };
    const auto best = std::min_element(candidates.begin(), candidates.end(), better);
    const std::uint32_t chosen = *best;
    candidates.erase(best);
    places[begin + chosen] = {rank, begin};
    now = std::max(now, ready[chosen]);
    for (const auto& [next, later] : after[chosen]) {
      ready[next] = std::max(ready[next], now + std::max(later, costs[begin + chosen].slots));
      if (--missing[next] == 0) candidates.push_back(next);
    }
    now += costs[begin + chosen].slots;
  }
}

}  // namespace

std::vector<Place> schedule(const FusednormEmulatorTrace& trace,
                            const std::vector<StatementCost>& costs) {
  const std::uint32_t count = static_cast<std::uint32_t>(trace.statement_count);
  std::vector<bool> begins(count + 1, false);
  for (std::uint32_t k = 0; k < count; ++k) {
    if (trace.statements[k].jumps) begins[k + 1] = true;
    const std::uint32_t target = trace.statements[k].target;
    if (target < count) begins[target] = true;
    // What waits for other warps stays where it is, and all else on its side of it.
    const Kind kind = costs[k].kind;
    if (kind == Kind::Barrier || kind == Kind::Wait || kind == Kind::CopyWait ||
        kind == Kind::Fence || kind == Kind::LaunchWait)
      begins[k] = begins[k + 1] = true;
  }
  std::vector<Place> places(count);
  for (std::uint32_t begin = 0; begin < count;) {
    std::uint32_t end = begin + 1;
    while (end < count && !begins[end]) ++end;
    schedule_block(trace, costs, begin, end, places);
    begin = end;
  }
  return places;
}

}  // namespace fusednorm::cost
