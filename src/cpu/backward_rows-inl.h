// What LayerNorm backward on one instruction set knows of its rows: where they are, and how they
// are written. Included once per instruction set.
#if defined(FUSEDNORM_CPU_BACKWARD_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FUSEDNORM_CPU_BACKWARD_ROWS_INL_H_
#undef FUSEDNORM_CPU_BACKWARD_ROWS_INL_H_
#else
#define FUSEDNORM_CPU_BACKWARD_ROWS_INL_H_
#endif

#include "cpu/backward_stages-inl.h"
#include "cpu/pipeline.h"

HWY_BEFORE_NAMESPACE();
namespace fusednorm::cpu {
namespace HWY_NAMESPACE {

template <typename TX, typename TY, bool from_y>
struct BackwardRows : BackwardStages<TX, TY, from_y> {
  using Stages = BackwardStages<TX, TY, from_y>;
  using typename Stages::C;
  using typename Stages::ColumnSum;
  using typename Stages::First;
  using typename Stages::P;
  using typename Stages::Pieces;
  using typename Stages::Second;
  using typename Stages::Statistics;
  using typename Stages::TS;

  static HWY_INLINE Statistics statistics(const BackwardArguments& a, int64_t row) {
    return {from_y ? C(0) : Stages::settled(static_cast<const C*>(a.mean)[row]),
            Stages::settled(static_cast<const C*>(a.rstd)[row])};
  }

  static HWY_INLINE Pieces pieces(const BackwardArguments& a, int64_t row, int64_t column) {
    const Parameter<P> gamma(a.gamma, ones<C>.data(), a.cols),
        beta(a.beta, zeros<C>.data(), a.cols);
    return {static_cast<const TY*>(a.dy) + row * a.dy_stride + column,
            static_cast<const TS*>(a.source) + row * a.source_stride + column, gamma.at(column),
            beta.at(column)};
  }

  static constexpr bool can_bypass = P::template streams<TX>;
  static constexpr Cache past = can_bypass ? Cache::bypass : Cache::keep;
  static bool bypasses(const BackwardArguments& a) {
    return can_bypass && a.dx && a.streaming &&
           Lines<TX>::fit(static_cast<const TX*>(a.dx), a.dx_stride, a.cols);
  }

  /// Both column sums from one column on.
  struct SumsOfColumns {
    ColumnSum dgamma = {};
    ColumnSum dbeta = {};

    /// At `column` of the sums of `count` columns, if they are wanted.
    HWY_INLINE SumsOfColumns(ColumnSums sums, int64_t count, int64_t column) {
      if (!sums.dgamma) return;
      dgamma = P::columns(static_cast<C*>(sums.dgamma), count).at(column);
      dbeta = P::columns(static_cast<C*>(sums.dbeta), count).at(column);
    }
  };

  /// A chunk of rows that follow each other, as the first stage takes it.
  struct Block {
    Pieces p;  ///< of the first row
    size_t n;
    const Statistics* row;
    int64_t rows;
    int64_t dy_stride;
    int64_t source_stride;
    ColumnSum dgamma;
    ColumnSum dbeta;
    bool columns;           ///< whether these are wanted
    const TY* next_dy;      ///< of the block that follows; null if somebody else asks for it
    const TS* next_source;  ///< likewise

    /// Row r, which asks for the row that is summed `next_row` rows after it.
    HWY_INLINE First first(int64_t r, int64_t next_row) const {
      const TY* dy = p.dy + r * dy_stride;
      const TS* source = p.source + r * source_stride;
      First f{{dy, source, p.gamma, p.beta}, n, row[r], dgamma, dbeta};
      // Past the block, counted from the one that follows.
      const int64_t skip = r + next_row - rows;
      if (next_dy)
        f.ahead_dy = later(skip < 0 ? dy : next_dy, 0, skip < 0 ? next_row : skip, dy_stride);
      if (next_source)
        f.ahead_source =
            later(skip < 0 ? source : next_source, 0, skip < 0 ? next_row : skip, source_stride);
      return f;
    }
  };

  /// With the sums of `count` columns, from `column` on.
  static HWY_INLINE Block block(const BackwardArguments& a, const Pieces& p, int64_t n,
                                const Statistics* row, int64_t rows, ColumnSums sums, int64_t count,
                                int64_t column) {
    const SumsOfColumns columns(sums, count, column);
    return {p,
            static_cast<size_t>(n),
            row,
            rows,
            a.dy_stride,
            a.source_stride,
            columns.dgamma,
            columns.dbeta,
            sums.dgamma != nullptr,
            nullptr,
            nullptr};
  }

  /// A chunk of dx, by whoever knows how one is written.
  template <class Kind>
  static HWY_INLINE void write_chunk(const Second& second, bool bypass) {
    // The last segment of a row may be as short as it likes.
    if (bypass && Lines<TX>::fit(second.dx, static_cast<int64_t>(second.n)))
      Kind::template write_one<past>(second);
    else
      Kind::template write_one<Cache::keep>(second);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace fusednorm::cpu
HWY_AFTER_NAMESPACE();
#endif
