// SPDX-License-Identifier: Apache-2.0
// Checks of a problem: each error names the argument, its value and what was expected.
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <utility>

#include "norms/norm.h"
#include "validate.h"

namespace fusednorm {
namespace {

std::string quantity(const std::string& name, std::int64_t value) {
  return name + " = " + std::to_string(value);
}

std::string named(const char* name, DType dtype) {
  return std::string(name) + " = " + name_of(dtype);
}

Status check_at_least(const char* name, std::int64_t value, std::int64_t least) {
  if (value >= least) return {};
  return Status::invalid_argument(quantity(name, value) + ": expected " +
                                  (least == 0 ? "zero" : "one") + " or more");
}

Status check_number(const char* name, double value, bool negative_too) {
  if (std::isfinite(value) && (negative_too || value >= 0)) return {};
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return Status::invalid_argument(std::string(name) + " = " + text + ": expected a finite number" +
                                  (negative_too ? "" : ", zero or more"));
}

/// What can only be otherwise. A check that passes makes no string: run() allocates nothing.
Status not_so(const char* name, bool value, const std::string& reason) {
  return Status::invalid_argument(std::string(name) + " = " + (value ? "true" : "false") +
                                  ": expected " + (value ? "false" : "true") + ", " + reason);
}

// Dtypes.

bool is_16_bit(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16;
}

Status check_known(const char* name, DType dtype) {
  if (dtype <= DType::bf16) return {};
  return Status::invalid_argument(quantity(name, static_cast<int>(dtype)) +
                                  ": expected f64, f32, f16 or bf16");
}

Status check_dtypes(DType x, DType y, DType param) {
  if (auto s = check_known("x_dtype", x); !s) return s;
  if (auto s = check_known("y_dtype", y); !s) return s;
  if (auto s = check_known("param_dtype", param); !s) return s;
  if (x == DType::f32 && param == DType::f64) {
    return Status::unsupported(named("param_dtype", param) + ": expected f32, f16 or bf16 beside " +
                               named("x_dtype", x));
  }
  if (x != DType::f32 && param != x && param != DType::f32) {
    return Status::unsupported(named("param_dtype", param) + ": expected f32 or " +
                               named("x_dtype", x));
  }
  if (y != x && y != param) {
    return Status::unsupported(named("y_dtype", y) + ": expected " + named("x_dtype", x) + " or " +
                               named("param_dtype", param));
  }
  return {};
}

Status check_residual_dtype(bool has_residual, DType residual, DType x) {
  if (!has_residual) return {};
  if (auto s = check_known("residual_dtype", residual); !s) return s;
  if (residual == x || (is_16_bit(x) && residual == DType::f32)) return {};
  return Status::unsupported(named("residual_dtype", residual) + ": expected " +
                             (is_16_bit(x) ? "f32 or " : "") + named("x_dtype", x));
}

// Sizes and strides.

template <typename Problem>
Status check_sizes(const Problem& p) {
  if (auto s = check_at_least("rows", p.rows, 0); !s) return s;
  if (auto s = check_at_least("cols", p.cols, 0); !s) return s;
  if (auto s = check_at_least("param_groups", p.param_groups, 1); !s) return s;
  if (auto s = check_at_least("rows_per_group", p.rows_per_group, 1); !s) return s;
  if (auto s = check_at_least("inner_rows", p.inner_rows, 0); !s) return s;
  if (p.inner_rows > 0 && p.rows % p.inner_rows != 0) {
    return Status::invalid_argument(quantity("inner_rows", p.inner_rows) +
                                    ": expected a divisor of " + quantity("rows", p.rows) +
                                    ", or 0 for one level of rows");
  }
  return {};
}

/// Elements of `dtype` that can be addressed.
std::int64_t most_elements(DType dtype) {
  return std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(size_of(dtype));
}

bool product_within(std::int64_t a, std::int64_t b, std::int64_t limit) {
  return a <= 0 || b <= 0 || a <= limit / b;
}

Status too_large(const std::string& count, const std::string& pitch, DType dtype,
                 std::int64_t cols) {
  return Status::invalid_argument(count + " times " + pitch + " elements of " + name_of(dtype) +
                                  " (" + quantity("cols", cols) +
                                  "): expected fewer than 2^63 bytes");
}

/// One array of rows: its strides, as the caller wrote them.
struct Strides {
  const char* array;
  DType dtype;
  std::int64_t row;
  std::int64_t outer;

  std::string row_name() const { return std::string(array) + "_row_stride"; }
  std::string outer_name() const { return std::string(array) + "_outer_stride"; }
};

/// Two levels of rows: neither level may reach into the next row of the other, and all of it must
/// be addressable, or index arithmetic would wrap.
template <typename Problem>
Status check_outer_stride(const Problem& p, const Strides& strides) {
  const std::int64_t outer_rows = p.inner_rows == 0 ? 1 : p.rows / p.inner_rows;
  if (outer_rows <= 1 || p.cols == 0 || strides.outer == packed) return {};
  const std::int64_t row = resolved_stride(strides.row, p.cols), outer = strides.outer;
  const std::int64_t limit = most_elements(strides.dtype);
  if (!product_within(p.inner_rows, row, limit / 2)) {
    return too_large(quantity("inner_rows", p.inner_rows), quantity(strides.row_name(), row),
                     strides.dtype, p.cols);
  }
  if (!product_within(outer_rows, outer, limit / 2)) {
    return too_large(quantity("rows / inner_rows", outer_rows),
                     quantity(strides.outer_name(), outer), strides.dtype, p.cols);
  }
  const std::int64_t inner_extent = (p.inner_rows - 1) * row + p.cols;
  if (outer >= inner_extent) return {};
  if (outer >= p.cols && row >= (outer_rows - 1) * outer + p.cols) return {};
  return Status::invalid_argument(quantity(strides.outer_name(), outer) + ": expected at least " +
                                  std::to_string(inner_extent) + ", the extent of " +
                                  quantity("inner_rows", p.inner_rows) + " rows, or at least " +
                                  quantity("cols", p.cols) + " with " +
                                  quantity(strides.row_name(), row) + " beyond the extent of " +
                                  std::to_string(outer_rows) + " of them, or 0 for packed groups");
}

template <typename Problem>
Status check_strides(const Problem& p, const Strides& strides) {
  const std::int64_t row = resolved_stride(strides.row, p.cols);
  if (row < p.cols) {
    return Status::invalid_argument(quantity(strides.row_name(), strides.row) +
                                    ": expected at least " + quantity("cols", p.cols) +
                                    ", or 0 for packed rows");
  }
  const bool two_levels = p.inner_rows > 0 && strides.outer != packed;
  if (!product_within(two_levels ? p.inner_rows : p.rows, row, most_elements(strides.dtype))) {
    return too_large(quantity("rows", p.rows),
                     quantity(strides.row == packed ? "cols" : strides.row_name(), row),
                     strides.dtype, p.cols);
  }
  return check_outer_stride(p, strides);
}

template <typename Problem>
Status check_table(const Problem& p) {
  if (product_within(p.param_groups, p.cols, most_elements(p.param_dtype))) return {};
  return too_large(quantity("param_groups", p.param_groups), quantity("cols", p.cols),
                   p.param_dtype, p.cols);
}

/// What both passes have.
template <typename Problem>
Status check_shared(const Problem& p) {
  if (p.operation > Operation::rms_norm) {
    return Status::unsupported(quantity("operation", static_cast<int>(p.operation)) +
                               ": expected layer_norm (0) or rms_norm (1)");
  }
  if (p.rounding > Rounding::via_param) {
    return Status::invalid_argument(quantity("rounding", static_cast<int>(p.rounding)) +
                                    ": expected once (0), via_x (1) or via_param (2)");
  }
  if (auto s = check_sizes(p); !s) return s;
  if (auto s = check_dtypes(p.x_dtype, p.y_dtype, p.param_dtype); !s) return s;
  if (auto s = check_residual_dtype(p.has_residual, p.residual_dtype, p.x_dtype); !s) return s;
  if (auto s = check_number("gamma_offset", p.gamma_offset, true); !s) return s;
  return check_table(p);
}

}  // namespace

Status validate(const ForwardProblem& p) {
  if (auto s = check_shared(p); !s) return s;
  if (p.save_mean && !norms::has_mean(p.operation)) {
    return not_so("save_mean", true, "for rms_norm has no mean");
  }
  if (auto s = check_number("eps", p.eps, false); !s) return s;
  if (auto s = check_strides(p, {"x", p.x_dtype, p.x_row_stride, p.x_outer_stride}); !s) return s;
  if (auto s = check_strides(p, {"y", p.y_dtype, p.y_row_stride, p.y_outer_stride}); !s) return s;
  if (!p.has_residual) return {};
  const DType residual = p.residual_dtype;
  if (auto s =
          check_strides(p, {"residual", residual, p.residual_row_stride, p.residual_outer_stride});
      !s) {
    return s;
  }
  return check_strides(p, {"sum", residual, p.sum_row_stride, p.sum_outer_stride});
}

Status validate(const BackwardProblem& p) {
  if (auto s = check_shared(p); !s) return s;
  if (p.source != Source::x && p.source != Source::y) {
    return Status::invalid_argument(quantity("source", static_cast<int>(p.source)) +
                                    ": expected x or y");
  }
  if (p.has_ds && !p.has_residual) {
    return not_so("has_ds", true, "for without a residual (has_residual = false) there is no sum");
  }
  if (!p.has_dy && !p.has_ds) {
    return not_so("has_dy", false, "for without it and ds (has_ds = false) there is no gradient");
  }
  if (p.want_dresidual && (!p.has_residual || p.residual_dtype == p.x_dtype)) {
    return not_so("want_dresidual", true,
                  std::string("for dx serves both unless residual_dtype (") +
                      (p.has_residual ? name_of(p.residual_dtype) : "none") + ") differs from " +
                      named("x_dtype", p.x_dtype));
  }
  const DType source = p.source == Source::x ? row_dtype(p) : p.y_dtype;
  const Strides arrays[] = {
      {"dy", p.y_dtype, p.dy_row_stride, p.dy_outer_stride},
      {"source", source, p.source_row_stride, p.source_outer_stride},
      {"dx", p.x_dtype, p.dx_row_stride, p.dx_outer_stride},
      {"ds", p.residual_dtype, p.ds_row_stride, p.ds_outer_stride},
      {"dresidual", p.residual_dtype, p.dresidual_row_stride, p.dresidual_outer_stride}};
  const std::size_t present = p.has_residual ? 5 : 3;
  for (std::size_t i = 0; i < present; ++i) {
    if (auto s = check_strides(p, arrays[i]); !s) return s;
  }
  return {};
}

}  // namespace fusednorm
