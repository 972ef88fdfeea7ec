// SPDX-License-Identifier: Apache-2.0
// Runs a backward plan: checks, then hands pieces of work to parallel_for, then gathers dgamma and
// dbeta.
#include <algorithm>
#include <cstring>

#include "cpu/run/backward_shared.h"
#include "cpu/run/gathered_sums.h"
#include "cpu/run/zero_gamma.h"
#include "hwy/cache_control.h"
#include "validate.h"

namespace fusednorm::cpu {
namespace {

/// A task's view of a run.
struct Worker {
  const BackwardRun& run;
  std::int64_t task;
  BackwardArguments arguments = run.arguments;
  std::int64_t group = -1;  ///< whose parameters the task's own rows hold

  std::byte* kept(std::byte* base) const {
    return base ? base + task * run.layout.kept.bytes : nullptr;
  }
  void select(std::int64_t of_group) { run.parameters.select(arguments, of_group, task, group); }

  /// Rows of one run, with sums of its group.
  void take(const RowRun& rows, ColumnSums sums) {
    select(rows.group);
    prefetch_share(run.layout.order, rows, arguments.cols, {&run.dy, &run.source});
    const std::int64_t most = run.layout.kept.rows > 0 ? run.layout.kept.rows : rows.count;
    for (std::int64_t row = 0; row < rows.count; row += most)
      take_together(part_of(rows, row, std::min(most, rows.count - row)), sums);
  }

 private:
  void take_together(const RowRun& rows, ColumnSums sums) {
    BackwardArguments& a = arguments;
    const std::int64_t stride = kept_stride(a.cols);
    run.aim(a, rows);
    if (std::byte* dy = kept(run.layout.dy)) {
      run.widen(run.dy, rows, 0, a.cols, dy, stride);
      a.dy = dy;
      a.dy_stride = stride;
    }
    if (std::byte* source = kept(run.layout.source)) {
      run.widen(run.source, rows, 0, a.cols, source, stride);
      a.source = source;
      a.source_stride = stride;
    }
    std::byte* dx = kept(run.layout.dx);
    if (dx) {
      a.dx = dx;
      a.dx_stride = stride;
    }
    run.kernels.rows(a, 0, rows.count, sums);
    if (dx) run.add_ds(rows, 0, a.cols, dx, stride);
  }
};

/// Sums `rows` rows (or units of them) into `result`: plain sums of at most rows_per_sum rows of a
/// group, then compensated. walk(begin, end, sums) takes some of them.
template <typename Walk>
void sum_block(const BackwardRun& run, std::int64_t begin, std::int64_t end, std::int64_t at_once,
               ColumnSums result, std::int64_t task, const Walk& walk) {
  if (!run.want_sums) return walk(begin, end, ColumnSums{});
  const std::int64_t count = run.layout.live * run.layout.pitch;
  if (!run.layout.several_sums) {  // no scratch then
    run.clear(result.dgamma, count);
    run.clear(result.dbeta, count);
    return walk(begin, end, result);
  }
  const GatheredSums sums(run, run.layout.scratch + 6 * task * count * run.element, count, count);
  sums.clear_pairs();
  for (std::int64_t at = begin; at < end; at += at_once) {
    sums.clear_plain();
    walk(at, std::min(at + at_once, end), sums.plain());
    sums.compensate();
  }
  sums.settle(result);
}

/// Partial sums, by their number.
ColumnSums partial(const BackwardRun& run, std::int64_t index) {
  if (!run.want_sums) return {};
  const std::int64_t bytes = run.layout.pitch * run.element;
  return {run.layout.partials + index * bytes,
          run.layout.partials + (run.layout.partial_count + index) * bytes};
}

/// Columns [begin, end) of a group's dgamma and dbeta, from `blocks` partial sums that are `pitch`
/// elements apart.
void store_sums(Worker& worker, std::int64_t group, ColumnSums first, std::int64_t blocks,
                std::int64_t pitch, std::int64_t begin, std::int64_t end) {
  const BackwardRun& run = worker.run;
  const BackwardProblem& p = run.plan.problem;
  worker.select(group);
  const std::int64_t offset = group * p.cols * worker.arguments.param_size;
  const auto store = [&](void* out, const void* sums, const void* divisor) {
    run.kernels.store(static_cast<std::byte*>(out) + offset, sums, blocks, pitch, p.cols, begin,
                      end, false, divisor);
  };
  if (p.want_dgamma)
    store(run.buffers.dgamma, first.dgamma, run.divides() ? worker.arguments.gamma : nullptr);
  if (p.want_dbeta) store(run.buffers.dbeta, first.dbeta, nullptr);
}

/// Whether rows are taken in the order of memory, two periods at a time: heads with parameters of
/// their own, whose rows have one stride within a period.
bool takes_heads(const BackwardRun& run) {
  const BackwardArguments& a = run.arguments;
  const RowOrder& order = run.layout.order;
  return run.kernels.heads && run.want_sums && a.streaming && run.plan.problem.want_dx &&
         !run.plan.problem.has_ds && a.cols >= segment_granule && a.segments.count == 1 &&
         order.groups > 1 && order.period == order.groups &&
         (order.inner == 0 || order.inner == order.period);
}

/// Rows of an even number of periods.
void take_heads(Worker& worker, std::int64_t begin, std::int64_t end, ColumnSums sums) {
  const BackwardRun& run = worker.run;
  const std::int64_t period = run.layout.order.period;
  BackwardArguments& a = worker.arguments;
  worker.select(0);
  run.aim(a, {begin, 1, end - begin, 0});
  run.kernels.heads(a,
                    {period, (end - begin) / period, run.dy.stride(period),
                     run.source.stride(period), run.dx.stride(period),
                     run.parameters.step(run.parameters.gamma), run.layout.pitch * run.element},
                    sums);
}

/// Units of all groups.
void take_units(Worker& worker, std::int64_t begin, std::int64_t end, ColumnSums sums) {
  const BackwardRun& run = worker.run;
  const RowOrder& order = run.layout.order;
  if (takes_heads(run)) {
    // The last unit may lack heads.
    const std::int64_t whole = std::min(end, order.rows / order.period);
    const std::int64_t until = begin + std::max<std::int64_t>(whole - begin, 0) / 2 * 2;
    if (until > begin) take_heads(worker, order.row_of(begin), order.row_of(until), sums);
    begin = until;
  }
  order.each_run(order.row_of(begin), order.row_of(end), [&](const RowRun& rows) {
    const auto of_group = [&](void* first) -> void* {
      const std::int64_t shift = rows.group * run.layout.pitch * run.element;
      return first ? static_cast<std::byte*>(first) + shift : nullptr;
    };
    worker.take(rows, {of_group(sums.dgamma), of_group(sums.dbeta)});
  });
}

/// A block of rows: of all groups, interleaved, or of one group.
void take_block(Worker& worker, std::int64_t block) {
  const BackwardRun& run = worker.run;
  const RowOrder& order = run.layout.order;
  const std::int64_t blocks = run.plan.row_blocks;
  if (!order.by_group()) {
    const std::int64_t at_once =
        std::max<std::int64_t>(policy::rows_per_sum / order.rows_of_group(1), 1);
    return sum_block(run, split(order.units(), blocks, block),
                     split(order.units(), blocks, block + 1), at_once,
                     partial(run, block * run.layout.live), worker.task,
                     [&](std::int64_t begin, std::int64_t end, ColumnSums sums) {
                       take_units(worker, begin, end, sums);
                     });
  }
  const std::int64_t group = block / blocks, part = block % blocks, rows = order.rows_of(group);
  const ColumnSums result = partial(run, blocks > 1 ? block : worker.task);
  sum_block(run, split(rows, blocks, part), split(rows, blocks, part + 1), policy::rows_per_sum,
            result, worker.task, [&](std::int64_t begin, std::int64_t end, ColumnSums sums) {
              order.each_run_of(group, begin, end,
                                [&](const RowRun& some) { worker.take(some, sums); });
            });
  if (blocks == 1 && run.want_sums)
    store_sums(worker, group, result, 1, 0, 0, run.plan.problem.cols);
}

/// dgamma and dbeta of one group from the partials of all blocks; some columns of them.
void gather(Worker& worker, std::int64_t group, std::int64_t begin, std::int64_t end) {
  const BackwardRun& run = worker.run;
  const std::int64_t blocks = run.plan.row_blocks, pitch = run.layout.pitch;
  const bool by_group = run.layout.order.by_group();
  store_sums(worker, group, partial(run, by_group ? group * blocks : group), blocks,
             by_group ? pitch : run.layout.live * pitch, begin, end);
}

/// Gathering is worth waking threads for only where it reads as much as a small problem does.
void gather_all(const BackwardRun& run, ParallelFor parallel_for) {
  const std::int64_t groups = run.layout.order.groups, cols = run.plan.problem.cols;
  const std::int64_t columns = policy::padded(cols) / policy::sum_padding;
  const std::int64_t bytes = 2 * run.plan.row_blocks * groups * run.layout.pitch * run.element;
  const std::int64_t shares = groups > 1 ? groups : columns;
  const std::int64_t pieces =
      bytes < policy::calling_thread_bytes ? 1 : std::min(run.plan.tasks, shares);
  const auto piece = [&](std::int64_t index) {
    Worker worker{run, index};
    const std::int64_t begin = split(shares, pieces, index), end = split(shares, pieces, index + 1);
    if (groups == 1)
      return gather(worker, 0, begin * policy::sum_padding,
                    std::min(end * policy::sum_padding, cols));
    for (std::int64_t group = begin; group < end; ++group) gather(worker, group, 0, cols);
  };
  if (pieces == 1)
    piece(0);
  else
    parallel_for(pieces, piece);
}

void run_rows(const BackwardRun& run, ParallelFor parallel_for) {
  const bool by_group = run.layout.order.by_group();
  const std::int64_t tasks = run.plan.tasks,
                     blocks = run.plan.row_blocks * (by_group ? run.layout.order.groups : 1);
  run.parameters.expand_all(run.layout.order.groups);
  parallel_for(tasks, [&](std::int64_t task) {
    Worker worker{run, task};
    for (std::int64_t block = split(blocks, tasks, task); block < split(blocks, tasks, task + 1);
         ++block) {
      take_block(worker, block);
    }
    if (run.plan.streaming_stores) hwy::FlushStream();
  });
  if (run.want_sums && !(by_group && run.plan.row_blocks == 1)) gather_all(run, parallel_for);
}

/// No dy: ds alone goes to dx and dresidual.
void copy_ds(const BackwardRun& run, ParallelFor parallel_for) {
  const BackwardProblem& p = run.plan.problem;
  if (!p.want_dx && !p.want_dresidual) return;
  parallel_for(run.plan.tasks, [&](std::int64_t task) {
    run.layout.order.each_run_in_order(
        split(p.rows, run.plan.tasks, task), split(p.rows, run.plan.tasks, task + 1),
        [&](const RowRun& rows) { run.add_ds(rows, 0, p.cols, nullptr, 0); });
    if (run.plan.streaming_stores) hwy::FlushStream();
  });
}

/// No rows, or no dy: the sums are zero.
void clear_gradients(const BackwardProblem& p, const BackwardBuffers& buffers) {
  const std::size_t bytes =
      static_cast<std::size_t>(p.param_groups * p.cols) * size_of(p.param_dtype);
  if (p.want_dgamma) std::memset(buffers.dgamma, 0, bytes);
  if (p.want_dbeta) std::memset(buffers.dbeta, 0, bytes);
}

}  // namespace

Status run(const BackwardPlan& plan, const BackwardBuffers& buffers, Workspace workspace) {
  return run(plan, buffers, workspace, OpenMP{plan.device.threads});
}

Status run(const BackwardPlan& plan, const BackwardBuffers& buffers, Workspace workspace,
           ParallelFor parallel_for) {
  const BackwardProblem& p = plan.problem;
  if (!plan.kernels)
    return Status::invalid_argument("plan: expected the result of fusednorm::cpu::plan()");
  if (auto status = validate(p, buffers, workspace, plan.workspace_bytes); !status) return status;
  const bool wants_rows = p.want_dx || p.want_dresidual;
  if (p.cols == 0 || !(wants_rows || p.want_dgamma || p.want_dbeta)) return {};
  if (p.rows == 0 || !p.has_dy) clear_gradients(p, buffers);
  if (p.rows == 0) return {};
  if (auto status = check_no_zero(p, buffers.gamma); !status) return status;
  Carver carver(workspace.data);
  const BackwardLayout layout(plan, carver);
  const BackwardRun run(plan, buffers, layout);
  const auto here = [](std::int64_t tasks, Task body) {
    for (std::int64_t task = 0; task < tasks; ++task) body(task);
  };
  const ParallelFor calling_thread(here);
  const ParallelFor& some =
      plan.schedule == Schedule::calling_thread ? calling_thread : parallel_for;
  if (!p.has_dy)
    copy_ds(run, some);
  else if (plan.schedule == Schedule::segments)
    share_rows(run, some);
  else
    run_rows(run, some);
  return {};
}

}  // namespace fusednorm::cpu
