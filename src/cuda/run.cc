// Runs CUDA plans: checks, then one or two launches. Nothing is allocated, synchronised or read
// back.
#include <algorithm>

#include "arguments.h"
#include "geometry.h"
#include "kernel_sizes.h"
#include "kernels.h"
#include "launch.h"
#include "layout.h"
#include "validate.h"

namespace fusednorm::cuda {
namespace {

ParamKind kind_of(bool present, DType param) {
  if (!present) return ParamKind::absent;
  return param == DType::f32 ? ParamKind::f32 : ParamKind::same_as_x;
}

/// Whole vectors may be read and written: every row starts on a vector's boundary.
bool aligned_rows(const void* data, std::int64_t stride, DType dtype) {
  return data == nullptr ||
         (reinterpret_cast<std::uintptr_t>(data) % vector_bytes == 0 &&
          stride * static_cast<std::int64_t>(size_of(dtype)) % vector_bytes == 0);
}

std::int64_t bytes_of(DType dtype) {
  return static_cast<std::int64_t>(size_of(dtype));
}

bool aligned_vectors(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % vector_bytes == 0;
}

/// Every warp of every block has a segment, and every segment all its columns.
bool all_whole(const Geometry& g, std::int64_t cols, int blocks_per_row) {
  return cols == g.segments * g.segment_cols() && g.segments % blocks_per_row == 0;
}

/// NaN in all bytes set: the mean of no elements is 0 / 0.
Status fill_undefined(const ForwardProblem& p, const ForwardBuffers& buffers, Stream stream) {
  const std::size_t bytes = static_cast<std::size_t>(p.rows) * size_of(compute_dtype(p.x_dtype));
  for (void* statistics :
       {p.save_mean ? buffers.mean : nullptr, p.save_rstd ? buffers.rstd : nullptr}) {
    if (statistics == nullptr) continue;
    const cudaError_t error = cudaMemsetAsync(statistics, 0xff, bytes, stream);
    if (error != cudaSuccess) return failed("cudaMemsetAsync", error);
  }
  return {};
}

Status clear_gradients(const BackwardProblem& p, const BackwardBuffers& buffers, Stream stream) {
  const std::size_t bytes = static_cast<std::size_t>(p.cols) * size_of(p.param_dtype);
  for (void* gradient :
       {p.want_dgamma ? buffers.dgamma : nullptr, p.want_dbeta ? buffers.dbeta : nullptr}) {
    if (gradient == nullptr) continue;
    const cudaError_t error = cudaMemsetAsync(gradient, 0, bytes, stream);
    if (error != cudaSuccess) return failed("cudaMemsetAsync", error);
  }
  return {};
}

Status launch_columns(const BackwardPlan& plan, ColumnArguments arguments, Stream stream) {
  const BackwardProblem& p = plan.problem;
  // A warp for every 16 partials: with fewer each, adding up the warps would cost more than it
  // saves.
  const auto warps = static_cast<int>(
      std::clamp<std::int64_t>(divide_up(plan.partials, partials_per_warp), 1, column_warps));
  const std::int64_t fit = 4 * std::int64_t{plan.device.multiprocessors} * (column_warps / warps);
  void* pointers[] = {&arguments};
  return launch("backward_columns", columns_kernel(p.param_dtype, compute_dtype(p.x_dtype)),
                {std::min(divide_up(p.cols, warp_lanes), fit), warps * warp_lanes, 1, 0}, pointers,
                stream);
}

Status launch_strips(const BackwardPlan& plan, const BackwardFinder& kernels,
                     BackwardArguments& arguments, ColumnArguments columns, Stream stream) {
  const BackwardProblem& p = plan.problem;
  const Launch& l = plan.launch;
  void* first[] = {&arguments};
  if (auto status = launch("backward_strip_sums", kernels.strip_sums,
                           {l.blocks, l.threads_per_block, 1, l.shared_bytes}, first, stream);
      !status) {
    return status;
  }
  if (!p.want_dx) return launch_columns(plan, columns, stream);
  const std::int64_t many = plan.device.multiprocessors;
  int column_blocks = 0;
  if (arguments.partials) {
    column_blocks = static_cast<int>(std::min(divide_up(p.cols, warp_lanes), many));
  }
  const std::int64_t items = p.rows * divide_up(arguments.segments, strip_segments);
  void* second[] = {&arguments, &columns, &column_blocks};
  return launch("backward_strip_dx",
                p.param_dtype == DType::f32 ? kernels.strip_dx_f32 : kernels.strip_dx_same,
                {column_blocks + std::min(items, 2 * many), l.threads_per_block, 1, l.shared_bytes},
                second, stream);
}

}  // namespace

ForwardFinder forward_finder(DType x, DType y) {
  const bool mixed = x != y;
  switch (x) {
    case DType::f64:
      return forward_finder_f64(mixed);
    case DType::f32:
      return forward_finder_f32(mixed);
    case DType::f16:
      return forward_finder_f16(mixed);
    case DType::bf16:
      return forward_finder_bf16(mixed);
  }
  return {};
}

BackwardFinder backward_finder(DType x, DType y, bool from_y) {
  const bool mixed = x != y;
  switch (x) {
    case DType::f64:
      return backward_finder_f64(mixed, from_y);
    case DType::f32:
      return backward_finder_f32(mixed, from_y);
    case DType::f16:
      return backward_finder_f16(mixed, from_y);
    case DType::bf16:
      return backward_finder_bf16(mixed, from_y);
  }
  return {};
}

Status run(const ForwardPlan& plan, const ForwardBuffers& buffers, Workspace workspace,
           Stream stream) {
  const ForwardProblem& p = plan.problem;
  const Launch& l = plan.launch;
  if (auto status = validate(p, buffers, workspace, plan.workspace_bytes); !status) return status;
  if (auto status = check_device(plan.device, workspace, plan.workspace_bytes); !status)
    return status;
  if (p.rows == 0) return {};
  if (p.cols == 0) return fill_undefined(p, buffers, stream);

  const Geometry g = forward_geometry(p);
  ForwardArguments arguments{};
  arguments.x = buffers.x;
  arguments.gamma = buffers.gamma;
  arguments.beta = buffers.beta;
  arguments.y = buffers.y;
  arguments.mean = p.save_mean ? buffers.mean : nullptr;
  arguments.rstd = p.save_rstd ? buffers.rstd : nullptr;
  arguments.moments = plan.workspace_bytes > 0 ? aligned(workspace.data) : nullptr;
  arguments.rows = p.rows;
  arguments.cols = p.cols;
  arguments.x_stride = resolved_stride(p.x_row_stride, p.cols);
  arguments.y_stride = resolved_stride(p.y_row_stride, p.cols);
  arguments.row_step = l.kernel == Kernel::warp ? l.blocks * (l.threads_per_block / l.lanes_per_row)
                                                : l.blocks / std::max(1, l.blocks_per_row);
  arguments.x_step = arguments.row_step * arguments.x_stride * bytes_of(p.x_dtype);
  arguments.y_step = arguments.row_step * arguments.y_stride * bytes_of(p.y_dtype);
  arguments.segments = g.segments;
  arguments.eps = p.eps;
  arguments.reciprocal_cols = 1.0 / static_cast<double>(p.cols);
  arguments.gamma_kind = kind_of(p.has_gamma, p.param_dtype);
  arguments.beta_kind = kind_of(p.has_beta, p.param_dtype);
  arguments.blocks_per_row = l.blocks_per_row;
  arguments.vectorised = aligned_rows(buffers.x, arguments.x_stride, p.x_dtype) &&
                         aligned_rows(buffers.y, arguments.y_stride, p.y_dtype);
  arguments.params_vectorised = aligned_vectors(buffers.gamma) && aligned_vectors(buffers.beta);
  void* pointers[] = {&arguments};
  const ForwardFinder kernels = forward_finder(p.x_dtype, p.y_dtype);
  const LaunchShape shape{l.blocks, l.threads_per_block,
                          l.kernel == Kernel::cluster ? l.blocks_per_row : 1, l.shared_bytes};
  switch (l.kernel) {
    case Kernel::none:
      return {};
    case Kernel::warp:
      return launch("forward_narrow", kernels.narrow(g.lanes, g.vectors), shape, pointers, stream);
    case Kernel::block:
    case Kernel::cluster: {
      const bool whole = arguments.vectorised && all_whole(g, p.cols, l.blocks_per_row);
      LaunchShape own = shape;
      own.shared_bytes = forward_wide_shared(p, l.threads_per_block, whole);
      return launch("forward_wide", kernels.wide({g.vectors, l.kernel == Kernel::cluster, whole}),
                    own, pointers, stream);
    }
    case Kernel::reread:
      return launch("forward_reread", kernels.reread, shape, pointers, stream);
    case Kernel::split: {
      LaunchShape first = shape;
      first.blocks = std::min(divide_up(p.rows * g.segments, max_block_segments),
                              2 * std::int64_t{plan.device.multiprocessors});
      if (auto status =
              launch("forward_split_moments", kernels.split_moments, first, pointers, stream);
          !status) {
        return status;
      }
      return launch("forward_split_finish", kernels.split_finish, shape, pointers, stream);
    }
  }
  return {};
}

Status run(const BackwardPlan& plan, const BackwardBuffers& buffers, Workspace workspace,
           Stream stream) {
  const BackwardProblem& p = plan.problem;
  const Launch& l = plan.launch;
  const bool from_y = p.source == Source::y;
  if (auto status = validate(p, buffers, workspace, plan.workspace_bytes); !status) return status;
  if (auto status = check_device(plan.device, workspace, plan.workspace_bytes); !status)
    return status;
  if (p.cols == 0) return {};
  if (p.rows == 0) return clear_gradients(p, buffers, stream);
  if (l.kernel == Kernel::none) return {};

  const Geometry g = backward_geometry(p);
  const BackwardLayout layout(plan, workspace.data);
  const void* source = from_y ? buffers.y : buffers.x;
  BackwardArguments arguments{};
  arguments.dy = buffers.dy;
  arguments.source = source;
  arguments.gamma = buffers.gamma;
  arguments.beta = buffers.beta;
  arguments.mean = buffers.mean;
  arguments.rstd = buffers.rstd;
  arguments.dx = p.want_dx ? buffers.dx : nullptr;
  arguments.partials = layout.partials;
  arguments.row_sums = layout.row_sums;
  arguments.partial_count = plan.partials;
  arguments.rows = p.rows;
  arguments.cols = p.cols;
  arguments.dy_stride = resolved_stride(p.dy_row_stride, p.cols);
  arguments.source_stride = resolved_stride(p.source_row_stride, p.cols);
  arguments.dx_stride = resolved_stride(p.dx_row_stride, p.cols);
  // Groups of a block take a row each; a cluster takes one.
  arguments.row_step = l.kernel == Kernel::cluster
                           ? l.blocks / l.blocks_per_row
                           : l.blocks * (l.threads_per_block / l.lanes_per_row);
  arguments.turns = static_cast<int>(p.rows / arguments.row_step);
  arguments.rows_left = p.rows % arguments.row_step;
  arguments.dy_step = arguments.row_step * arguments.dy_stride * bytes_of(p.y_dtype);
  arguments.source_step =
      arguments.row_step * arguments.source_stride * bytes_of(from_y ? p.y_dtype : p.x_dtype);
  arguments.dx_step = arguments.row_step * arguments.dx_stride * bytes_of(p.x_dtype);
  arguments.statistics_step = arguments.row_step * bytes_of(compute_dtype(p.x_dtype));
  arguments.segments = g.segments;
  arguments.reciprocal_cols = 1.0 / static_cast<double>(p.cols);
  arguments.gamma_kind = kind_of(p.has_gamma, p.param_dtype);
  arguments.beta_kind = kind_of(p.has_beta && from_y, p.param_dtype);
  arguments.blocks_per_row = l.blocks_per_row;
  arguments.vectorised =
      aligned_rows(buffers.dy, arguments.dy_stride, p.y_dtype) &&
      aligned_rows(source, arguments.source_stride, from_y ? p.y_dtype : p.x_dtype) &&
      aligned_rows(arguments.dx, arguments.dx_stride, p.x_dtype);
  arguments.params_vectorised = aligned_vectors(buffers.gamma) && aligned_vectors(buffers.beta);
  const ColumnArguments columns{layout.partials, p.want_dgamma ? buffers.dgamma : nullptr,
                                p.want_dbeta ? buffers.dbeta : nullptr, plan.partials, p.cols};
  const BackwardFinder kernels = backward_finder(p.x_dtype, p.y_dtype, from_y);
  if (l.kernel == Kernel::split) return launch_strips(plan, kernels, arguments, columns, stream);

  void* pointers[] = {&arguments};
  const bool clustered = l.kernel == Kernel::cluster;
  const bool whole =
      arguments.vectorised && !stretched(g, p.x_dtype) && all_whole(g, p.cols, l.blocks_per_row);
  LaunchShape shape{l.blocks, l.threads_per_block, clustered ? l.blocks_per_row : 1,
                    l.shared_bytes};
  Status status;
  if (l.kernel == Kernel::warp) {
    status = launch("backward_narrow", kernels.narrow(g.lanes, g.vectors), shape, pointers, stream);
  } else {
    const int groups = clustered ? 1 : l.threads_per_block / l.lanes_per_row;
    shape.shared_bytes = backward_shared(p, l.threads_per_block, groups, whole);
    status = launch("backward_wide", kernels.wide({g.vectors, clustered, whole}), shape, pointers,
                    stream);
  }
  if (!status || plan.partials == 0) return status;
  return launch_columns(plan, columns, stream);
}

}  // namespace fusednorm::cuda
