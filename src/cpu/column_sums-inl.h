// Column sums that do not lose accuracy with the number of rows: short plain sums gathered into
// compensated pairs. Included once per instruction set.
#if defined(FUSEDNORM_CPU_COLUMN_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_COLUMN_SUMS_INL_H_
#undef FUSEDNORM_CPU_COLUMN_SUMS_INL_H_
#else
#define FUSEDNORM_CPU_COLUMN_SUMS_INL_H_
#endif

#include "cpu/lines-inl.h"
#include "cpu/packs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fusednorm::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename C>
struct ColumnSummation {
  using D = Vectors<C>;
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

  /// Columns [begin, end) of `count`, in their order, from the order of packs.
  template <typename TP, bool pairs>
  static void store_total(void* out, const void* sums, int64_t blocks, int64_t pitch, int64_t count,
                          int64_t begin, int64_t end, bool streaming, const void* divisor) {
    using P = Pack<D, pairs>;
    const D d;
    const auto from = P::columns(static_cast<const C*>(sums), count).at(begin);
    TP* to = static_cast<TP*>(out) + begin;
    const size_t lanes = hn::Lanes(d), step = P::step(), n = static_cast<size_t>(end - begin);
    const auto* all = static_cast<const C*>(sums);
    const auto total_of = [&](const C* first) HWY_ATTR {
      V high = hn::LoadU(d, first), low = hn::Zero(d);
      for (int64_t block = 1; block < blocks; ++block) {
        add(high, low, hn::LoadU(d, first + block * pitch));
      }
      const V sum = blocks == 1 ? high : total(high, low);
      if (!divisor) return sum;
      const int64_t at = first - all;
      const C* by = static_cast<const C*>(divisor) + at;
      if (pairs || at + static_cast<int64_t>(lanes) <= count) return hn::Div(sum, hn::LoadU(d, by));
      // The caller's own ends with the columns.
      HWY_ALIGN C last[hn::MaxLanes(D())] = {};
      std::memcpy(last, by, static_cast<size_t>(count - at) * sizeof(C));
      return hn::Div(sum, hn::Load(d, last));
    };
    // One pack in order.
    const auto store_pack = [&](size_t i, TP* pack, auto cache) HWY_ATTR {
      constexpr Cache kept = decltype(cache)::value;
      if constexpr (!pairs) {
        P::template write<kept>(total_of(from.first + i), hn::Zero(d), pack);
      } else {
        const V even = total_of(from.even + i / 2), odd = total_of(from.odd + i / 2);
        if constexpr (std::is_same_v<TP, BFloat16>) {
          P::template write<kept>(even, odd, pack);
        } else {
          HWY_ALIGN C lane_even[hn::MaxLanes(D())], lane_odd[hn::MaxLanes(D())];
          hn::Store(even, d, lane_even);
          hn::Store(odd, d, lane_odd);
          for (size_t lane = 0; lane < lanes; ++lane) {
            pack[2 * lane] = lane_even[lane];
            pack[2 * lane + 1] = lane_odd[lane];
          }
        }
      }
    };
    using Keep = std::integral_constant<Cache, Cache::keep>;
    using Bypass = std::integral_constant<Cache, Cache::bypass>;
    size_t i = 0;
    if constexpr ((!pairs || std::is_same_v<TP, BFloat16>)&&P::template streams<TP>) {
      if (streaming && Lines<TP>::before(to) == 0) {
        for (; i + Lines<TP>::line <= n; i += Lines<TP>::line)
          for (size_t part = i; part < i + Lines<TP>::line; part += step)
            store_pack(part, to + part, Bypass());
      }
    }
    for (; i + step <= n; i += step) store_pack(i, to + i, Keep());
    if (i == n) return;
    // The sums are padded.
    HWY_ALIGN TP last[P::parts * hn::MaxLanes(D())];
    store_pack(i, last, Keep());
    std::memcpy(to + i, last, (n - i) * sizeof(TP));
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
