// SPDX-License-Identifier: Apache-2.0
// What the blocks of a launch did to each line of global memory, for the search for races.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace fusednorm::emulator {

constexpr uint64_t kLineBytes = 128;  // what a warp loads or stores with one float a lane

// The accesses of one warp in one of its ticks to one line; a bit a byte.
struct LineAccess {
  uint64_t who = 0;  // see global_races.cpp; 0: nobody
  uint64_t written[2] = {}, read[2] = {};
  uint32_t tick = 0;
  bool empty() const { return !(written[0] | written[1] | read[0] | read[1]); }
};

// Nearly every line is touched by one warp alone, or only read: one record does. All zeros is a
// valid line that nobody has touched, so that pages never looked at cost nothing.
struct alignas(64) GlobalLine {
  std::atomic<uint32_t> busy;
  uint32_t launch;   // that the records are of; others are stale
  uint32_t more;     // place in the launch's list of further records, from 1
  uint16_t written;  // whether anybody has
  uint16_t readers;  // records of reads since the last write
  LineAccess first;
};

class GlobalShadow {
 public:
  // nullptr if there is no memory for it. Half the size of the allocation, but only pages that a
  // kernel touches are ever made.
  static std::unique_ptr<GlobalShadow> make(uint64_t bytes) {
    auto shadow = std::make_unique<GlobalShadow>();
    shadow->size_ = (bytes / kLineBytes + 2) * sizeof(GlobalLine);
    void* lines = mmap(nullptr, shadow->size_, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (lines == MAP_FAILED) return nullptr;
    shadow->lines_ = static_cast<GlobalLine*>(lines);
    return shadow;
  }
  GlobalShadow() = default;
  GlobalShadow(const GlobalShadow&) = delete;
  ~GlobalShadow() {
    if (lines_) munmap(lines_, size_);
  }
  GlobalLine& line(uint64_t offset) { return lines_[offset / kLineBytes]; }
  // Records of the line after the first; made when first asked for. They belong to the launch: two
  // devices may run on the same memory of the host at once.
  std::vector<LineAccess>& more(GlobalLine& line) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::deque<std::vector<LineAccess>>& lists = more_[line.launch];
    if (line.more == 0) {
      lists.emplace_back();
      line.more = static_cast<uint32_t>(lists.size());
    }
    return lists[line.more - 1];
  }
  void end_launch(uint64_t launch) {
    std::lock_guard<std::mutex> lock(mutex_);
    more_.erase(static_cast<uint32_t>(launch));
  }

 private:
  GlobalLine* lines_ = nullptr;
  uint64_t size_ = 0;
  std::mutex mutex_;
  std::map<uint32_t, std::deque<std::vector<LineAccess>>> more_;
};

}  // namespace fusednorm::emulator
