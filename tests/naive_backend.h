// SPDX-License-Identifier: Apache-2.0
// The plain norms in the compute type, right by default and wrong on demand: what the harness and
// the tolerances must accept, and what they must reject.
#pragma once

#include "backend.h"

namespace fusednorm::testing {

/// Mistakes that real kernels have made, or that a change could make.
enum class Mutation {
  none,
  // forward
  one_pass_variance,       ///< E[x^2] - E[x]^2
  sixteen_bit_sums,        ///< row sums kept in bf16
  padding_in_variance,     ///< lanes past the end counted as zeros
  variance_over_n_less_1,  ///< the sample variance
  eps_in_f16,              ///< eps cast to f16
  rounded_mean,            ///< y from the mean as stored, not from the pair
  serial_row_sums,         ///< one long chain of additions in a row
  forgotten_beta,
  rounded_twice,       ///< the normalised value rounded to y's dtype before gamma and beta
  truncated_store,     ///< 16-bit results cut off instead of rounded
  statistics_in_bf16,  ///< mean and rstd
  past_the_row,        ///< one element too many is written
  before_the_buffer,   ///< one byte before the first row is written
  nan_spreads,         ///< a NaN reaches the next row
  // backward
  serial_column_sums,   ///< dgamma and dbeta in one long chain over the rows
  bf16_column_sums,     ///< partial sums of dgamma and dbeta in bf16
  last_block_missing,   ///< rows after the last whole block of 64 left out of dgamma, dbeta
  clamped_gamma,        ///< gamma kept away from zero in dx
  forgotten_mean_of_g,  ///< dx without its mean term
  // the family
  forgotten_offset,       ///< gamma without gamma_offset
  offset_in_param_dtype,  ///< gamma + gamma_offset rounded to 16 bits (Liger#1462)
  exact_sum,              ///< normalises x + residual before it is rounded (flashinfer#587)
  norm_of_x,              ///< normalises x instead of the sum
  truncated_sum,          ///< the stored sum cut off instead of rounded (aiter#5151)
  rounded_once,           ///< rounding once where via_x or via_param is asked for
  product_not_rounded,    ///< via_x and via_param without the rounding between product and beta
  via_the_wrong_dtype,    ///< via_x and via_param confused
  wrong_group,            ///< parameters of the next group
  group_by_row,           ///< rows_per_group taken as 1
  mixed_groups,           ///< a group's dgamma and dbeta hold the next row's, too
  ignored_outer_stride,   ///< rows of two levels read as if they followed each other
  forgotten_ds,
  ds_twice,
  ds_after_rounding,     ///< the norm's gradient rounded to dx before ds is added
  dresidual_from_dx,     ///< dresidual as dx was rounded
  dy_that_is_not_there,  ///< without dy, dgamma and dbeta are not written
  // order of sums: right numbers, no guarantee
  order_by_residual,  ///< a row's tree depends on whether there is a residual
  fused_ds,           ///< ds is added without the rounding of the norm's gradient
  order_by_rows,      ///< a row's tree depends on how many rows there are
  order_by_run,       ///< a column's tree depends on how many runs came before
  order_by_threads,   ///< a column's tree depends on the number of threads
};

class NaiveBackend : public Backend {
 public:
  explicit NaiveBackend(Mutation mutation = Mutation::none, int threads = 1)
      : mutation_(mutation), threads_(threads) {}

  std::string name() const override { return "naive"; }
  Status forward(const ForwardProblem& problem, const ForwardPlaces& places,
                 Memory& memory) override;
  Status backward(const BackwardProblem& problem, const BackwardPlaces& places,
                  Memory& memory) override;

 private:
  Mutation mutation_;
  int threads_;
  int runs_ = 0;
};

}  // namespace fusednorm::testing
