// SPDX-License-Identifier: Apache-2.0
// Checks of addresses: present, aligned, and apart from each other unless the contract lets two
// arrays share a place.
#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>

#include "norms/norm.h"
#include "validate.h"

namespace fusednorm {
namespace {

/// Equal blocks of bytes at equal distances.
struct Level {
  std::int64_t count;
  std::int64_t stride;  ///< in bytes
  std::int64_t reach() const { return (count - 1) * stride; }
};

/// One array as it lies in memory. The smaller stride is the inner level.
struct Extent {
  const char* name;
  const void* data;
  std::int64_t row_bytes;
  std::size_t element;
  Level inner, outer;

  bool empty() const { return inner.count == 0 || outer.count == 0 || row_bytes == 0; }
  std::uintptr_t begin() const { return reinterpret_cast<std::uintptr_t>(data); }
  std::uintptr_t end() const { return begin() + outer.reach() + inner.reach() + row_bytes; }
};

/// The strides of one array of a problem, as the caller wrote them.
struct Strides {
  std::int64_t row;
  std::int64_t outer;
};

/// An array of the problem's rows; `present` false: it has none of them.
template <typename Problem>
Extent matrix(const Problem& p, bool present, const char* name, const void* data, Strides strides,
              DType dtype) {
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  // Strides that are not read may have any value, and must not be multiplied.
  if (!present || p.rows == 0 || p.cols == 0) return {name, data, 0, size_of(dtype), {}, {}};
  const RowLayout layout = row_layout(p.cols, strides.row, p.inner_rows, strides.outer);
  const std::int64_t inner_rows = p.inner_rows > 0 ? p.inner_rows : p.rows;
  const std::int64_t outer_rows = p.inner_rows > 0 ? p.rows / p.inner_rows : 1;
  Level inner{inner_rows, layout.row_stride * element};
  Level outer{outer_rows, outer_rows > 1 ? layout.outer_stride * element : 1};
  if (outer.count > 1 && outer.stride < inner.stride) std::swap(inner, outer);
  return {name, data, p.cols * element, size_of(dtype), inner, outer};
}

Extent vector(const char* name, const void* data, std::int64_t length, DType dtype) {
  const std::int64_t bytes = length * static_cast<std::int64_t>(size_of(dtype));
  return {name, data, bytes, size_of(dtype), {1, bytes}, {1, bytes}};
}

template <typename Problem>
Extent table(const Problem& p, bool present, const char* name, const void* data) {
  return vector(name, data, present ? p.param_groups * p.cols : 0, p.param_dtype);
}

Status check_address(const Extent& extent) {
  if (extent.empty()) return {};
  if (extent.data == nullptr) {
    return Status::invalid_argument(std::string(extent.name) + " = null: expected " +
                                    std::to_string(extent.inner.count * extent.outer.count) +
                                    " x " + std::to_string(extent.row_bytes) + " bytes");
  }
  if (extent.begin() % extent.element != 0) {
    return Status::invalid_argument(std::string(extent.name) + " is at an address that is " +
                                    std::to_string(extent.begin() % extent.element) +
                                    " bytes off: expected a multiple of " +
                                    std::to_string(extent.element));
  }
  return {};
}

bool same_level(const Level& a, const Level& b) {
  return a.count == b.count && (a.stride == b.stride || a.count <= 1);
}

bool same_strides(const Extent& a, const Extent& b) {
  return same_level(a.inner, b.inner) && same_level(a.outer, b.outer);
}

bool same_place(const Extent& a, const Extent& b) {
  return a.data == b.data && a.element == b.element && same_strides(a, b);
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

/// The steps k of a level, at most count - 1 either way, for which low < k * stride < high.
struct Steps {
  Steps(const Level& level, std::int64_t low, std::int64_t high)
      : first(std::max(floor_divide(low, level.stride) + 1, 1 - level.count)),
        last(std::min(floor_divide(high - 1, level.stride), level.count - 1)) {}
  std::int64_t first, last;
};

/// Exact where both have the same strides, so that rows may interleave: rows of a and b meet where
/// steps of the two levels bring b's row within a row of a's. The inner level reaches no further
/// than one outer stride, so few outer steps are tried. Where strides differ: whether the byte
/// ranges meet.
bool overlap(const Extent& a, const Extent& b) {
  if (a.empty() || b.empty()) return false;
  if (a.end() <= b.begin() || b.end() <= a.begin()) return false;
  if (!same_strides(a, b)) return true;
  const auto distance = static_cast<std::int64_t>(b.begin() - a.begin());
  const std::int64_t low = -b.row_bytes - distance, high = a.row_bytes - distance;
  const Steps outer(a.outer, low - a.inner.reach(), high + a.inner.reach());
  for (std::int64_t step = outer.first; step <= outer.last; ++step) {
    const std::int64_t moved = step * a.outer.stride;
    const Steps inner(a.inner, low - moved, high - moved);
    if (inner.first <= inner.last) return true;
  }
  return false;
}

enum class Sharing { forbidden, exact };

Status overlapping(const Extent& output, const Extent& other, Sharing sharing) {
  return Status::invalid_argument(
      std::string(output.name) + " overlaps " + other.name + " (" + output.name + " starts " +
      std::to_string(static_cast<std::int64_t>(output.begin() - other.begin())) + " bytes after " +
      other.name + "): expected " +
      (sharing == Sharing::exact ? "separate arrays, or the same address, strides and element size"
                                 : "separate arrays"));
}

using Extents = std::initializer_list<const Extent*>;

/// Every output against all others is most of a tiny call: an absent output is one comparison, and
/// a pair that passes makes no Status.
Status check_sharing(const Extent& output, Extents others, Sharing sharing) {
  if (output.data == nullptr || output.empty()) return {};
  for (const Extent* other : others) {
    if (other->data == nullptr || !overlap(output, *other)) continue;
    if (sharing == Sharing::exact && same_place(output, *other)) continue;
    return overlapping(output, *other, sharing);
  }
  return {};
}

Status check_apart(const Extent& output, Extents others) {
  return check_sharing(output, others, Sharing::forbidden);
}

Status check_apart_or_exact(const Extent& output, Extents others) {
  return check_sharing(output, others, Sharing::exact);
}

Status check_addresses(Extents arrays) {
  for (const Extent* array : arrays) {
    if (auto s = check_address(*array); !s) return s;
  }
  return {};
}

Status check_workspace(const Workspace& workspace, std::size_t needed, Extents arrays) {
  if (workspace.bytes < needed) {
    return Status::invalid_argument(
        "workspace.bytes = " + std::to_string(workspace.bytes) +
        ": expected at least plan.workspace_bytes = " + std::to_string(needed));
  }
  if (needed > 0 && workspace.data == nullptr) {
    return Status::invalid_argument("workspace.data = null: expected " + std::to_string(needed) +
                                    " bytes");
  }
  const auto bytes = static_cast<std::int64_t>(needed);
  return check_apart({"workspace", workspace.data, bytes, 1, {1, bytes}, {1, bytes}}, arrays);
}

}  // namespace

Status validate(const ForwardProblem& p, const ForwardBuffers& b, const Workspace& workspace,
                std::size_t needed) {
  const DType statistics = compute_dtype(p.x_dtype);
  const Extent x = matrix(p, true, "x", b.x, {p.x_row_stride, p.x_outer_stride}, p.x_dtype);
  const Extent y = matrix(p, true, "y", b.y, {p.y_row_stride, p.y_outer_stride}, p.y_dtype);
  const Extent residual = matrix(p, p.has_residual, "residual", b.residual,
                                 {p.residual_row_stride, p.residual_outer_stride}, row_dtype(p));
  const Extent sum =
      matrix(p, p.has_residual, "sum", b.sum, {p.sum_row_stride, p.sum_outer_stride}, row_dtype(p));
  const Extent gamma = table(p, p.has_gamma, "gamma", b.gamma);
  const Extent beta = table(p, p.has_beta, "beta", b.beta);
  const Extent mean = vector("mean", b.mean, p.save_mean ? p.rows : 0, statistics);
  const Extent rstd = vector("rstd", b.rstd, p.save_rstd ? p.rows : 0, statistics);
  const Extents all = {&x, &residual, &y, &sum, &gamma, &beta, &mean, &rstd};
  if (auto s = check_addresses(all); !s) return s;
  if (auto s = check_apart_or_exact(y, {&x}); !s) return s;
  if (auto s = check_apart(y, {&residual, &gamma, &beta}); !s) return s;
  if (auto s = check_apart_or_exact(sum, {&residual, &x}); !s) return s;
  if (auto s = check_apart(sum, {&y, &gamma, &beta}); !s) return s;
  if (auto s = check_apart(mean, {&x, &residual, &y, &sum, &gamma, &beta, &rstd}); !s) return s;
  if (auto s = check_apart(rstd, {&x, &residual, &y, &sum, &gamma, &beta}); !s) return s;
  return check_workspace(workspace, needed, all);
}

Status validate(const BackwardProblem& p, const BackwardBuffers& b, const Workspace& workspace,
                std::size_t needed) {
  const DType statistics = compute_dtype(p.x_dtype);
  const bool from_x = p.source == Source::x;
  const std::int64_t read_rows = p.has_dy ? p.rows : 0;  // without dy only ds is read
  const Extent dy =
      matrix(p, p.has_dy, "dy", b.dy, {p.dy_row_stride, p.dy_outer_stride}, p.y_dtype);
  const Extent source =
      matrix(p, p.has_dy, from_x ? "x" : "y", from_x ? b.x : b.y,
             {p.source_row_stride, p.source_outer_stride}, from_x ? row_dtype(p) : p.y_dtype);
  const Extent gamma = table(p, p.has_gamma && p.has_dy, "gamma", b.gamma);
  const Extent beta = table(p, p.has_beta && !from_x && p.has_dy, "beta", b.beta);
  const Extent mean =
      vector("mean", b.mean, from_x && norms::has_mean(p.operation) ? read_rows : 0, statistics);
  const Extent rstd = vector("rstd", b.rstd, read_rows, statistics);
  const Extent ds =
      matrix(p, p.has_ds, "ds", b.ds, {p.ds_row_stride, p.ds_outer_stride}, row_dtype(p));
  const Extent dx =
      matrix(p, p.want_dx, "dx", b.dx, {p.dx_row_stride, p.dx_outer_stride}, p.x_dtype);
  const Extent dresidual = matrix(p, p.want_dresidual, "dresidual", b.dresidual,
                                  {p.dresidual_row_stride, p.dresidual_outer_stride}, row_dtype(p));
  const Extent dgamma = table(p, p.want_dgamma, "dgamma", b.dgamma);
  const Extent dbeta = table(p, p.want_dbeta, "dbeta", b.dbeta);
  const Extents inputs = {&dy, &source, &gamma, &beta, &mean, &rstd, &ds};
  const Extents outputs = {&dx, &dresidual, &dgamma, &dbeta};
  if (p.cols > 0) {
    if (auto s = check_addresses(inputs); !s) return s;
    if (auto s = check_addresses(outputs); !s) return s;
  }
  if (auto s = check_apart_or_exact(dx, {&dy, &source, &ds}); !s) return s;
  if (auto s = check_apart(dx, {&gamma, &beta, &mean, &rstd}); !s) return s;
  if (auto s = check_apart_or_exact(dresidual, {&ds, &source}); !s) return s;
  if (auto s = check_apart(dresidual, {&dx, &dy, &gamma, &beta, &mean, &rstd}); !s) return s;
  for (const Extent* output : {&dgamma, &dbeta}) {
    if (auto s = check_apart(*output, inputs); !s) return s;
    if (auto s = check_apart(*output, {&dx, &dresidual}); !s) return s;
  }
  if (auto s = check_apart(dgamma, {&dbeta}); !s) return s;
  if (auto s = check_workspace(workspace, needed, inputs); !s) return s;
  return check_workspace(workspace, needed, outputs);
}

}  // namespace fusednorm
