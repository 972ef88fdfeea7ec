// SPDX-License-Identifier: Apache-2.0
// Runs a launch: spreads its clusters over host threads, gives time slices to those that wait
// for others, collects faults.
#include "launch.h"

#include <algorithm>
#include <chrono>
#include <list>
#include <numeric>
#include <thread>

#include "block.h"
#include "memory_access.h"
#include "order.h"
#include "race_checker.h"
#include "trace.h"

namespace fusednorm::emulator {

namespace {

class Worker {
 public:
  Worker(Launch& launch, uint32_t index)
      : launch_(launch), stores_(launch.progress[index].stores) {}

  void run() {
    const uint64_t clusters = launch_.blocks() / launch_.cluster_blocks();
    while (!launch_.stop.load(std::memory_order_relaxed)) {
      if (resident_.empty() || want_more_) {
        if (resident_.size() < limit() && start_next(clusters))
          want_more_ = launch_.cooperative && resident_.size() < limit();
        else
          want_more_ = false;
        if (resident_.empty()) break;
        if (want_more_) continue;
      }
      run_slices();
    }
  }
  Counters counters;

 private:
  size_t limit() const {
    const uint64_t share =
        launch_.cooperative
            ? ~0u
            : std::max<uint64_t>(1, launch_.resident_clusters / launch_.host_threads);
    return static_cast<size_t>(
        std::min<uint64_t>(share, launch_.blocks() / launch_.cluster_blocks()));
  }

  bool start_next(uint64_t clusters) {
    uint64_t number = 0;
    int chosen = FUSEDNORM_EMULATOR_RUN;
    do {
      const uint64_t place = launch_.next_cluster.fetch_add(1);
      if (place >= clusters) return false;
      number = launch_.order(place, clusters);
      if (launch_.choice) chosen = launch_.choice(number);
    } while (chosen == FUSEDNORM_EMULATOR_SKIP);
    std::unique_ptr<Cluster> cluster;
    if (!spare_.empty()) {
      cluster = std::move(spare_.back());
      spare_.pop_back();
    } else {
      cluster = std::make_unique<Cluster>();
    }
    cluster->start(launch_, number, counters, stores_, chosen == FUSEDNORM_EMULATOR_TRACE);
    resident_.push_back(std::move(cluster));
    return true;
  }

  void run_slices() {
    bool all_stalled = true;
    // Alone, a cluster runs as long as it can; beside others each gets short time slices.
    const uint64_t rounds = resident_.size() == 1 && !launch_.cooperative ? 1000 : 1;
    for (auto it = resident_.begin(); it != resident_.end();) {
      Cluster& cluster = **it;
      bool done = false;
      try {
        done = cluster.run(rounds);
      } catch (const Fault& fault) {
        std::lock_guard<std::mutex> lock(launch_.fault_mutex);
        if (!launch_.fault) {
          launch_.fault = std::make_unique<Fault>(fault);
          launch_.fault_report = describe_fault(launch_, cluster.running, fault);
        }
        launch_.stop = true;
        return;
      }
      if (launch_.stop) return;
      if (done) {
        spare_.push_back(std::move(*it));
        it = resident_.erase(it);
        all_stalled = false;
      } else {
        all_stalled = all_stalled && cluster.stalled;
        ++it;
      }
    }
    if (resident_.empty()) return;
    want_more_ = resident_.size() < limit();
    if (!all_stalled) {
      if (idle_turns_ > 100) launch_.idle(this, false);
      idle_turns_ = 0;
      return;
    }
    // Everything here spins. Only a store by another host thread can help; give it time, then give
    // up.
    const uint64_t stores = launch_.stores();
    if (stores != idle_stores_) {
      if (idle_turns_ > 100) launch_.idle(this, false);
      idle_stores_ = stores;
      idle_turns_ = 0;
      return;
    }
    if (want_more_ && launch_.next_cluster.load() < launch_.blocks() / launch_.cluster_blocks())
      return;
    if (++idle_turns_ > 200) {
      if (launch_.busy_workers() == 0 || idle_turns_ > 20000) report_spin();
    }
    if (idle_turns_ > 100) {
      launch_.idle(this, true);
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  void report_spin() {
    for (const auto& cluster : resident_)
      for (Block& block : cluster->blocks)
        for (Warp& w : block.warps) {
          if (w.finished() || !w.spinning || w.groups.empty()) continue;
          std::lock_guard<std::mutex> lock(launch_.fault_mutex);
          if (!launch_.fault) {
            w.current = &launch_.program->code[w.snapshot_pc];
            launch_.fault =
                std::make_unique<Fault>(kErrorTimeout,
                                        "deadlock: the warp spins without progress; it repeats "
                                        "this loop with the same registers, and no thread of "
                                        "the launch will store anything",
                                        __builtin_ctz(w.snapshot_mask));
            launch_.fault_report = describe_fault(launch_, &w, *launch_.fault);
          }
          launch_.stop = true;
          return;
        }
  }

  Launch& launch_;
  std::atomic<uint64_t>& stores_;
  std::list<std::unique_ptr<Cluster>> resident_;
  std::vector<std::unique_ptr<Cluster>> spare_;
  bool want_more_ = false;
  uint64_t idle_stores_ = 0;
  uint64_t idle_turns_ = 0;
};

}  // namespace

uint64_t Launch::order(uint64_t place, uint64_t count) const {
  if (!seed || count < 2) return place;
  uint64_t step = (seed * 0x9e3779b97f4a7c15ull >> 20) % count | 1;
  while (std::gcd(step, count) != 1) step += 2;
  return static_cast<uint64_t>((static_cast<unsigned __int128>(place) * step + seed) % count);
}

uint64_t Launch::block_number(uint64_t number, uint32_t rank) const {
  const uint64_t across = grid[0] / cluster[0], down = grid[1] / cluster[1];
  const uint64_t x = number % across * cluster[0] + rank % cluster[0];
  const uint64_t y = number / across % down * cluster[1] + rank / cluster[0] % cluster[1];
  const uint64_t z = number / across / down * cluster[2] + rank / cluster[0] / cluster[1];
  return x + grid[0] * (y + grid[1] * z);
}

void Launch::idle(const void* worker, bool is_idle) {
  std::lock_guard<std::mutex> lock(fault_mutex);
  const auto at = std::find(idle_workers.begin(), idle_workers.end(), worker);
  if (is_idle && at == idle_workers.end()) idle_workers.push_back(worker);
  if (!is_idle && at != idle_workers.end()) idle_workers.erase(at);
}

uint32_t Launch::busy_workers() {
  std::lock_guard<std::mutex> lock(fault_mutex);
  return running_workers - static_cast<uint32_t>(idle_workers.size());
}

void run_launch(Launch& launch) {
  const uint64_t clusters = launch.blocks() / launch.cluster_blocks();
  // Blocks of a cooperative launch wait for each other; on one thread their time slices, and
  // so the counters, are always the same.
  const uint32_t threads =
      launch.cooperative || launch.trace
          ? 1
          : static_cast<uint32_t>(std::min<uint64_t>(launch.host_threads, clusters));
  launch.host_threads = threads;
  launch.progress = std::vector<Launch::Progress>(threads);
  std::vector<std::unique_ptr<Worker>> workers;
  for (uint32_t k = 0; k < threads; ++k) workers.push_back(std::make_unique<Worker>(launch, k));
  launch.running_workers = threads;
  GlobalFlags flags;
  launch.flags = &flags;
  std::vector<std::thread> others;
  auto body = [&](Worker& worker) {
    worker.run();
    std::lock_guard<std::mutex> lock(launch.fault_mutex);
    --launch.running_workers;
  };
  for (uint32_t k = 1; k < threads; ++k) others.emplace_back([&, k] { body(*workers[k]); });
  body(*workers[0]);
  for (std::thread& thread : others) thread.join();
  launch.flags = nullptr;
  for (const auto& worker : workers) launch.counters.add(worker->counters);
  for (Allocation* allocation : launch.memory->end_launch(launch.id)) {
    if (allocation->kind == MemoryKind::Constant) continue;  // has a cache of its own
    launch.counters.distinct_load_sectors += allocation->loaded_first.count();
    launch.counters.distinct_store_sectors += allocation->stored.count();
  }
}

std::string describe_fault(const Launch& launch, const Warp* w, const Fault& fault) {
  std::string out =
      "fusednorm emulator: " + std::string(fault.what()) + "\n  kernel " + launch.program->name;
  if (!w) return out + "\n";
  const Block& block = *w->block;
  auto triple = [](uint32_t x, uint32_t y, uint32_t z) {
    return "(" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ")";
  };
  out += "\n  block " + triple(block.index[0], block.index[1], block.index[2]);
  if (fault.lane >= 0) {
    const uint32_t thread = w->index * 32 + static_cast<uint32_t>(fault.lane);
    const uint32_t* size = launch.block;
    out += ", thread " +
           triple(thread % size[0], thread / size[0] % size[1], thread / size[0] / size[1]) +
           " (warp " + std::to_string(w->index) + ", lane " + std::to_string(fault.lane) + ")";
  }
  if (w->current) {
    out += "\n  PTX line " + std::to_string(w->current->line) + ": " + w->current->text;
    const std::string place = launch.program->module->describe_location(w->current->location);
    out += "\n  source " + (place.empty() ? "unknown: compile with -lineinfo to see it" : place);
  }
  return out + "\n";
}

}  // namespace fusednorm::emulator
