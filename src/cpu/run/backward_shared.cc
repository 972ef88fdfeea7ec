// SPDX-License-Identifier: Apache-2.0
// Backward where threads share rows, segment by segment.
#include "cpu/run/backward_shared.h"

#include <algorithm>

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
        room_(policy::room(count_)) {
    const bool kept = run.layout.scratch != nullptr;
    const std::int64_t pitch = kept ? run.layout.pitch : room_;
    const std::int64_t whole = policy::room(run.arguments.segments.length);
    std::byte* base = kept ? run.layout.scratch + segment * whole * run.element : local;
    for (int i = 0; i < 6; ++i) arrays_[i] = base + i * pitch * run.element;
  }

  ColumnSums before(std::int64_t row) {
    if (!run_.want_sums) return {};
    if (row == 0 && run_.layout.several_sums) {
      for (int i = 2; i < 6; ++i) run_.clear(arrays_[i], room_);
    }
    if (row % policy::rows_per_sum == 0) {
      if (row > 0) compensate();
      run_.clear(arrays_[0], room_);
      run_.clear(arrays_[1], room_);
    }
    return {arrays_[0], arrays_[1]};
  }

  void finish() {
    if (!run_.want_sums) return;
    const BackwardProblem& p = run_.plan.problem;
    if (run_.layout.several_sums) {
      compensate();
      run_.kernels.settle(arrays_[0], arrays_[2], arrays_[3], room_);
      run_.kernels.settle(arrays_[1], arrays_[4], arrays_[5], room_);
    }
    const BackwardArguments& a = run_.arguments;
    const std::int64_t offset = begin_ * a.param_size;
    const auto store = [&](void* out, const std::byte* sums, const void* divisor) {
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
      store(run_.buffers.dgamma, arrays_[0], divisor);
    }
    if (p.want_dbeta) store(run_.buffers.dbeta, arrays_[1], nullptr);
  }

 private:
  void compensate() {
    run_.kernels.compensate(arrays_[2], arrays_[3], arrays_[0], room_);
    run_.kernels.compensate(arrays_[4], arrays_[5], arrays_[1], room_);
  }

  const BackwardRun& run_;
  std::int64_t begin_;
  std::int64_t count_;
  std::int64_t room_;
  std::byte* arrays_[6];  // plain sums of dgamma and dbeta, then high and low parts of each
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
