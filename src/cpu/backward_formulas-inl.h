// What LayerNorm backward does with a vector of a row, and what it knows of a row between its
// stages. Included once per instruction set.
#if defined(FUSEDNORM_CPU_BACKWARD_FORMULAS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_BACKWARD_FORMULAS_INL_H_
#undef FUSEDNORM_CPU_BACKWARD_FORMULAS_INL_H_
#else
#define FUSEDNORM_CPU_BACKWARD_FORMULAS_INL_H_
#endif

#include <cmath>

#include "cpu/packs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace fusednorm::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename TX, typename TY, bool from_y>
struct BackwardFormulas {
  using C = Compute<TX>;
  using W = Wide<C>;
  using D = Vectors<C>;
  using V = hn::Vec<D>;
  using TS = std::conditional_t<from_y, TY, TX>;  // of the array that xhat is known from
  static constexpr bool pairs = in_pairs<TX, TY>;
  using P = Pack<D, pairs>;
  using PTail = PackTail<D, pairs>;
  using Columns = typename P::template Columns<const C>;
  using ColumnSum = typename P::template Columns<C>;
  static constexpr size_t max_lanes = hn::MaxLanes(D());

  /// What a stage reads of a row, at one column.
  struct Pieces {
    const TY* dy;
    const TS* source;
    Columns gamma;
    Columns beta;

    HWY_INLINE Pieces at(size_t column) const {
      const auto c = static_cast<int64_t>(column);
      return {dy + column, source + column, gamma.at(c), beta.at(c)};
    }
  };

  /// The sums of g = dy * gamma and of g * xhat. From y of dy * (y - beta), in which gamma cancels.
  struct Sums {
    HWY_ALIGN C g[max_lanes];
    HWY_ALIGN C weighted[max_lanes];
  };

  /// The row as the first stage sees it.
  struct Statistics {
    C mean;
    C rstd;
  };

  /// Whether the second stage can do without centring x, the mean's part being in the row's
  /// constant: where the mean is at most twice 1 / rstd.
  static constexpr bool may_stay = sizeof(TX) == 2 && !from_y;
  static HWY_INLINE bool is_centred(Statistics row) {
    // A NaN is as good as either.
    return !may_stay || std::abs(row.mean * row.rstd) > C(2);
  }

  /// The row as the second stage sees it. From x: dx = rstd * dy * gamma + constant +
  /// slope * (x - mean), or slope * x; from y: … + slope * xhat.
  struct Factors {
    C mean;
    C rstd;
    C constant;
    C slope;
    bool centred;
  };

  /// xhat, or from y gamma times that. `second` is the mean, or beta.
  static HWY_INLINE V weight(V source, V second, V rstd) {
    const V centred = hn::Sub(source, second);
    return from_y ? centred : hn::Mul(centred, rstd);
  }

  /// Adds a vector's part to the row's sums and, `columns`, to those of its columns.
  template <bool columns>
  static HWY_INLINE void add(V dy, V source, V gamma, V second, V rstd, V& g_sum, V& weighted_sum,
                             V& dgamma, V& dbeta) {
    const V weighted = weight(source, second, rstd);
    if constexpr (from_y) {
      g_sum = hn::MulAdd(dy, gamma, g_sum);
      weighted_sum = hn::MulAdd(dy, weighted, weighted_sum);
    } else {
      const V g = hn::Mul(dy, gamma);
      g_sum = hn::Add(g_sum, g);
      weighted_sum = hn::MulAdd(g, weighted, weighted_sum);
    }
    if constexpr (columns) {
      // From y, whoever stores dgamma divides it by gamma.
      dgamma = hn::MulAdd(dy, weighted, dgamma);
      dbeta = hn::Add(dbeta, dy);
    }
  }

  /// Adds a chunk's sums to those of the chunks before it.
  static HWY_INLINE void join(V chunk, bool first, C* sums) {
    const D d;
    hn::Store(first ? chunk : hn::Add(hn::Load(d, sums), chunk), d, sums);
  }

  static HWY_INLINE W total(V lanes) {
    return static_cast<W>(hn::GetLane(hn::SumOfLanes(D(), lanes)));
  }

  /// The two sums of a row, segment by segment.
  struct Totals {
    W g = nothing<W>;
    W g_xhat = nothing<W>;

    HWY_INLINE void add(W part, W xhat_part) {
      g += part;
      g_xhat += xhat_part;
    }
  };
  static HWY_INLINE W total(const C* sums) { return total(hn::Load(D(), sums)); }

  /// A given statistic. In pairs, without bits that rounding to bf16 could carry out of a NaN.
  static HWY_INLINE C settled(C value) {
    return pairs && value != value ? std::numeric_limits<C>::quiet_NaN() : value;
  }

  /// From the sums over the whole row.
  static HWY_INLINE Factors factors(Statistics row, W share, Totals of_row) {
    const W mean = static_cast<W>(row.mean), rstd = static_cast<W>(row.rstd), scale = -rstd * share;
    const bool centred = is_centred(row);
    const W slope = scale * of_row.g_xhat * (from_y ? W(1) : rstd);
    const W shift = centred ? W(0) : slope * mean;
    return {row.mean, row.rstd, static_cast<C>(scale * of_row.g - shift), static_cast<C>(slope),
            centred};
  }

  template <bool centred>
  static HWY_INLINE V gradient(V dy, V source, V gamma, V beta, V mean, V rstd, V constant,
                               V slope) {
    const V x = from_y    ? hn::Div(hn::Sub(source, beta), gamma)
                : centred ? hn::Sub(source, mean)
                          : source;
    return hn::MulAdd(x, slope, hn::MulAdd(hn::Mul(dy, rstd), gamma, constant));
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
