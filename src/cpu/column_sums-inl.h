// Column sums that do not lose accuracy with the number of rows: short plain sums gathered into
// compensated pairs. Included once per instruction set.
#if defined(FUSEDNORM_CPU_COLUMN_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_COLUMN_SUMS_INL_H_
#undef FUSEDNORM_CPU_COLUMN_SUMS_INL_H_
#else
#define FUSEDNORM_CPU_COLUMN_SUMS_INL_H_
#endif

#include "cpu/line_writer-inl.h"
#include "cpu/packs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fusednorm::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename C>
struct ColumnSummation {
  using D = hn::ScalableTag<C>;
  using V = hn::Vec<D>;

  /// Knuth's two-sum: high + low grows by `value` with no error but low's own rounding.
  static HWY_INLINE void add(V& high, V& low, V value) {
    const V sum = hn::Add(high, value);
    const V part = hn::Sub(sum, high);
    low = hn::Add(low, hn::Add(hn::Sub(high, hn::Sub(sum, part)), hn::Sub(value, part)));
    high = sum;
  }

  /// An infinite sum stays infinite: its low part is NaN and says nothing.
  static HWY_INLINE V total(V high, V low) {
    return hn::IfThenElse(hn::IsFinite(high), hn::Add(high, low), high);
  }

  // The arrays of sums are padded to whole vectors, so none of these needs a tail but the last.

  static void compensate(void* high, void* low, const void* sum, int64_t count) {
    const D d;
    C* h = static_cast<C*>(high);
    C* l = static_cast<C*>(low);
    for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::Lanes(d))) {
      V high_part = hn::LoadU(d, h + i), low_part = hn::LoadU(d, l + i);
      add(high_part, low_part, hn::LoadU(d, static_cast<const C*>(sum) + i));
      hn::StoreU(high_part, d, h + i);
      hn::StoreU(low_part, d, l + i);
    }
  }

  static void settle(void* sum, const void* high, const void* low, int64_t count) {
    const D d;
    for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::Lanes(d))) {
      const V result = total(hn::LoadU(d, static_cast<const C*>(high) + i),
                             hn::LoadU(d, static_cast<const C*>(low) + i));
      hn::StoreU(result, d, static_cast<C*>(sum) + i);
    }
  }

  /// In the order of columns, from the order of packs.
  template <typename TP, bool pairs>
  static void store_total(void* out, const void* sums, int64_t blocks, int64_t pitch, int64_t count,
                          bool streaming) {
    using P = Pack<D, pairs>;
    const D d;
    const C* from = static_cast<const C*>(sums);
    TP* to = static_cast<TP*>(out);
    const auto lanes = static_cast<int64_t>(hn::Lanes(d)), step = static_cast<int64_t>(P::step());
    const auto total_at = [&](int64_t i) HWY_ATTR {
      V high = hn::LoadU(d, from + i), low = hn::Zero(d);
      for (int64_t block = 1; block < blocks; ++block) {
        add(high, low, hn::LoadU(d, from + block * pitch + i));
      }
      return blocks == 1 ? high : total(high, low);
    };
    // One pack in order.
    const auto store_pack = [&](int64_t i, TP* pack) HWY_ATTR {
      if constexpr (!pairs) {
        store(d, total_at(i), pack);
      } else if constexpr (std::is_same_v<TP, BFloat16>) {
        P::template write<Cache::keep>(total_at(i), total_at(i + lanes), pack);
      } else {
        HWY_ALIGN C even[hn::MaxLanes(D())], odd[hn::MaxLanes(D())];
        hn::Store(total_at(i), d, even);
        hn::Store(total_at(i + lanes), d, odd);
        for (int64_t lane = 0; lane < lanes; ++lane) {
          pack[2 * lane] = even[lane];
          pack[2 * lane + 1] = odd[lane];
        }
      }
    };
    LineWriter<TP> writer;
    const int64_t whole = count / step * step;
    for (int64_t begin = 0; begin < whole;) {
      const int64_t n = whole - begin < policy::short_cols ? whole - begin : policy::short_cols;
      TP* chunk = streaming ? writer.begin(to + begin) : to + begin;
      for (int64_t i = 0; i < n; i += step) store_pack(begin + i, chunk + i);
      if (streaming) writer.commit(static_cast<size_t>(n));
      begin += n;
    }
    if (whole == count) return;
    // In order, the last sums are the first of a vector; in pairs, the last of a pack.
    const int64_t rest = count - whole;
    HWY_ALIGN TP last[P::parts * hn::MaxLanes(D())];
    store_pack(whole, last);
    std::memcpy(to + whole, last + (pairs ? step - rest : 0),
                static_cast<size_t>(rest) * sizeof(TP));
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
