// SPDX-License-Identifier: Apache-2.0
// Runs a backward plan: checks, then hands pieces of work to parallel_for, then gathers dgamma and
// dbeta.
#include <algorithm>
#include <cstring>

#include "cpu/plan/layout.h"
#include "cpu/run/shared_rows.h"
#include "norms/norm.h"
#include "validate.h"

namespace fusednorm::cpu {
namespace {

/// The first column whose gamma is zero, or -1. From y alone nothing is known of x there.
std::int64_t first_zero(const void* gamma, std::int64_t cols, DType dtype) {
  const auto find = [&](auto zero) -> std::int64_t {
    const auto* begin = static_cast<const decltype(zero)*>(gamma);
    const auto* found = std::find_if(begin, begin + cols, [](auto g) {
      if constexpr (std::is_same_v<decltype(g), std::uint16_t>)
        return (g & 0x7fff) == 0;
      else
        return g == 0;
    });
    return found == begin + cols ? -1 : found - begin;
  };
  switch (dtype) {
    case DType::f64:
      return find(0.0);
    case DType::f32:
      return find(0.0f);
    default:
      return find(std::uint16_t{0});
  }
}

BackwardArguments arguments_of(const BackwardPlan& plan, const BackwardBuffers& buffers) {
  const BackwardProblem& p = plan.problem;
  const bool from_y = p.source == Source::y;
  BackwardArguments a;
  a.operation = p.operation;
  a.dy = buffers.dy;
  a.source = from_y ? buffers.y : buffers.x;
  a.gamma = p.has_gamma ? buffers.gamma : nullptr;
  a.beta = from_y && p.has_beta ? buffers.beta : nullptr;
  a.mean = norms::has_mean(p.operation) ? buffers.mean : nullptr;
  a.rstd = buffers.rstd;
  a.dx = p.want_dx ? buffers.dx : nullptr;
  a.cols = p.cols;
  a.dy_stride = resolved_stride(p.dy_row_stride, p.cols);
  a.source_stride = resolved_stride(p.source_row_stride, p.cols);
  a.dx_stride = resolved_stride(p.dx_row_stride, p.cols);
  // In place, the lines to write are in the cache already.
  a.streaming = plan.streaming_stores && buffers.dx != buffers.dy && buffers.dx != a.source;
  a.segments = segments_of(p.cols, p.x_dtype);
  a.expand = plan.kernels->takes_given ? nullptr : plan.kernels->expand;
  a.param_size = static_cast<std::int64_t>(size_of(p.param_dtype));
  return a;
}

/// One backward run's constants.
struct Run {
  const BackwardPlan& plan;
  const BackwardBuffers& buffers;
  const BackwardArguments& arguments;
  const BackwardKernels& kernels;
  const BackwardLayout& layout;
  std::int64_t element;
  bool want_sums;

  std::byte* array(std::byte* base, std::int64_t index) const {
    return base + index * layout.pitch * element;
  }
  /// Whether the sums of dgamma are gamma times too large.
  bool divides() const { return plan.problem.source == Source::y && arguments.gamma; }
  void clear(void* sums, std::int64_t count) const {
    std::memset(sums, 0, static_cast<std::size_t>(count * element));
  }
};

/// Sums one block of rows into its partials.
void sum_block(const Run& run, std::int64_t block, std::int64_t task) {
  const std::int64_t rows = run.plan.problem.rows, blocks = run.plan.row_blocks;
  const std::int64_t begin = split(rows, blocks, block), end = split(rows, blocks, block + 1);
  if (!run.want_sums) return run.kernels.rows(run.arguments, begin, end, {});
  const std::int64_t pitch = run.layout.pitch;
  const ColumnSums result{run.array(run.layout.partials, block),
                          run.array(run.layout.partials, blocks + block)};
  if (!run.layout.several_sums) {
    run.clear(result.dgamma, pitch);
    run.clear(result.dbeta, pitch);
    return run.kernels.rows(run.arguments, begin, end, result);
  }
  std::byte* scratch = run.array(run.layout.scratch, 6 * task);
  const ColumnSums plain{scratch, run.array(scratch, 1)};
  std::byte *dgamma_pair = run.array(scratch, 2), *dbeta_pair = run.array(scratch, 4);
  run.clear(dgamma_pair, 4 * pitch);
  for (std::int64_t row = begin; row < end; row += policy::rows_per_sum) {
    run.clear(scratch, 2 * pitch);
    run.kernels.rows(run.arguments, row, std::min(row + policy::rows_per_sum, end), plain);
    run.kernels.compensate(dgamma_pair, dgamma_pair + pitch * run.element, plain.dgamma, pitch);
    run.kernels.compensate(dbeta_pair, dbeta_pair + pitch * run.element, plain.dbeta, pitch);
  }
  run.kernels.settle(result.dgamma, dgamma_pair, dgamma_pair + pitch * run.element, pitch);
  run.kernels.settle(result.dbeta, dbeta_pair, dbeta_pair + pitch * run.element, pitch);
}

/// dgamma and dbeta from the partials of all blocks.
void gather(const Run& run, std::int64_t begin, std::int64_t end) {
  const std::int64_t blocks = run.plan.row_blocks, pitch = run.layout.pitch;
  const BackwardProblem& p = run.plan.problem;
  const auto store = [&](void* out, std::int64_t first_block, const void* divisor) {
    run.kernels.store(out, run.array(run.layout.partials, first_block), blocks, pitch, p.cols,
                      begin, end, false, divisor);
  };
  if (p.want_dgamma) store(run.buffers.dgamma, 0, run.divides() ? run.arguments.gamma : nullptr);
  if (p.want_dbeta) store(run.buffers.dbeta, blocks, nullptr);
}

void run_rows(const Run& run, ParallelFor parallel_for) {
  const std::int64_t tasks = run.plan.tasks, blocks = run.plan.row_blocks;
  parallel_for(tasks, [&](std::int64_t task) {
    for (std::int64_t block = split(blocks, tasks, task); block < split(blocks, tasks, task + 1);
         ++block) {
      sum_block(run, block, task);
    }
  });
  if (!run.want_sums) return;
  // Gathering is worth waking threads for only where it reads as much as a small problem does.
  const std::int64_t columns = policy::padded(run.plan.problem.cols) / policy::sum_padding;
  const std::int64_t bytes = 2 * blocks * run.layout.pitch * run.element;
  const std::int64_t pieces = bytes < policy::calling_thread_bytes ? 1 : std::min(tasks, columns);
  const auto piece = [&](std::int64_t index) {
    gather(
        run, split(columns, pieces, index) * policy::sum_padding,
        std::min(split(columns, pieces, index + 1) * policy::sum_padding, run.plan.problem.cols));
  };
  if (pieces == 1)
    piece(0);
  else
    parallel_for(pieces, piece);
}

/// The column sums of one segment, over the rows of one group after another.
class SegmentSums {
 public:
  SegmentSums(const Run& run, std::int64_t segment, std::byte* local)
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
    const std::int64_t offset = begin_ * static_cast<std::int64_t>(size_of(p.param_dtype));
    const auto store = [&](void* out, const std::byte* sums, const void* divisor) {
      run_.kernels.store(static_cast<std::byte*>(out) + offset, sums, 1, 0, count_, 0, count_,
                         run_.arguments.streaming, divisor);
    };
    if (p.want_dgamma) {
      alignas(Carver::alignment) std::byte expanded[policy::room(max_segment(DType::f64)) * 8];
      const void* divisor = nullptr;
      if (run_.divides()) divisor = static_cast<const std::byte*>(run_.arguments.gamma) + offset;
      if (divisor && run_.arguments.expand) {
        run_.arguments.expand(divisor, 1, count_, expanded);
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

  const Run& run_;
  std::int64_t begin_;
  std::int64_t count_;
  std::int64_t room_;
  std::byte* arrays_[6];  // plain sums of dgamma and dbeta, then high and low parts of each
};

void share_rows(const Run& run, ParallelFor parallel_for) {
  const BackwardArguments& a = run.arguments;
  const std::int64_t rows = run.plan.problem.rows, segments = a.segments.count;
  run_shared_rows(
      SharedRows<GradientSums>{rows, run.layout.group, segments, run.plan.tasks, run.layout.sums,
                               run.layout.sums + run.layout.group * segments},
      a.dx != nullptr, parallel_for,
      [&](std::int64_t begin, std::int64_t end, std::int64_t segment, GradientSums* out) {
        alignas(Carver::alignment) std::byte local[2 * policy::room(max_segment(DType::f64)) * 8];
        SegmentSums sums(run, segment, local);
        for (std::int64_t row = begin, until; row < end; row = until) {
          until = std::min(end, row - row % policy::rows_per_sum + policy::rows_per_sum);
          run.kernels.sums(a, row, until, segment, out + (row - begin) * segments,
                           sums.before(row));
        }
        if (end == rows) sums.finish();
      },
      [&](const GradientSums* parts) { return run.kernels.merge(parts, segments); },
      [&](std::int64_t begin, std::int64_t end, std::int64_t segment, const GradientSums* of_rows) {
        run.kernels.write(a, begin, end, segment, of_rows);
      });
}

/// No rows: the sums are zero.
void clear_gradients(const BackwardProblem& p, const BackwardBuffers& buffers) {
  const std::size_t bytes = static_cast<std::size_t>(p.cols) * size_of(p.param_dtype);
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
  const bool from_y = p.source == Source::y;
  if (!plan.kernels)
    return Status::invalid_argument("plan: expected the result of fusednorm::cpu::plan()");
  if (auto status = validate(p, buffers, workspace, plan.workspace_bytes); !status) return status;
  const bool want_sums = p.want_dgamma || p.want_dbeta;
  if (p.cols == 0 || (!p.want_dx && !want_sums)) return {};
  if (p.rows == 0) {
    clear_gradients(p, buffers);
    return {};
  }
  if (from_y && p.has_gamma) {
    if (const std::int64_t column = first_zero(buffers.gamma, p.cols, p.param_dtype); column >= 0) {
      return Status::invalid_argument(
          "gamma[" + std::to_string(column) +
          "] = 0: expected no zero when source is y, for there y says nothing "
          "of x; use source x");
    }
  }
  BackwardArguments a = arguments_of(plan, buffers);
  Carver carver(workspace.data);
  const BackwardLayout layout(plan, carver);
  if (layout.gamma) {
    plan.kernels->expand(a.gamma, 1, p.cols, layout.gamma);
    a.gamma = layout.gamma;
  }
  if (layout.beta) {
    plan.kernels->expand(a.beta, 0, p.cols, layout.beta);
    a.beta = layout.beta;
  }
  const Run run{plan,     buffers,
                a,        *plan.kernels,
                layout,   static_cast<std::int64_t>(size_of(compute_dtype(p.x_dtype))),
                want_sums};
  switch (plan.schedule) {
    case Schedule::calling_thread:
      run_rows(run, [](std::int64_t tasks, Task body) {
        for (std::int64_t task = 0; task < tasks; ++task) body(task);
      });
      break;
    case Schedule::rows:
      run_rows(run, parallel_for);
      break;
    case Schedule::segments:
      share_rows(run, parallel_for);
      break;
  }
  return {};
}

}  // namespace fusednorm::cpu
