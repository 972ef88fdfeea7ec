// Writes rows past the cache: chunks are built in a small buffer and leave it as whole 64-byte
// lines with streaming stores, whatever the alignment of the rows. Included once per instruction
// set.
#if defined(FUSEDNORM_CPU_LINE_WRITER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_LINE_WRITER_INL_H_
#undef FUSEDNORM_CPU_LINE_WRITER_INL_H_
#else
#define FUSEDNORM_CPU_LINE_WRITER_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "cpu/kernels.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace fusednorm::cpu {
namespace HWY_NAMESPACE {

/// A partly filled last line is kept for the chunk that continues it, so packed rows of odd width
/// cost no more than even ones; a line that no chunk completes is written with ordinary stores.
/// Chunks leave one turn late: to read at once what was just stored at another alignment, the core
/// would wait until all stores before it, streaming ones too, have reached memory.
template <typename T>
class LineWriter {
 public:
  static constexpr size_t line = 64;

  LineWriter() = default;
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;
  ~LineWriter() {
    flush();
    hwy::FlushStream();
  }

  /// Whether the chunk can go to `to` with streaming stores of its own: it is whole lines.
  HWY_INLINE bool direct(const T* to, size_t count) {
    if ((reinterpret_cast<uintptr_t>(to) | (count * sizeof(T))) % line != 0) return false;
    if (HWY_UNLIKELY(chunks_[turn_ ^ 1].waiting())) flush();
    return true;
  }

  /// Where to build the chunk that belongs at `to`. Up to max_chunk elements.
  HWY_INLINE T* begin(T* to) {
    auto* address = reinterpret_cast<uint8_t*>(to);
    Chunk& chunk = chunks_[turn_];
    chunk.begin = chunk.end = reinterpret_cast<uintptr_t>(address) % line;
    chunk.line_start = address - chunk.begin;
    return reinterpret_cast<T*>(chunk.bytes + chunk.begin);
  }

  /// Sends the lines of the chunk before this one of `count` elements.
  HWY_INLINE void commit(size_t count) {
    chunks_[turn_].end += count * sizeof(T);
    turn_ ^= 1;
    if (chunks_[turn_].waiting()) send(chunks_[turn_], &chunks_[turn_ ^ 1]);
  }

 private:
  /// bytes[0] stands for the line at line_start; [begin, end) wait to be written.
  struct Chunk {
    alignas(64) uint8_t bytes[max_chunk * sizeof(T) + line];
    uint8_t* line_start = nullptr;
    size_t begin = 0;
    size_t end = 0;
    bool waiting() const { return end > begin; }
  };

  static HWY_INLINE void send(Chunk& chunk, Chunk* next) {
    const hwy::HWY_NAMESPACE::CappedTag<uint8_t, line> bytes;
    const size_t step = hwy::HWY_NAMESPACE::Lanes(bytes);
    const size_t whole = chunk.end / line * line;
    size_t sent = 0;
    if (chunk.begin != 0 && whole != 0) {
      std::memcpy(chunk.line_start + chunk.begin, chunk.bytes + chunk.begin, line - chunk.begin);
      sent = line;
    }
    for (; sent < whole; sent += line) {
      for (size_t part = 0; part < line; part += step) {
        hwy::HWY_NAMESPACE::Stream(hwy::HWY_NAMESPACE::Load(bytes, chunk.bytes + sent + part),
                                   bytes, chunk.line_start + sent + part);
      }
    }
    const size_t rest = whole > chunk.begin ? whole : chunk.begin;
    if (chunk.end > rest) {
      const bool continued =
          next && next->line_start == chunk.line_start + whole && next->begin == chunk.end - whole;
      uint8_t* to = continued ? next->bytes : chunk.line_start + whole;
      std::memcpy(to + (rest - whole), chunk.bytes + rest, chunk.end - rest);
      if (continued) next->begin = rest - whole;
    }
    chunk.begin = chunk.end = 0;
  }

  HWY_NOINLINE void flush() {
    Chunk& last = chunks_[turn_ ^ 1];
    if (last.waiting()) send(last, nullptr);
  }

  Chunk chunks_[2];
  int turn_ = 0;  ///< the chunk that is built next; the other one may wait
};

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
