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
    if (HWY_UNLIKELY(end_ > begin_)) flush();
    return true;
  }

  /// Where to build the chunk that belongs at `to`. Up to max_chunk elements.
  HWY_INLINE T* begin(T* to) {
    auto* address = reinterpret_cast<uint8_t*>(to);
    if (address != line_start_ + end_) {
      flush();
      begin_ = end_ = reinterpret_cast<uintptr_t>(address) % line;
      line_start_ = address - begin_;
    }
    return reinterpret_cast<T*>(buffer_ + end_);
  }

  /// Sends the lines that the chunk of `count` elements completed.
  HWY_INLINE void commit(size_t count) {
    end_ += count * sizeof(T);
    size_t sent = 0;
    if (begin_ != 0 && end_ >= line) {
      std::memcpy(line_start_ + begin_, buffer_ + begin_, line - begin_);
      begin_ = 0;
      sent = line;
    }
    const hwy::HWY_NAMESPACE::CappedTag<uint8_t, line> bytes;
    const size_t step = hwy::HWY_NAMESPACE::Lanes(bytes);
    const size_t whole = begin_ != 0 ? 0 : end_ / line * line;
    for (; sent < whole; sent += line) {
      for (size_t part = 0; part < line; part += step) {
        hwy::HWY_NAMESPACE::Stream(hwy::HWY_NAMESPACE::Load(bytes, buffer_ + sent + part), bytes,
                                   line_start_ + sent + part);
      }
    }
    if (sent != 0) {
      std::memcpy(buffer_, buffer_ + sent, line);
      line_start_ += sent;
      end_ -= sent;
    }
  }

 private:
  void flush() {
    if (end_ > begin_) std::memcpy(line_start_ + begin_, buffer_ + begin_, end_ - begin_);
    begin_ = end_ = 0;
    line_start_ = nullptr;
  }

  // Buffer offset 0 stands for the line at line_start_; bytes [begin_, end_) wait to be written.
  // One line more than a chunk needs, for what is kept, and one for the copy that moves it.
  alignas(64) uint8_t buffer_[max_chunk * sizeof(T) + 3 * line];
  uint8_t* line_start_ = nullptr;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
