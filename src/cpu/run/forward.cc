// SPDX-License-Identifier: Apache-2.0
// Runs a forward plan: checks, then hands pieces of work to parallel_for.
#include <algorithm>
#include <cstring>
#include <limits>

#include "cpu/plan/layout.h"
#include "cpu/run/parameters.h"
#include "cpu/run/row_array.h"
#include "cpu/run/shared_rows.h"
#include "hwy/cache_control.h"
#include "validate.h"

namespace fusednorm::cpu {
namespace {

/// The mean of no elements is 0 / 0.
template <typename C>
void fill_statistics(const ForwardProblem& problem, const ForwardBuffers& buffers) {
  const C undefined = std::numeric_limits<C>::quiet_NaN();
  if (problem.save_mean) std::fill_n(static_cast<C*>(buffers.mean), problem.rows, undefined);
  if (problem.save_rstd) std::fill_n(static_cast<C*>(buffers.rstd), problem.rows, undefined);
}

/// A product without beta is y itself, which is rounded where it is stored.
Roundings roundings_of(const ForwardProblem& p) {
  const DType compute = compute_dtype(p.x_dtype);
  if (p.rounding == Rounding::once) return {};
  const DType xhat = p.rounding == Rounding::via_x ? row_dtype(p) : p.param_dtype;
  return {xhat != compute || p.has_beta, xhat, p.has_beta ? p.y_dtype : compute};
}

ForwardArguments arguments_of(const ForwardPlan& plan, const ForwardBuffers& buffers) {
  const ForwardProblem& p = plan.problem;
  ForwardArguments a{};
  a.operation = p.operation;
  a.gamma = p.has_gamma ? buffers.gamma : nullptr;
  a.beta = p.has_beta ? buffers.beta : nullptr;
  a.statistics_stride = 1;
  a.cols = p.cols;
  a.eps = p.eps;
  a.roundings = roundings_of(p);
  a.x_ring = -1;
  // In place, the lines to write are in the cache already; and y that waits is to stay.
  a.streaming = plan.streaming_stores && buffers.x != buffers.y && !plan.round_y;
  a.segments = segments_of(p.cols, row_dtype(p));
  a.gamma_offset = p.has_gamma ? p.gamma_offset : 0;
  a.expand = plan.kernels->takes_given && a.gamma_offset == 0 ? nullptr : plan.kernels->expand;
  a.param_size = bytes_of(p.param_dtype);
  a.as_given = as_given(plan);
  return a;
}

/// One forward run's constants.
struct Run {
  const ForwardPlan& plan;
  const ForwardLayout& layout;
  ForwardArguments arguments;
  Parameters parameters;
  RowArray x, residual, sum, y;
  std::byte* mean;
  std::byte* rstd;
  bool streams_sum, streams_y;

  Run(const ForwardPlan& of, const ForwardBuffers& b, const ForwardLayout& in)
      : plan(of),
        layout(in),
        arguments(arguments_of(of, b)),
        parameters(of, b, in.parameters, true) {
    const ForwardProblem& p = plan.problem;
    const auto rows = [&](std::int64_t row, std::int64_t outer) {
      return row_layout(p.cols, row, p.inner_rows, outer);
    };
    x = {true, b.x, rows(p.x_row_stride, p.x_outer_stride), p.x_dtype};
    y = {true, b.y, rows(p.y_row_stride, p.y_outer_stride), p.y_dtype};
    residual = {p.has_residual, b.residual, rows(p.residual_row_stride, p.residual_outer_stride),
                row_dtype(p)};
    sum = {p.has_residual, b.sum, rows(p.sum_row_stride, p.sum_outer_stride), row_dtype(p)};
    mean = p.save_mean ? static_cast<std::byte*>(b.mean) : nullptr;
    rstd = p.save_rstd ? static_cast<std::byte*>(b.rstd) : nullptr;
    streams_sum = plan.streaming_stores && sum.data != x.data && sum.data != residual.data;
    streams_y = plan.streaming_stores && b.x != b.y;
  }

  /// Points the arguments to rows of a run.
  void aim(ForwardArguments& a, const RowRun& run) const {
    const std::int64_t statistic = bytes_of(compute_dtype(plan.problem.x_dtype));
    const RowArray& row = sum ? sum : x;
    a.x = row.at(run.first);
    a.x_stride = row.stride(run.step);
    a.ahead = reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(x.at(run.first)) +
                                            policy::prefetch_bytes);
    a.ahead_stride = x.stride(run.step) * x.element;
    a.y = y.at(run.first);
    a.y_stride = y.stride(run.step);
    a.mean = mean ? mean + run.first * statistic : nullptr;
    a.rstd = rstd ? rstd + run.first * statistic : nullptr;
    a.statistics_stride = run.step;
  }

  /// The stored sum of rows of a run; also at `kept`, if not null.
  AddArguments sum_of(const RowRun& run, std::byte* kept) const {
    AddArguments add;
    add.a = x.at(run.first);
    add.a_stride = x.stride(run.step);
    add.b = residual.at(run.first);
    add.b_stride = residual.stride(run.step);
    add.first = sum.at(run.first);
    add.first_stride = sum.stride(run.step);
    add.second = kept;
    add.second_stride = kept_stride(plan.problem.cols);
    add.streams_first = kept != nullptr;
    return add;
  }
  /// Whether kernels add the residual between their passes; never where y waits in f32 or f64.
  bool kernels_add() const {
    return sum && streams_sum && layout.sums && arguments.streaming &&
           plan.problem.cols <= plan.kernels->longest_added;
  }

  /// y of some columns, from the dtype of rows.
  void round_y(const RowRun& run, std::int64_t column, std::int64_t cols, const void* from,
               std::int64_t stride) const {
    AddArguments add;
    add.a = from;
    add.a_stride = stride;
    add.first = y.at(run.first, column);
    add.first_stride = y.stride(run.step);
    add.streams_first = streams_y;
    plan.round_y(add, 0, run.count, 0, cols);
  }
};

/// The sums of rows, or what the kernel needs to make them in `add`.
void take_sums(const Run& run, ForwardArguments& a, const RowRun& rows, std::int64_t task,
               AddArguments& add) {
  std::byte* kept =
      run.streams_sum && run.layout.sums ? run.layout.sums + task * run.layout.kept.bytes : nullptr;
  add = run.sum_of(rows, kept);
  if (kept) {
    a.x = kept;
    a.x_stride = add.second_stride;
  }
  // While y is written, x of the rows that follow is prefetched: no further, for four streams.
  a.ahead = run.x.at(rows.first);
  if (run.kernels_add()) {
    const std::int64_t row_bytes = a.cols * bytes_of(row_dtype(run.plan.problem));
    a.add = run.plan.add_residual;
    a.added = &add;
    a.x_ring = add.second_ring = policy::rows_in_ring(row_bytes) - 1;
    add.ahead_bytes = 0;
  } else {
    a.ahead = static_cast<const std::byte*>(a.ahead) + rows.count * a.ahead_stride;
    run.plan.add_residual(add, 0, rows.count, 0, a.cols);
  }
}

/// Rows that are taken together: their sum, their norm, their y.
void take_rows(const Run& run, ForwardArguments& a, const RowRun& rows, std::int64_t task) {
  const ForwardLayout& layout = run.layout;
  AddArguments add;
  run.aim(a, rows);
  if (run.sum) take_sums(run, a, rows, task, add);
  if (layout.y) {
    a.y = layout.y + task * layout.kept.bytes;
    a.y_stride = kept_stride(a.cols);
  }
  run.plan.kernels->rows(a, 0, rows.count);
  if (layout.y) run.round_y(rows, 0, a.cols, a.y, a.y_stride);
}

void run_rows(const Run& run, std::int64_t begin, std::int64_t end, std::int64_t task) {
  ForwardArguments a = run.arguments;
  std::int64_t group = -1;
  run.layout.order.each_run(begin, end, [&](const RowRun& rows) {
    run.parameters.select(a, rows.group, task, group);
    if (run.layout.zeros) a.beta = run.layout.zeros;
    prefetch_share(run.layout.order, rows, a.cols, {&run.x});
    const bool tiles = run.layout.kept.rows > 0 && !run.kernels_add();
    const std::int64_t most = tiles ? run.layout.kept.rows : rows.count;
    for (std::int64_t row = 0; row < rows.count; row += most)
      take_rows(run, a, part_of(rows, row, std::min(most, rows.count - row)), task);
  });
  if (run.plan.streaming_stores) hwy::FlushStream();
}

/// One segment of rows that threads share.
void write_segment(const Run& run, ForwardArguments a, const RowRun& rows, std::int64_t segment,
                   const Moments* of_rows, std::int64_t ahead_rows) {
  const auto write = run.plan.kernels->write;
  run.aim(a, rows);
  if (!run.plan.round_y) return write(a, 0, rows.count, segment, of_rows, ahead_rows);
  KeptSegment kept;
  const std::int64_t column = a.segments.begin(segment);
  for (std::int64_t r = 0; r < rows.count; ++r) {
    const RowRun row = part_of(rows, r, 1);
    run.aim(a, row);
    a.y = kept.array(column, bytes_of(row_dtype(run.plan.problem)));
    write(a, 0, 1, segment, of_rows + r * a.segments.count, ahead_rows);
    run.round_y(row, column, a.segments.end(segment) - column, kept.columns, 0);
  }
}

void share_rows(const Run& run, ParallelFor parallel_for) {
  const ForwardArguments& a = run.arguments;
  const ForwardLayout& layout = run.layout;
  const ForwardKernels& kernels = *run.plan.kernels;
  const std::int64_t rows = run.plan.problem.rows, segments = a.segments.count;
  run_shared_rows(
      SharedRows<Moments>{rows, layout.group, segments, run.plan.tasks, layout.moments,
                          layout.moments + layout.group * segments},
      true, parallel_for,
      [&](std::int64_t begin, std::int64_t end, std::int64_t segment, Moments* out) {
        ForwardArguments own = a;
        for (std::int64_t row = begin; row < end; ++row) {
          const RowRun one{row, 1, 1, 0};
          const std::int64_t column = a.segments.begin(segment);
          run.aim(own, one);
          if (run.sum)
            run.plan.add_residual(run.sum_of(one, nullptr), 0, 1, column,
                                  a.segments.end(segment) - column);
          out[(row - begin) * segments + segment] = kernels.moments(own, 0, segment);
        }
      },
      [&](const Moments* parts) { return kernels.merge(a, parts); },
      [&](std::int64_t begin, std::int64_t end, std::int64_t segment, const Moments* of_rows) {
        layout.order.each_run_in_order(begin, end, [&](const RowRun& part) {
          write_segment(run, a, part, segment, of_rows + (part.first - begin) * segments,
                        end < rows ? layout.group : 0);
        });
      });
}

}  // namespace

Status run(const ForwardPlan& plan, const ForwardBuffers& buffers, Workspace workspace) {
  return run(plan, buffers, workspace, OpenMP{plan.device.threads});
}

Status run(const ForwardPlan& plan, const ForwardBuffers& buffers, Workspace workspace,
           ParallelFor parallel_for) {
  const ForwardProblem& p = plan.problem;
  if (!plan.kernels)
    return Status::invalid_argument("plan: expected the result of fusednorm::cpu::plan()");
  if (auto status = validate(p, buffers, workspace, plan.workspace_bytes); !status) return status;
  if (p.rows == 0) return {};
  if (p.cols == 0) {
    if (compute_dtype(p.x_dtype) == DType::f64)
      fill_statistics<double>(p, buffers);
    else
      fill_statistics<float>(p, buffers);
    return {};
  }
  Carver carver(workspace.data);
  const ForwardLayout layout(plan, carver);
  const Run run(plan, buffers, layout);
  run.parameters.expand_all(p.param_groups);
  if (layout.zeros) std::memset(layout.zeros, 0, static_cast<std::size_t>(layout.zero_bytes));
  const RowOrder& order = layout.order;
  switch (plan.schedule) {
    case Schedule::calling_thread:
      run_rows(run, 0, p.rows, 0);
      break;
    case Schedule::rows:
      parallel_for(plan.tasks, [&](std::int64_t task) {
        run_rows(run, order.row_of(split(order.units(), plan.tasks, task)),
                 order.row_of(split(order.units(), plan.tasks, task + 1)), task);
      });
      break;
    case Schedule::segments:
      share_rows(run, parallel_for);
      break;
  }
  return {};
}

}  // namespace fusednorm::cpu
