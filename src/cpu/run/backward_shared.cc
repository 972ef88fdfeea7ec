// SPDX-License-Identifier: Apache-2.0
// Backward where threads share rows, segment by segment.
#include "cpu/run/backward_shared.h"

#include <algorithm>

#include "cpu/run/gathered_sums.h"
#include "cpu/run/shared_rows.h"

namespace fusednorm::cpu {
namespace {

/// The column sums of one segment, over the rows of one group after another.
class SegmentSums {
 public:
  SegmentSums(const BackwardRun& run, std::int64_t segment, std::byte* local)
      : run_(run),
        begin_(run.arguments.segments.begin(segment)),
        count_(run.arguments.segments.end(segment) - begin_),
        sums_(run, arrays_of(run, segment, local), pitch_of(run, count_), policy::room(count_)) {}

  ColumnSums before(std::int64_t row) {
    if (!run_.want_sums) return {};
    if (row == 0 && run_.layout.several_sums) sums_.clear_pairs();
    if (row % policy::rows_per_sum == 0) {
      if (row > 0) sums_.compensate();
      sums_.clear_plain();
    }
    return sums_.plain();
  }

  void finish() {
    if (!run_.want_sums) return;
    const BackwardProblem& p = run_.plan.problem;
    if (run_.layout.several_sums) {
      sums_.compensate();
      sums_.settle(sums_.plain());
    }
    const BackwardArguments& a = run_.arguments;
    const std::int64_t offset = begin_ * a.param_size;
    const auto store = [&](void* out, const void* sums, const void* divisor) {
      run_.kernels.store(static_cast<std::byte*>(out) + offset, sums, 1, 0, count_, 0, count_,
                         a.streaming, divisor);
    };
    if (p.want_dgamma) {
      alignas(Carver::alignment) std::byte expanded[policy::room(max_segment(DType::f64)) * 8];
      const void* divisor = nullptr;
      if (run_.divides()) divisor = static_cast<const std::byte*>(a.gamma) + offset;
      if (divisor && a.expand) {
        a.expand(divisor, a.gamma_offset, 1, count_, expanded);
        divisor = expanded;
      }
      store(run_.buffers.dgamma, sums_.plain().dgamma, divisor);
    }
    if (p.want_dbeta) store(run_.buffers.dbeta, sums_.plain().dbeta, nullptr);
  }

 private:
  /// In the workspace, or on the task's stack where the sums are finished within one group of rows.
  static std::byte* arrays_of(const BackwardRun& run, std::int64_t segment, std::byte* local) {
    const std::int64_t whole = policy::room(run.arguments.segments.length);
    return run.layout.scratch ? run.layout.scratch + segment * whole * run.element : local;
  }
  static std::int64_t pitch_of(const BackwardRun& run, std::int64_t count) {
    return run.layout.scratch ? run.layout.pitch : policy::room(count);
  }

  const BackwardRun& run_;
  std::int64_t begin_;
  std::int64_t count_;
  GatheredSums sums_;
};

/// body(arguments, row, count), with arguments that point to row 0: of a whole run, or row by row
/// where rows are kept in the compute type.
template <typename Body>
void each_aimed(const BackwardRun& run, std::int64_t begin, std::int64_t end, std::int64_t segment,
                bool row_by_row, const Body& body) {
  KeptSegment dy, source;
  const std::int64_t column = run.arguments.segments.begin(segment),
                     cols = run.arguments.segments.end(segment) - column;
  run.layout.order.each_run_in_order(begin, end, [&](const RowRun& rows) {
    BackwardArguments a = run.arguments;
    const std::int64_t count = row_by_row || run.plan.widen_dy ? 1 : rows.count;
    for (std::int64_t r = 0; r < rows.count; r += count) {
      const RowRun part = part_of(rows, r, count);
      run.aim(a, part);
      if (run.plan.widen_dy) {
        run.widen(run.dy, part, column, cols, dy.columns, 0);
        a.dy = dy.array(column, run.element);
        if (run.plan.problem.source == Source::y) {
          run.widen(run.source, part, column, cols, source.columns, 0);
          a.source = source.array(column, run.element);
        }
      }
      body(a, part);
    }
  });
}

void write_segment(const BackwardRun& run, std::int64_t begin, std::int64_t end,
                   std::int64_t segment, const GradientSums* of_rows) {
  const bool keeps = keeps_dx(run.plan);
  const std::int64_t column = run.arguments.segments.begin(segment),
                     cols = run.arguments.segments.end(segment) - column;
  KeptSegment dx;
  each_aimed(run, begin, end, segment, keeps, [&](BackwardArguments& a, const RowRun& rows) {
    if (keeps) a.dx = dx.array(column, run.element);
    run.kernels.write(a, 0, rows.count, segment, of_rows + (rows.first - begin) * a.segments.count);
    if (keeps) run.add_ds(rows, column, cols, dx.columns, 0);
  });
}

}  // namespace

void share_rows(const BackwardRun& run, ParallelFor parallel_for) {
  const BackwardProblem& p = run.plan.problem;
  const std::int64_t rows = p.rows, segments = run.arguments.segments.count;
  run_shared_rows(
      SharedRows<GradientSums>{rows, run.layout.group, segments, run.plan.tasks, run.layout.sums,
                               run.layout.sums + run.layout.group * segments},
      p.want_dx || p.want_dresidual, parallel_for,
      [&](std::int64_t begin, std::int64_t end, std::int64_t segment, GradientSums* out) {
        alignas(Carver::alignment) std::byte local[2 * policy::room(max_segment(DType::f64)) * 8];
        SegmentSums sums(run, segment, local);
        for (std::int64_t row = begin, until; row < end; row = until) {
          until = std::min(end, row - row % policy::rows_per_sum + policy::rows_per_sum);
          const ColumnSums columns = sums.before(row);
          each_aimed(run, row, until, segment, false,
                     [&](const BackwardArguments& a, const RowRun& part) {
                       run.kernels.sums(a, 0, part.count, segment,
                                        out + (part.first - begin) * segments, columns);
                     });
        }
        if (end == rows) sums.finish();
      },
      [&](const GradientSums* parts) { return run.kernels.merge(parts, segments); },
      [&](std::int64_t begin, std::int64_t end, std::int64_t segment, const GradientSums* of_rows) {
        write_segment(run, begin, end, segment, of_rows);
      });
}

}  // namespace fusednorm::cpu
