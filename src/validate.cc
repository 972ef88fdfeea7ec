// The checks that every backend makes before it writes anything; each error names the argument, its
// value and what was expected.
#include "validate.h"

#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <limits>

#include "norms/norm.h"

namespace fusednorm {
namespace {

std::string quantity(const char* name, std::int64_t value) {
  return std::string(name) + " = " + std::to_string(value);
}

Status check_size(const char* name, std::int64_t value) {
  if (value >= 0) return {};
  return Status::invalid_argument(quantity(name, value) + ": expected zero or more");
}

/// The extent of a strided array in bytes must be addressable, or index arithmetic would wrap.
Status check_stride(const char* name, std::int64_t stride, std::int64_t rows, std::int64_t cols,
                    DType dtype) {
  const std::int64_t resolved = resolved_stride(stride, cols);
  if (resolved < cols) {
    return Status::invalid_argument(quantity(name, stride) + ": expected at least cols = " +
                                    std::to_string(cols) + ", or 0 for packed rows");
  }
  const std::int64_t limit =
      std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(size_of(dtype));
  if (rows > 0 && resolved > 0 && rows > limit / resolved) {
    return Status::invalid_argument(quantity("rows", rows) + " times " +
                                    quantity(stride == packed ? "cols" : name, resolved) +
                                    " elements of " + name_of(dtype) + " (" +
                                    quantity("cols", cols) + "): expected fewer than 2^63 bytes");
  }
  return {};
}

Status check_operation(Operation operation, Operation newest) {
  if (operation <= newest) return {};
  return Status::unsupported(
      quantity("operation", static_cast<int>(operation)) + ": expected layer_norm" +
      (newest == Operation::rms_norm ? " (0) or rms_norm (1)" : ", which is 0"));
}

/// What a norm without a mean or a beta cannot be asked for.
Status check_absent(Operation operation, const char* name, bool value) {
  if (operation != Operation::rms_norm || !value) return {};
  return Status::invalid_argument(std::string(name) +
                                  " = true: expected false, for rms_norm has no mean and no beta");
}

bool known(DType dtype) {
  return dtype <= DType::bf16;
}

Status check_dtypes(DType x, DType y, DType param) {
  const std::pair<const char*, DType> named[] = {
      {"x_dtype", x}, {"y_dtype", y}, {"param_dtype", param}};
  for (const auto& [name, dtype] : named) {
    if (!known(dtype)) {
      return Status::invalid_argument(quantity(name, static_cast<int>(dtype)) +
                                      ": expected f64, f32, f16 or bf16");
    }
  }
  if (param != x && param != DType::f32) {
    return Status::unsupported(std::string("param_dtype = ") + name_of(param) +
                               ": expected f32 or x_dtype = " + name_of(x));
  }
  if (y != x && y != param) {
    return Status::unsupported(std::string("y_dtype = ") + name_of(y) + ": expected x_dtype = " +
                               name_of(x) + " or param_dtype = " + name_of(param));
  }
  return {};
}

/// One array as it lies in memory.
struct Extent {
  const char* name;
  const void* data;
  std::int64_t rows;
  std::int64_t row_bytes;
  std::int64_t stride_bytes;
  std::size_t element;

  bool empty() const { return rows == 0 || row_bytes == 0; }
  std::uintptr_t begin() const { return reinterpret_cast<std::uintptr_t>(data); }
  std::uintptr_t end() const { return begin() + (rows - 1) * stride_bytes + row_bytes; }
};

Extent matrix(const char* name, const void* data, std::int64_t rows, std::int64_t cols,
              std::int64_t stride, DType dtype) {
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  return {name,          data, rows, cols * element, resolved_stride(stride, cols) * element,
          size_of(dtype)};
}

Extent vector(const char* name, const void* data, std::int64_t length, DType dtype) {
  return matrix(name, data, 1, length, packed, dtype);
}

Status check_address(const Extent& extent) {
  if (extent.empty()) return {};
  if (extent.data == nullptr) {
    return Status::invalid_argument(std::string(extent.name) + " = null: expected " +
                                    std::to_string(extent.rows) + " x " +
                                    std::to_string(extent.row_bytes) + " bytes");
  }
  if (extent.begin() % extent.element != 0) {
    return Status::invalid_argument(std::string(extent.name) + " is at an address that is " +
                                    std::to_string(extent.begin() % extent.element) +
                                    " bytes off: expected a multiple of " +
                                    std::to_string(extent.element));
  }
  return {};
}

bool same_place(const Extent& a, const Extent& b) {
  return a.data == b.data && a.element == b.element &&
         (a.stride_bytes == b.stride_bytes || a.rows <= 1);
}

bool overlap(const Extent& a, const Extent& b) {
  if (a.empty() || b.empty()) return false;
  if (a.end() <= b.begin() || b.end() <= a.begin()) return false;
  if (a.stride_bytes != b.stride_bytes) return true;
  // Rows of one pitch may interleave: b's columns start `shift` bytes into a's pitch.
  const std::int64_t pitch = a.stride_bytes;
  const auto shift = static_cast<std::int64_t>(
      b.begin() >= a.begin() ? (b.begin() - a.begin()) % pitch
                             : (pitch - (a.begin() - b.begin()) % pitch) % pitch);
  return shift < a.row_bytes || shift + b.row_bytes > pitch;
}

enum class Sharing { forbidden, exact };

Status check_overlap(const Extent& output, const Extent& other, Sharing sharing) {
  if (output.data == nullptr || other.data == nullptr || !overlap(output, other)) return {};
  if (sharing == Sharing::exact && same_place(output, other)) return {};
  return Status::invalid_argument(
      std::string(output.name) + " overlaps " + other.name + " (" + output.name + " starts " +
      std::to_string(static_cast<std::int64_t>(output.begin() - other.begin())) + " bytes after " +
      other.name + "): expected " +
      (sharing == Sharing::exact
           ? "separate arrays, or the same address, row stride and element size"
           : "separate arrays"));
}

Status check_workspace(const Workspace& workspace, std::size_t needed,
                       std::initializer_list<const Extent*> arrays) {
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
  const Extent used{"workspace", workspace.data, 1, bytes, bytes, 1};
  for (const Extent* array : arrays) {
    if (auto s = check_overlap(used, *array, Sharing::forbidden); !s) return s;
  }
  return {};
}

}  // namespace

Status validate(const ForwardProblem& p, Operation newest) {
  if (auto s = check_operation(p.operation, newest); !s) return s;
  if (auto s = check_absent(p.operation, "save_mean", p.save_mean); !s) return s;
  if (auto s = check_absent(p.operation, "has_beta", p.has_beta); !s) return s;
  if (auto s = check_size("rows", p.rows); !s) return s;
  if (auto s = check_size("cols", p.cols); !s) return s;
  if (auto s = check_dtypes(p.x_dtype, p.y_dtype, p.param_dtype); !s) return s;
  if (auto s = check_stride("x_row_stride", p.x_row_stride, p.rows, p.cols, p.x_dtype); !s)
    return s;
  if (auto s = check_stride("y_row_stride", p.y_row_stride, p.rows, p.cols, p.y_dtype); !s)
    return s;
  if (!(p.eps >= 0) || std::isinf(p.eps)) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", p.eps);
    return Status::invalid_argument(std::string("eps = ") + text +
                                    ": expected a finite number, zero or more");
  }
  return {};
}

Status validate(const BackwardProblem& p, Operation newest) {
  if (auto s = check_operation(p.operation, newest); !s) return s;
  if (auto s = check_absent(p.operation, "has_beta", p.has_beta); !s) return s;
  if (auto s = check_absent(p.operation, "want_dbeta", p.want_dbeta); !s) return s;
  if (auto s = check_size("rows", p.rows); !s) return s;
  if (auto s = check_size("cols", p.cols); !s) return s;
  if (auto s = check_dtypes(p.x_dtype, p.y_dtype, p.param_dtype); !s) return s;
  if (p.source != Source::x && p.source != Source::y) {
    return Status::invalid_argument(quantity("source", static_cast<int>(p.source)) +
                                    ": expected x or y");
  }
  if (auto s = check_stride("dy_row_stride", p.dy_row_stride, p.rows, p.cols, p.y_dtype); !s)
    return s;
  const DType source_dtype = p.source == Source::x ? p.x_dtype : p.y_dtype;
  if (auto s = check_stride("source_row_stride", p.source_row_stride, p.rows, p.cols, source_dtype);
      !s) {
    return s;
  }
  return check_stride("dx_row_stride", p.dx_row_stride, p.rows, p.cols, p.x_dtype);
}

Status validate(const ForwardProblem& p, const ForwardBuffers& b, const Workspace& workspace,
                std::size_t needed) {
  const DType statistics = compute_dtype(p.x_dtype);
  const Extent x = matrix("x", b.x, p.rows, p.cols, p.x_row_stride, p.x_dtype);
  const Extent y = matrix("y", b.y, p.rows, p.cols, p.y_row_stride, p.y_dtype);
  const Extent gamma = vector("gamma", b.gamma, p.has_gamma ? p.cols : 0, p.param_dtype);
  const Extent beta = vector("beta", b.beta, p.has_beta ? p.cols : 0, p.param_dtype);
  const Extent mean = vector("mean", b.mean, p.save_mean ? p.rows : 0, statistics);
  const Extent rstd = vector("rstd", b.rstd, p.save_rstd ? p.rows : 0, statistics);
  for (const Extent* array : {&x, &y, &gamma, &beta, &mean, &rstd}) {
    if (auto s = check_address(*array); !s) return s;
  }
  if (auto s = check_overlap(y, x, Sharing::exact); !s) return s;
  for (const Extent* input : {&gamma, &beta}) {
    if (auto s = check_overlap(y, *input, Sharing::forbidden); !s) return s;
  }
  for (const Extent* output : {&mean, &rstd}) {
    for (const Extent* other : {&x, &y, &gamma, &beta}) {
      if (auto s = check_overlap(*output, *other, Sharing::forbidden); !s) return s;
    }
  }
  if (auto s = check_overlap(mean, rstd, Sharing::forbidden); !s) return s;
  return check_workspace(workspace, needed, {&x, &y, &gamma, &beta, &mean, &rstd});
}

Status validate(const BackwardProblem& p, const BackwardBuffers& b, const Workspace& workspace,
                std::size_t needed) {
  const DType statistics = compute_dtype(p.x_dtype);
  const bool from_x = p.source == Source::x;
  const Extent dy = matrix("dy", b.dy, p.rows, p.cols, p.dy_row_stride, p.y_dtype);
  const Extent source = from_x ? matrix("x", b.x, p.rows, p.cols, p.source_row_stride, p.x_dtype)
                               : matrix("y", b.y, p.rows, p.cols, p.source_row_stride, p.y_dtype);
  const Extent gamma = vector("gamma", b.gamma, p.has_gamma ? p.cols : 0, p.param_dtype);
  const Extent beta = vector("beta", b.beta, p.has_beta && !from_x ? p.cols : 0, p.param_dtype);
  const Extent mean =
      vector("mean", b.mean, from_x && norms::has_mean(p.operation) ? p.rows : 0, statistics);
  const Extent rstd = vector("rstd", b.rstd, p.rows, statistics);
  const Extent dx = matrix("dx", b.dx, p.want_dx ? p.rows : 0, p.cols, p.dx_row_stride, p.x_dtype);
  const Extent dgamma = vector("dgamma", b.dgamma, p.want_dgamma ? p.cols : 0, p.param_dtype);
  const Extent dbeta = vector("dbeta", b.dbeta, p.want_dbeta ? p.cols : 0, p.param_dtype);
  if (p.cols > 0) {
    for (const Extent* array : {&dy, &source, &gamma, &beta, &mean, &rstd, &dx, &dgamma, &dbeta}) {
      if (auto s = check_address(*array); !s) return s;
    }
  }
  for (const Extent* input : {&dy, &source}) {
    if (auto s = check_overlap(dx, *input, Sharing::exact); !s) return s;
  }
  for (const Extent* input : {&gamma, &beta, &mean, &rstd}) {
    if (auto s = check_overlap(dx, *input, Sharing::forbidden); !s) return s;
  }
  for (const Extent* output : {&dgamma, &dbeta}) {
    for (const Extent* other : {&dy, &source, &gamma, &beta, &mean, &rstd, &dx}) {
      if (auto s = check_overlap(*output, *other, Sharing::forbidden); !s) return s;
    }
  }
  if (auto s = check_overlap(dgamma, dbeta, Sharing::forbidden); !s) return s;
  return check_workspace(workspace, needed,
                         {&dy, &source, &gamma, &beta, &mean, &rstd, &dx, &dgamma, &dbeta});
}

}  // namespace fusednorm
