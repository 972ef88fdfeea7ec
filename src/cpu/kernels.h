// What the launch code knows of the SIMD kernels: argument values and tables of function pointers,
// one table an instruction set and dtype triple.
#pragma once

#include <cstdint>

#include "cpu/policy.h"
#include "cpu/segments.h"
#include "fusednorm/dtype.h"

namespace fusednorm::cpu {

/// The length of the constant arrays that stand for an absent gamma or beta, and the longest row
/// that forward takes whole.
inline constexpr std::int64_t max_constants = policy::chunk_bytes / 2;

/// Mean and sum of squared deviations of one segment. Wide enough for long double, f64's merge
/// type.
struct alignas(16) Moments {
  long double mean;
  long double squares;
};

/// Sums over one segment of dy * gamma and of dy * gamma * xhat.
struct alignas(16) GradientSums {
  long double g;
  long double g_xhat;
};

struct ForwardArguments {
  const void* x;
  const void* gamma;  ///< null: 1
  const void* beta;   ///< null: 0
  void* y;
  void* mean;  ///< null: not wanted
  void* rstd;
  std::int64_t cols;
  std::int64_t x_stride;
  std::int64_t y_stride;
  double eps;
  bool streaming;
  Segments segments;
  /// Null where gamma and beta are in the compute type and in the order of the kernel's packs.
  void (*expand)(const void* given, double constant, std::int64_t count, void* to);
  std::int64_t param_size;
  /// Gamma and beta are the caller's, in x's own 16-bit dtype. Never for rows that are taken whole.
  bool as_given;
};

struct ForwardKernels {
  /// Whole rows.
  void (*rows)(const ForwardArguments&, std::int64_t row_begin, std::int64_t row_end);
  /// Moments of segments [begin, end) of a row into out[begin …].
  void (*moments)(const ForwardArguments&, std::int64_t row, std::int64_t begin, std::int64_t end,
                  Moments* out);
  /// The moments of a row from those of its segments.
  Moments (*merge)(const ForwardArguments&, const Moments* parts);
  /// One segment of up to max_shared_rows rows, of which the first of each row's Moments is the
  /// row's. Statistics are stored with segment 0. Asks for the segment of the rows that are
  /// `ahead_rows` later, if not 0. Streaming stores are left to the caller to flush.
  void (*normalize)(const ForwardArguments&, std::int64_t row_begin, std::int64_t row_end,
                    std::int64_t segment, const Moments* of_rows, std::int64_t ahead_rows);
  /// Elements of a parameter in the compute type, in the order of the kernel's packs. Null where
  /// they are so already.
  void (*expand)(const void* given, double constant, std::int64_t count, void* to);
};

struct BackwardArguments {
  const void* dy;
  const void* source;  ///< x or y
  const void* gamma;   ///< null, which is 1, only where threads share rows
  const void* beta;    ///< null, which is 0, there and where it is not read
  const void* mean;
  const void* rstd;
  void* dx;  ///< null: not wanted
  std::int64_t cols;
  std::int64_t dy_stride;
  std::int64_t source_stride;
  std::int64_t dx_stride;
  bool streaming;
  Segments segments;
  /// Null where gamma and beta are in the compute type and in the order of the kernel's packs.
  void (*expand)(const void* given, double constant, std::int64_t count, void* to);
  std::int64_t param_size;
};

/// Column sums in the compute type and the order of the kernel's packs; from y, dgamma's are gamma
/// times too large. Null: neither dgamma nor dbeta is wanted.
struct ColumnSums {
  void* dgamma = nullptr;
  void* dbeta = nullptr;
};

struct BackwardKernels {
  /// Whole rows; adds to `sums`.
  void (*rows)(const BackwardArguments&, std::int64_t row_begin, std::int64_t row_end,
               ColumnSums sums);
  /// GradientSums of one segment of up to max_shared_rows rows into out[row, segment]; adds to
  /// `sums`, which are the segment's own.
  void (*sums)(const BackwardArguments&, std::int64_t row_begin, std::int64_t row_end,
               std::int64_t segment, GradientSums* out, ColumnSums sums);
  /// The sums of a row from those of its segments.
  GradientSums (*merge)(const GradientSums* parts, std::int64_t count);
  /// dx of one segment of up to max_shared_rows rows, of which the first of each row's GradientSums
  /// is the row's. Streaming stores are left to the caller to flush, store()'s too.
  void (*segment)(const BackwardArguments&, std::int64_t row_begin, std::int64_t row_end,
                  std::int64_t segment, const GradientSums* of_rows);
  /// high + low += sum, exact but for the rounding of low.
  void (*compensate)(void* high, void* low, const void* sum, std::int64_t count);
  /// sum = high + low, or high where that is not finite.
  void (*settle)(void* sum, const void* high, const void* low, std::int64_t count);
  /// The compensated sum of `blocks` arrays of `count` columns, `pitch` elements apart: columns
  /// [begin, end), in order and cast to the parameters' dtype. Divided by `divisor`, if not null,
  /// which lies as the sums do.
  void (*store)(void* out, const void* sums, std::int64_t blocks, std::int64_t pitch,
                std::int64_t count, std::int64_t begin, std::int64_t end, bool streaming,
                const void* divisor);
  /// As ForwardKernels', but never null: rows() wants also absent parameters in full.
  void (*expand)(const void* given, double constant, std::int64_t count, void* to);
  bool takes_given;  ///< given ones need no expanding
};

/// Null when this build does not hold the instruction set or the dtypes are not a supported triple.
const ForwardKernels* forward_kernels(std::int64_t highway_target, DType x, DType param, DType y);
const BackwardKernels* backward_kernels(std::int64_t highway_target, DType x, DType param, DType y,
                                        bool from_y);

/// The highway targets this build holds, as a bit set.
std::int64_t compiled_targets();

}  // namespace fusednorm::cpu
