// The last stage of LayerNorm forward on one instruction set: y. Included once per instruction set.
#if defined(FUSEDNORM_CPU_FORWARD_STAGES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_FORWARD_STAGES_INL_H_
#undef FUSEDNORM_CPU_FORWARD_STAGES_INL_H_
#else
#define FUSEDNORM_CPU_FORWARD_STAGES_INL_H_
#endif

#include "cpu/forward_sums-inl.h"
#include "cpu/lines-inl.h"
#include "hwy/cache_control.h"

HWY_BEFORE_NAMESPACE();
namespace fusednorm::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename TX, typename TY>
struct ForwardStages : ForwardSums<TX, TY> {
  using First = ForwardSums<TX, TY>;
  using First::pairs;
  using typename First::D;
  using typename First::Factors;
  using typename First::P;
  using typename First::PTail;
  using typename First::V;

  template <bool centred>
  static HWY_INLINE V value(V x, V gamma, V beta, V centre, V rstd, V shift) {
    if constexpr (centred) x = hn::Sub(x, centre);
    return hn::MulAdd(hn::MulAdd(x, rstd, shift), gamma, beta);
  }

  // Parameters are Columns or Given.

  /// The values of the pack at column i.
  template <bool centred, class Q>
  static HWY_INLINE void pack(const TX* x, Q gamma, Q beta, size_t i, V centre, V rstd, V shift,
                              V& a, V& b) {
    V gamma_a, gamma_b = centre, beta_a, beta_b = centre;
    P::read(x + i, a, b);
    P::read_columns(gamma, i, gamma_a, gamma_b);
    P::read_columns(beta, i, beta_a, beta_b);
    a = value<centred>(a, gamma_a, beta_a, centre, rstd, shift);
    if constexpr (pairs) b = value<centred>(b, gamma_b, beta_b, centre, rstd, shift);
  }

  /// The last stage. It also asks for what the first stage needs soon, a line for each line that it
  /// writes: so reads keep pace with writes. Where there were ties, and not `exact`, it writes that
  /// part again.
  template <bool centred, bool exact, Cache cache, class Q>
  static HWY_INLINE void normalize(const TX* x, Q gamma, Q beta, TY* y, size_t n,
                                   const Factors& row, const TX* ahead) {
    const D d;
    const size_t step = P::step();
    const V centre = hn::Set(d, row.centre), shift = hn::Set(d, row.shift),
            rstd = hn::Set(d, row.rstd);
    size_t begin = 0, end = n;
    // Read before the loop writes, for y may be x.
    const PTail tail(n);
    V last_a = centre, last_b = centre;
    if constexpr (cache == Cache::bypass) {
      const Lines<TY> lines(y, n, step);
      begin = lines.begin;
      end = lines.end;
      lines.each_edge(n, step, [&](size_t i) FUSEDNORM_INLINE {
        const auto column = static_cast<int64_t>(i);
        V a, b = centre;
        pack<centred>(x + i, gamma.at(column), beta.at(column), 0, centre, rstd, shift, a, b);
        P::template write<Cache::keep>(a, b, y + i);
      });
    } else {
      end -= tail.count;
      if (tail.count) tail.read(x, last_a, last_b);
    }
    const Q gammas = gamma.at(static_cast<int64_t>(begin)),
            betas = beta.at(static_cast<int64_t>(begin));
    const TX *from = x + begin, *next = ahead + begin;
    TY* to = y + begin;
    auto ties = P::no_ties();
    const auto one = [&](size_t i) FUSEDNORM_INLINE {
      V a, b = centre;
      pack<centred>(from, gammas, betas, i, centre, rstd, shift, a, b);
      if constexpr (exact)
        P::template write<cache>(a, b, to + i);
      else
        P::template write<cache>(a, b, to + i, ties);
    };
    constexpr bool has_ties = pairs && !exact;
    const size_t count = end - begin, four = 4 * step / P::parts;
    for (size_t i = 0; i < count;) {
      const size_t first = i,
                   last = has_ties ? HWY_MIN(count, i + policy::cols_per_tie_check) : count;
      // In order: a line that is half written when the next is begun leaves in two parts.
      for (; i + four <= last; i += four) {
        prefetch(next + i, four);
        one(i);
        one(i + step);
        if constexpr (!pairs) {
          one(i + 2 * step);
          one(i + 3 * step);
        }
      }
      for (; i < last; i += step) one(i);
      if (has_ties && HWY_UNLIKELY(P::any(ties))) {
        const auto column = static_cast<int64_t>(first);
        normalize_apart<centred, cache>(from + first, gammas.at(column), betas.at(column),
                                        to + first, last - first, row);
        ties = P::no_ties();
      }
    }
    if (cache == Cache::keep && tail.count) {
      V gamma_a, gamma_b = centre, beta_a, beta_b = centre;
      tail.read_columns(gamma, gamma_a, gamma_b);
      tail.read_columns(beta, beta_a, beta_b);
      tail.write(value<centred>(last_a, gamma_a, beta_a, centre, rstd, shift),
                 value<centred>(last_b, gamma_b, beta_b, centre, rstd, shift), y);
    }
  }

  /// The same where it is rare.
  template <bool centred, Cache cache, class Q>
  static HWY_NOINLINE void normalize_apart(const TX* x, Q gamma, Q beta, TY* y, size_t n,
                                           Factors row) {
    normalize<centred, true, cache>(x, gamma, beta, y, n, row, x);
  }

  /// Into the cache with every tie at once, for in place nothing could be written again.
  template <Cache cache, class Q>
  static HWY_INLINE void normalize_row(const TX* x, Q gamma, Q beta, TY* y, size_t n,
                                       const Factors& row, const TX* ahead) {
    constexpr bool exact = cache == Cache::keep;
    if (sizeof(TX) != 2 || row.centred)
      normalize<true, exact, cache>(x, gamma, beta, y, n, row, ahead);
    else
      normalize<false, exact, cache>(x, gamma, beta, y, n, row, ahead);
  }
  /// The same where it is rare.
  template <class Q>
  static HWY_NOINLINE void keep_row(const TX* x, Q gamma, Q beta, TY* y, size_t n, Factors row) {
    normalize_row<Cache::keep>(x, gamma, beta, y, n, row, x);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
