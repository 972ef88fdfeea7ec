// SPDX-License-Identifier: Apache-2.0
// Replays traced warps on a few multiprocessors, in the order of time.
#include "time_model.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <queue>

#include "replayed.h"
#include "statements.h"

namespace fusednorm::cost {
namespace {

using Step = FusednormEmulatorStep;

// Assumptions that are the same for all devices, in cycles or bytes a cycle.
constexpr double l1_sectors_a_cycle = 4;    // 128 bytes, shared memory's width too
constexpr double port_bytes_a_cycle = 64;   // between a multiprocessor and the L2, each way
constexpr double memory_queue_cycles = 32;  // that loads, stores and shuffles may queue for
constexpr double branch_cycles = 4;         // until a warp issues what follows a branch
constexpr double block_start_cycles = 300;  // from a block's end to the start of the next
constexpr double start_skew_cycles = 400;   // multiprocessors do not start at once

class Replay {
 public:
  Replay(const Gpu& gpu, const TracedLaunch& traced, const Prepared& prepared, MemoryOptions memory)
      : gpu_(gpu),
        traced_(traced),
        prepared_(prepared),
        unlimited_(memory.unlimited),
        sets_(traced.launch),
        memory_(gpu, static_cast<double>(sets_.replayed) / static_cast<double>(sets_.sets),
                memory) {
    const std::size_t count = sets_.replayed * static_cast<std::size_t>(sets_.cluster_blocks);
    multiprocessors_.resize(count);
    schedulers_.resize(4 * count);
  }

  LaunchTime run() {
    for (std::size_t k = 0; k < sets_.replayed; ++k) {
      turns_.push_back(0);
      const double skew = start_skew_cycles * static_cast<double>(k * 5 % 8) / 8;
      for (int slot = 0; slot < sets_.blocks_at_once; ++slot) start_next(k, skew + 16 * slot);
    }
    while (!events_.empty()) {
      const auto [time, scheduler] = events_.top();
      events_.pop();
      turn(scheduler, time);
    }
    return result();
  }

 private:
  struct Scheduler {
    std::vector<Warp*> warps;
    double free = 0, pipes[kPipes] = {};
    double planned = -1;  ///< its event
  };
  struct Multiprocessor {
    double memory_free = 0, load_port = 0, store_port = 0;
    std::size_t warps = 0;  ///< that were ever placed on it
  };
  struct Flight {
    double issued, arrives, bytes;
  };
  using Event = std::pair<double, int>;

  // ---- Clusters come and go
  void start_next(std::size_t set, double time) {
    const std::uint64_t first = sets_.set(set), turn = turns_[set];
    if (turn >= sets_.turns(first)) return;
    ++turns_[set];
    const std::uint64_t traced_count = std::min(sets_.turns(first), traced_turns);
    const auto found = prepared_.clusters.find(first + turn % traced_count * sets_.sets);
    if (found == prepared_.clusters.end()) return;
    const TracedCluster& traced = found->second;
    auto& cluster = *clusters_.emplace_back(std::make_unique<Cluster>());
    cluster.set = set;
    for (const std::uint32_t arrivals : traced.arrivals) {
      cluster.signals.emplace_back();
      cluster.signals.back().missing = arrivals;
    }
    for (const auto& [place, ops] : traced.warps) {
      const std::size_t multiprocessor =
          set * static_cast<std::size_t>(sets_.cluster_blocks) + place.first;
      Warp& warp = cluster.warps.emplace_back();
      warp.ops = &ops;
      warp.cluster = &cluster;
      warp.scheduler =
          static_cast<int>(4 * multiprocessor + multiprocessors_[multiprocessor].warps++ % 4);
      warp.registers.assign(traced_.trace.register_count, 0);
      warp.prefetches.resize(traced_.trace.array_count);
      ++cluster.running;
      ++running_;
      schedulers_[static_cast<std::size_t>(warp.scheduler)].warps.push_back(&warp);
      advance(warp, time);
    }
  }

  void finish(Warp& warp, double time) {
    auto& list = schedulers_[static_cast<std::size_t>(warp.scheduler)].warps;
    list.erase(std::find(list.begin(), list.end(), &warp));
    end_ = std::max(end_, time);
    --running_;
    Cluster& cluster = *warp.cluster;
    if (--cluster.running) return;
    cluster.signals.clear();
    for (Warp& done : cluster.warps) done.registers = {};
    start_next(cluster.set, time + block_start_cycles);
  }

  // ---- Warps
  /// Sets when the warp's next instruction may issue, not before `time`; moves cost nothing.
  void advance(Warp& warp, double time) {
    warp.waits = false;
    for (;; ++warp.at) {
      if (warp.at == warp.ops->size()) return finish(warp, time);
      const Op& op = (*warp.ops)[warp.at];
      double ready = time;
      for (std::uint32_t r = 0; r < op.statement->reads; ++r)
        ready = std::max(ready, warp.registers[op.statement->registers[r]]);
      if (op.cost->slots > 0) {
        warp.ready = ready;
        return plan(warp.scheduler, ready);
      }
      write(warp, op, ready);
    }
  }

  static void write(Warp& warp, const Op& op, double time) {
    const FusednormEmulatorStatement& statement = *op.statement;
    for (std::uint32_t r = statement.reads; r < statement.reads + statement.writes; ++r)
      warp.registers[statement.registers[r]] = time;
  }

  void plan(int scheduler, double time) {
    Scheduler& s = schedulers_[static_cast<std::size_t>(scheduler)];
    if (s.planned >= 0 && s.planned <= time) return;
    s.planned = time;
    events_.push({time, scheduler});
  }

  /// A scheduler issues what has been ready longest, or comes back when something is.
  void turn(int number, double time) {
    Scheduler& s = schedulers_[static_cast<std::size_t>(number)];
    if (s.planned != time) return;  // planned anew since
    s.planned = -1;
    Warp* best = nullptr;
    double earliest = 0;
    for (Warp* warp : s.warps) {
      if (warp->waits) continue;
      const StatementCost& cost = *(*warp->ops)[warp->at].cost;
      double at = std::max({warp->ready, s.free, time});
      if (cost.pipe != kNoPipe) at = std::max(at, s.pipes[cost.pipe]);
      if (!best || at < earliest || (at == earliest && warp->last < best->last)) {
        best = warp;
        earliest = at;
      }
    }
    if (!best) return;
    if (earliest > time) return plan(number, earliest);
    best->last = ++chosen_;
    issue(s, *best, time);
    if (!s.warps.empty()) plan(number, s.free);
  }

  void issue(Scheduler& s, Warp& warp, double time) {
    const Op& op = (*warp.ops)[warp.at++];
    const StatementCost& cost = *op.cost;
    const double slots = op.step->continues ? 0 : cost.slots;
    s.free = time + slots;
    slots_ += slots;
    if (cost.pipe != kNoPipe) {
      s.pipes[cost.pipe] = time + std::max(slots, cost.pipe_cycles);
      pipe_cycles_[cost.pipe] += cost.pipe_cycles;
    }
    double next = time + slots;
    if (op.step->lanes != 0) {
      const double result = carry_out(s, warp, op, time, next);
      write(warp, op, result);
      if (op.arrives) arrive(*warp.cluster, op.arrives, arrival_);
      if (op.waits && !wait(warp, op, time, next)) return;
    } else {
      write(warp, op, time + cost.latency);
    }
    advance(warp, next);
  }

  /// What an instruction does to memory; returns when its result is there, and leaves in arrival_
  /// when it arrives at its signal.
  double carry_out(Scheduler& s, Warp& warp, const Op& op, double time, double& next) {
    const Step& step = *op.step;
    Multiprocessor& m = multiprocessors_[static_cast<std::size_t>(warp.scheduler) / 4];
    arrival_ = time;
    double result = time + op.cost->latency;
    switch (op.cost->kind) {
      case Kind::GlobalLoad:
        result = load(m, step, queue(s, m, time, step.sectors / l1_sectors_a_cycle));
        if (step.l2_sectors > 0) result = std::max(result, warp.prefetches[step.array].load());
        break;
      case Kind::Prefetch:
        warp.prefetches[step.array].add(
            ask_l2(step, queue(s, m, time, step.sectors / l1_sectors_a_cycle)));
        break;
      case Kind::GlobalStore:
        store(s, m, step, queue(s, m, time, step.sectors / l1_sectors_a_cycle));
        break;
      case Kind::SharedLoad:
      case Kind::SharedStore:
      case Kind::Shuffle:
        result = queue(s, m, time, step.wavefronts) +
                 (step.remote ? gpu_.remote_latency : op.cost->latency);
        break;
      case Kind::CopyAsync:
        warp.open_copies = std::max(
            warp.open_copies,
            load(m, step, queue(s, m, time, step.sectors / l1_sectors_a_cycle + step.wavefronts)));
        break;
      case Kind::CopyCommit:
        warp.copies.push_back(warp.open_copies);
        warp.open_copies = 0;
        break;
      case Kind::CopyWait:
        next = std::max(next, wait_for_copies(warp, step.value));
        break;
      case Kind::CopySignal:
        arrival_ = std::max(time, warp.open_copies);
        break;
      case Kind::BulkLoad:
        arrival_ = load(m, step, time);
        break;
      case Kind::BulkStore:
        store(s, m, step, time);
        warp.open_copies = std::max(warp.open_copies, time + step.sectors / l1_sectors_a_cycle);
        break;
      case Kind::RemoteStore:
        arrival_ = queue(s, m, time, 1) + gpu_.remote_latency;
        break;
      case Kind::Barrier:
        if (step.remote) arrival_ += gpu_.remote_latency;
        if (op.cost->releases) arrival_ += gpu_.l2_latency;
        break;
      case Kind::Fence:
        if (op.cost->releases) next = time + gpu_.l2_latency;
        break;
      case Kind::LaunchWait:
        launch_waited_ = launch_waited_ < 0 ? time : std::min(launch_waited_, time);
        break;
      case Kind::Branch:
        next = time + branch_cycles;
        break;
      default:
        break;
    }
    return result;
  }

  static double wait_for_copies(Warp& warp, std::uint32_t left) {
    const std::size_t done = warp.copies.size() - std::min<std::size_t>(left, warp.copies.size());
    double there = 0;
    for (std::size_t k = 0; k < done; ++k) there = std::max(there, warp.copies[k]);
    warp.copies.erase(warp.copies.begin(), warp.copies.begin() + static_cast<std::ptrdiff_t>(done));
    return there;
  }

  // ---- Signals
  void arrive(Cluster& cluster, std::uint32_t number, double time) {
    Signal& signal = cluster.signals[number - 1];
    signal.given = std::max(signal.given, time);
    if (--signal.missing) return;
    const std::vector<Warp*> waiting = std::move(signal.waiting);
    const double given = signal.given;
    for (Warp* warp : waiting) advance(*warp, std::max(warp->ready, given + warp->wake));
  }

  /// False if the warp must be woken.
  bool wait(Warp& warp, const Op& op, double time, double& next) {
    Signal& signal = warp.cluster->signals[op.waits - 1];
    warp.wake = op.cost->latency;
    if (signal.missing == 0) {
      next = std::max(next, signal.given + warp.wake);
      return true;
    }
    warp.ready = std::max(next, time + warp.wake);
    warp.waits = true;
    signal.waiting.push_back(&warp);
    return false;
  }

  // ---- Memory
  /// Takes the path to L1 and shared memory for so many cycles; returns when it is through.
  double queue(Scheduler& s, Multiprocessor& m, double time, double cycles) {
    cycles = std::max(1.0, cycles);
    m.memory_free = std::max(m.memory_free, time) + cycles;
    memory_cycles_ += cycles;
    s.pipes[kMemory] = std::max(s.pipes[kMemory], m.memory_free - memory_queue_cycles);
    return m.memory_free;
  }

  /// When the sectors of a load are there.
  double load(Multiprocessor& m, const Step& step, double time) {
    if (step.l2_sectors == 0) return time + gpu_.l1_latency;
    double done = ask_l2(step, time);
    if (!unlimited_) {
      m.load_port = std::max(m.load_port, time) + 32.0 * step.l2_sectors / port_bytes_a_cycle;
      done = std::max(done, m.load_port + gpu_.l2_latency);
    }
    return done;
  }

  /// When the L2 has them.
  double ask_l2(const Step& step, double time) {
    const double dram = prepared_.cached[step.array] ? 0 : 32.0 * step.new_sectors;
    const double done = memory_.load(time, 32.0 * step.l2_sectors, dram);
    if (dram > 0) flights_.push_back({time, done, dram});
    return done;
  }

  void store(Scheduler& s, Multiprocessor& m, const Step& step, double time) {
    const double bytes = 32.0 * step.sectors;
    memory_.store(time, bytes, 32.0 * step.new_sectors);
    if (unlimited_) return;
    m.store_port = std::max(m.store_port, time) + bytes / port_bytes_a_cycle;
    s.pipes[kMemory] = std::max(s.pipes[kMemory], m.store_port - 8 * memory_queue_cycles);
  }

  LaunchTime result() const {
    LaunchTime out;
    const double count = static_cast<double>(multiprocessors_.size());
    const double span = std::max(1.0, memory_.end(end_) - std::max(0.0, launch_waited_));
    out.complete = running_ == 0;
    out.seconds = span / gpu_.clock;
    out.dram_bytes = memory_.dram_bytes() * static_cast<double>(sets_.sets) /
                     static_cast<double>(sets_.replayed);
    out.dram_busy = memory_.dram_cycles() / span;
    out.issue_busy = slots_ / (4 * count * span);
    out.shared_busy = memory_cycles_ / (count * span);
    for (const double cycles : pipe_cycles_)
      out.pipe_busy = std::max(out.pipe_busy, cycles / (4 * count * span));
    out.bytes_in_flight = in_flight() / count;
    return out;
  }

  double in_flight() const {
    if (flights_.empty()) return 0;
    double first = flights_[0].issued, last = first, sum = 0;
    for (const Flight& f : flights_) {
      first = std::min(first, f.issued);
      last = std::max(last, f.issued);
    }
    if (last <= first) return 0;
    for (const Flight& f : flights_) sum += f.bytes * (std::min(f.arrives, last) - f.issued);
    return sum / (last - first);
  }

  const Gpu& gpu_;
  const TracedLaunch& traced_;
  const Prepared& prepared_;
  const bool unlimited_;
  const Sets sets_;
  MemoryModel memory_;
  std::vector<Multiprocessor> multiprocessors_;
  std::vector<Scheduler> schedulers_;
  std::vector<std::uint64_t> turns_;  ///< clusters started, by set
  std::vector<std::unique_ptr<Cluster>> clusters_;
  std::priority_queue<Event, std::vector<Event>, std::greater<Event>> events_;
  std::vector<Flight> flights_;
  std::uint64_t chosen_ = 0;
  double arrival_ = 0, end_ = 0, launch_waited_ = -1;
  double slots_ = 0, memory_cycles_ = 0, pipe_cycles_[kPipes] = {};
  std::size_t running_ = 0;  ///< warps
};

}  // namespace

LaunchTime replay(const Gpu& gpu, const TracedLaunch& launch, const Prepared& prepared,
                  MemoryOptions memory) {
  return Replay(gpu, launch, prepared, memory).run();
}

}  // namespace fusednorm::cost
