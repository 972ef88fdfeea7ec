// SPDX-License-Identifier: Apache-2.0
// What plans and runs know of the SIMD kernels: argument values and tables of function pointers,
// one table an instruction set and dtype triple.
#pragma once

#include <cstdint>

#include "cpu/plan/policy.h"
#include "cpu/plan/segments.h"
#include "fusednorm/cpu.h"
#include "norms/moments.h"

namespace fusednorm::cpu {

/// Of a segment or a row. Wide enough for long double, in which segments of f64 are merged.
using Moments = norms::Moments<long double>;
using GradientSums = norms::GradientSums<long double>;

/// Expands `count` elements of a parameter: to the compute type, plus `offset`, in the layout of
/// the kernel's lanes. A null parameter is `constant`.
using Expand = void (*)(const void* given, double offset, double constant, std::int64_t count,
                        void* to);

/// Where y is rounded on its way. A dtype that is the compute type stands for no rounding.
struct Roundings {
  bool several = false;  ///< false: once, and nothing below is read
  DType xhat = DType::f32;
  DType product = DType::f32;
};

/// first = second = a + b: each array with its stride in elements.
struct AddArguments {
  const void* a = nullptr;
  const void* b = nullptr;  ///< null: 0
  void* first = nullptr;
  void* second = nullptr;  ///< in the dtype of b; null: not wanted
  std::int64_t a_stride = 0;
  std::int64_t b_stride = 0;
  std::int64_t first_stride = 0;
  std::int64_t second_stride = 0;
  std::int64_t second_ring = -1;                      ///< row r of second lies at r & second_ring
  std::int64_t ahead_bytes = policy::prefetch_bytes;  ///< of b
  bool streams_first = false;
  bool streams_second = false;  ///< only where first streams, too
};

/// Some columns of some rows. The caller flushes streaming stores.
using AddRows = void (*)(const AddArguments&, std::int64_t row, std::int64_t rows,
                         std::int64_t column, std::int64_t cols);

struct ForwardArguments {
  Operation operation;
  /// Makes whole rows of x of `added`, each just before it is summed: of at most longest_added
  /// columns, where y is streamed. Null: they are there.
  AddRows add;
  const AddArguments* added;
  const void* x;
  std::int64_t x_ring;  ///< whole row r of x lies at r & x_ring
  const void* gamma;    ///< null: 1
  const void* beta;     ///< null: 0
  void* y;
  void* mean;  ///< null: not wanted
  void* rstd;
  std::int64_t statistics_stride;  ///< from one row's mean and rstd to the next row's
  std::int64_t cols;
  std::int64_t x_stride;
  std::int64_t y_stride;
  double eps;
  Roundings roundings;
  const void* ahead;          ///< what is prefetched while row 0 is summed; perhaps no address
  std::int64_t ahead_stride;  ///< in bytes
  bool streaming;
  Segments segments;
  Expand expand;  ///< null: gamma and beta are as the kernel wants them
  std::int64_t param_size;
  double gamma_offset;  ///< added where threads share rows, which expand gamma chunk by chunk
  /// gamma and beta are the caller's, in x's own 16-bit dtype. Never for rows that are taken whole.
  bool as_given;
};

struct ForwardKernels {
  /// Whole rows. The caller flushes streaming stores: a fence after each run of short runs cost 14
  /// %.
  void (*rows)(const ForwardArguments&, std::int64_t row_begin, std::int64_t row_end);
  /// Moments of one segment of a row.
  Moments (*moments)(const ForwardArguments&, std::int64_t row, std::int64_t segment);
  /// The moments of a row from those of its segments.
  Moments (*merge)(const ForwardArguments&, const Moments* parts);
  /// Writes one segment of up to max_shared_rows rows; of_rows[row * segments] are a row's moments.
  /// Segment 0 also stores the statistics. Prefetches the segment of the rows that are `ahead_rows`
  /// later, if not 0. The caller flushes streaming stores.
  void (*write)(const ForwardArguments&, std::int64_t row_begin, std::int64_t row_end,
                std::int64_t segment, const Moments* of_rows, std::int64_t ahead_rows);
  Expand expand;
  bool takes_given;  ///< parameters that the caller gave need no expanding; absent ones never do
  std::int64_t longest_added;  ///< columns of rows that rows() adds itself; 0: of none
};

struct BackwardArguments {
  Operation operation;
  const void* dy;
  const void* source;  ///< x or y
  const void* gamma;   ///< null, which is 1, only where threads share rows
  const void* beta;    ///< null, which is 0, there and where it is not read
  const void* mean;    ///< null: 0
  const void* rstd;
  std::int64_t statistics_stride;  ///< from one row's mean and rstd to the next row's
  const void* ds;                  ///< added to dx, see adds_ds(); null: nothing is
  void* dx;                        ///< null: not wanted
  std::int64_t cols;
  std::int64_t dy_stride;
  std::int64_t source_stride;
  std::int64_t ds_stride;
  std::int64_t dx_stride;
  bool streaming;
  Segments segments;
  Expand expand;  ///< null: gamma and beta are as the kernel wants them
  std::int64_t param_size;
  double gamma_offset;  ///< added where threads share rows, which expand gamma chunk by chunk
};

/// Column sums in the compute type and the layout of the kernel's lanes; from y, dgamma's are gamma
/// times too large. Null: neither dgamma nor dbeta is wanted.
struct ColumnSums {
  void* dgamma = nullptr;
  void* dbeta = nullptr;
};

/// Rows of some heads, each with parameters and column sums of its own: `periods`, an even number,
/// of a row of each head. The arguments' strides are from head to head.
struct HeadRows {
  std::int64_t heads;
  std::int64_t periods;
  std::int64_t dy_stride;  ///< in elements, from a period to the next
  std::int64_t source_stride;
  std::int64_t dx_stride;
  std::int64_t param_bytes;  ///< from a head's gamma to the next head's
  std::int64_t sum_bytes;    ///< from a head's column sums to the next head's
};

struct BackwardKernels {
  /// Whole rows; adds to `sums`. The caller flushes streaming stores.
  void (*rows)(const BackwardArguments&, std::int64_t row_begin, std::int64_t row_end,
               ColumnSums sums);
  /// The same of heads' rows of one segment; dx, without ds, goes past the cache. Null: as rows()
  /// of one head after another.
  void (*heads)(const BackwardArguments&, const HeadRows&, ColumnSums sums);
  /// GradientSums of one segment of up to max_shared_rows rows into out[row, segment]; adds to
  /// `sums`, which are the segment's own.
  void (*sums)(const BackwardArguments&, std::int64_t row_begin, std::int64_t row_end,
               std::int64_t segment, GradientSums* out, ColumnSums sums);
  /// The sums of a row from those of its segments.
  GradientSums (*merge)(const GradientSums* parts, std::int64_t count);
  /// dx of one segment of up to max_shared_rows rows; of_rows[row * segments] are a row's sums. The
  /// caller flushes streaming stores, also those of store().
  void (*write)(const BackwardArguments&, std::int64_t row_begin, std::int64_t row_end,
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
  Expand expand;     ///< never null: rows() wants also absent parameters in full
  bool takes_given;  ///< parameters that the caller gave need no expanding
};

/// Null when this build does not hold the instruction set or the dtypes are not a supported triple.
const ForwardKernels* forward_kernels(std::int64_t highway_target, DType x, DType param, DType y);
const BackwardKernels* backward_kernels(std::int64_t highway_target, DType x, DType param, DType y,
                                        bool from_y);

AddRows add_rows(std::int64_t highway_target, DType a, DType b, DType first);

/// The highway targets this build holds, as a bit set.
std::int64_t compiled_targets();

}  // namespace fusednorm::cpu
