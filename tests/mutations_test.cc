// SPDX-License-Identifier: Apache-2.0
// Tests of the tests: a plain right kernel passes, and every mistake that a kernel could make is
// rejected on the problem of the table that is there for it.
#include <gtest/gtest.h>

#include <cstdio>

#include "guarantees.h"
#include "harness.h"
#include "naive_backend.h"
#include "problems.h"

namespace fusednorm::testing {
namespace {

struct Mistake {
  Mutation mutation;
  const char* problem;
};

// Each problem is as easy as the mistake allows: where it would slip through, the tolerance is too
// wide.
const Mistake kMistakes[] = {
    {Mutation::one_pass_variance, "forward:f32:3x769:data=mean1000"},
    {Mutation::one_pass_variance, "forward:f32:3x8:data=mean1000"},
    {Mutation::one_pass_variance, "forward:f64:3x769:data=mean1000"},
    {Mutation::sixteen_bit_sums, "forward:bf16:3x64"},
    {Mutation::sixteen_bit_sums, "forward:f16:3x64"},
    {Mutation::padding_in_variance, "forward:f32:3x769:data=mean1000"},
    {Mutation::padding_in_variance, "forward:bf16/f32:3x769:data=mean1000"},
    {Mutation::variance_over_n_less_1, "forward:f32:3x4097"},
    {Mutation::variance_over_n_less_1, "forward:bf16:16x65"},
    {Mutation::eps_in_f16, "forward:f16:4x100:eps=1e-8:data=zeros"},
    {Mutation::eps_in_f16, "forward:f16:4x100:data=zeros"},
    {Mutation::rounded_mean, "forward:f32:3x769:data=mean1000"},
    {Mutation::rounded_mean, "forward:f32:5x100:data=mean10000"},
    {Mutation::rounded_mean, "forward:f64:5x100:data=mean10000"},
    {Mutation::serial_row_sums, "forward:f32:1x1000000:data=mean1000"},
    {Mutation::serial_row_sums, "forward:f32:1x5000000"},
    {Mutation::forgotten_beta, "forward:bf16:3x8"},
    {Mutation::rounded_twice, "forward:bf16:3x64"},
    {Mutation::rounded_twice, "forward:f16:3x64"},
    {Mutation::truncated_store, "forward:bf16/f32:3x64"},
    {Mutation::truncated_store, "forward:f16:3x64"},
    {Mutation::statistics_in_bf16, "forward:bf16/f32:3x64"},
    {Mutation::past_the_row, "forward:f32:3x64"},
    {Mutation::past_the_row, "forward:bf16:6x67:stride=1000,800:offset=1,0"},
    {Mutation::before_the_buffer, "forward:f32:3x64:offset=1"},
    {Mutation::nan_spreads, "forward:f32:8x64:data=nan_row"},
    {Mutation::serial_column_sums, "backward:f32:1000000x8:dy=positive:out=dgamma+dbeta"},
    {Mutation::serial_column_sums, "backward:f32:1000000x8:out=dgamma+dbeta"},
    {Mutation::serial_column_sums, "backward:f32:1000000x2:dy=constant:out=dbeta"},
    {Mutation::bf16_column_sums, "backward:bf16:257x5"},
    {Mutation::last_block_missing, "backward:f32:65x5"},
    {Mutation::clamped_gamma, "backward:f32:4x9:gamma=zeros"},
    {Mutation::forgotten_mean_of_g, "backward:bf16:3x768"},
    {Mutation::forgotten_beta, "forward:bf16:3x8:op=rms_norm:beta=normal"},
    {Mutation::forgotten_offset, "forward:bf16:5x7:gamma_offset=1"},
    {Mutation::forgotten_offset, "backward:bf16:5x7:gamma_offset=1:op=rms_norm"},
    {Mutation::forgotten_offset, "backward_from_y:f32:5x7:gamma_offset=1"},
    {Mutation::offset_in_param_dtype, "forward:bf16:5x100:gamma_offset=1"},
    {Mutation::offset_in_param_dtype, "backward:f16:5x100:gamma_offset=1"},
    {Mutation::exact_sum, "forward:bf16:5x100:residual=bf16"},
    {Mutation::exact_sum, "forward:f16/f32:5x7:residual=f16:op=rms_norm"},
    {Mutation::norm_of_x, "forward:bf16:5x7:residual=f32"},
    {Mutation::truncated_sum, "forward:bf16:5x7:residual=bf16"},
    {Mutation::truncated_sum, "forward:f16/f32:5x100:residual=f16:op=rms_norm"},
    {Mutation::rounded_once, "forward:bf16:5x100:rounding=via_x"},
    {Mutation::rounded_once, "forward:f16/f32:5x100:rounding=via_x:op=rms_norm"},
    {Mutation::rounded_once, "forward:bf16/f32/f32:5x7:rounding=via_x"},
    {Mutation::rounded_once, "forward:f32/bf16/bf16:5x100:rounding=via_param"},
    {Mutation::rounded_twice, "forward:bf16:3x64:op=rms_norm:residual=bf16"},
    {Mutation::product_not_rounded, "forward:bf16:5x100:rounding=via_x"},
    {Mutation::product_not_rounded, "forward:f16/f32:4x100:rounding=via_param"},
    {Mutation::via_the_wrong_dtype, "forward:bf16/f32/f32:5x7:rounding=via_x"},
    {Mutation::via_the_wrong_dtype, "forward:f32/bf16:5x7:rounding=via_param"},
    {Mutation::via_the_wrong_dtype, "forward:bf16:5x100:rounding=via_x:residual=f32"},
    {Mutation::wrong_group, "forward:bf16:24x64:groups=6"},
    {Mutation::wrong_group, "backward:bf16:5x100:groups=5"},
    {Mutation::wrong_group, "backward_from_y:f32:24x7:groups=2x3"},
    {Mutation::group_by_row, "forward:bf16:24x7:groups=2x3"},
    {Mutation::group_by_row, "backward:f32:5x100:groups=2x9"},
    {Mutation::mixed_groups, "backward:f32:1000x64:groups=12"},
    {Mutation::mixed_groups, "backward:bf16:24x64:groups=6"},
    {Mutation::mixed_groups, "backward:f32:24x5:groups=3x2:data=nan_row"},
    {Mutation::ignored_outer_stride, "forward:f32:24x64:inner=6:outer=640"},
    {Mutation::ignored_outer_stride, "backward:bf16:24x64:inner=6:outer=640,0,640"},
    {Mutation::ignored_outer_stride, "forward:f32:24x64:inner=6:outer=640:in_place=y_over_x"},
    {Mutation::forgotten_ds, "backward:bf16:5x7:residual=bf16"},
    {Mutation::forgotten_ds, "backward:f32:5x7:residual=f32:grads=ds"},
    {Mutation::ds_twice, "backward:bf16:5x7:residual=bf16"},
    {Mutation::ds_after_rounding, "backward:bf16:5x100:residual=bf16"},
    {Mutation::ds_after_rounding, "backward:f16:5x100:residual=f32:out=dresidual"},
    {Mutation::dresidual_from_dx, "backward:bf16:5x7:residual=f32"},
    {Mutation::dy_that_is_not_there, "backward:f32:5x7:residual=f32:grads=ds"},
    {Mutation::last_block_missing, "backward:f32:300x65:groups=2x150"},
    {Mutation::sixteen_bit_sums, "forward:f16:4x100:data=brink:op=rms_norm"},
    {Mutation::past_the_row, "forward:f32:24x67:inner=6:stride=69,67:outer=700,0"},
};

TEST(Mutations, EveryMistakeIsRejected) {
  for (const Mistake& mistake : kMistakes) {
    const Problem problem = parse(mistake.problem);
    if (size_of(problem) > Size::medium && test_scale() != Size::large) {
      std::printf("left out %s: FUSEDNORM_TEST_SCALE=large runs it\n", mistake.problem);
      continue;
    }
    const Trial trial(problem);
    NaiveBackend wrong(mistake.mutation);
    EXPECT_NE(trial.check(wrong), "")
        << mistake.problem << " does not notice mutation " << static_cast<int>(mistake.mutation);
    NaiveBackend right;
    EXPECT_EQ(trial.check(right), "");
  }
}

// A table that only a good kernel passes must be passable: the tolerances leave room for arithmetic
// in the compute type, at every problem that is not too slow to run here.
TEST(Mutations, ThePlainKernelPassesTheTable) {
  NaiveBackend plain;
  for (const TableRow& row : problem_table()) {
    for (const Problem& problem : expand(row)) {
      if (size_of(problem) <= Size::medium && size_of(problem) <= test_scale()) {
        EXPECT_EQ(Trial(problem).check(plain), "") << row.why;
      }
    }
  }
}

// Without the guarantee a procedure of guarantees.h must notice, and with it must not.
TEST(Mutations, AKernelWithoutTheGuaranteesIsNoticed) {
  NaiveBackend right(Mutation::none, 1), also_right(Mutation::none, 2);
  const Problem forward = parse("forward:f32:33x1000"), backward = parse("backward:f32:257x40");
  EXPECT_EQ(batch_invariant(forward, right, also_right, 1), "");
  EXPECT_EQ(batch_invariant(forward, right, also_right, 5), "");
  EXPECT_EQ(batch_invariant(parse("forward:f32:5x100"), right, right, 1, true), "");
  EXPECT_EQ(same_bits(backward, right, also_right), "");
  NaiveBackend by_rows(Mutation::order_by_rows);
  EXPECT_NE(batch_invariant(forward, by_rows, by_rows, 1), "");
  EXPECT_NE(batch_invariant(forward, by_rows, by_rows, 5), "");
  NaiveBackend spreads(Mutation::nan_spreads);
  EXPECT_NE(batch_invariant(parse("forward:f32:5x100"), spreads, spreads, 1, true), "");
  NaiveBackend by_run(Mutation::order_by_run);
  EXPECT_NE(same_bits(backward, by_run, by_run), "");
  NaiveBackend one_thread(Mutation::order_by_threads, 1), two(Mutation::order_by_threads, 2);
  EXPECT_NE(same_bits(backward, one_thread, two), "");
}

TEST(Mutations, AKernelWhoseFusionShowsIsNoticed) {
  const Problem sixteen = parse("forward:bf16:5x769:residual=bf16");
  const Problem mixed = parse("forward:bf16/f32:5x769:residual=f32:op=rms_norm");
  const Problem single = parse("forward:f32:5x769:residual=f32:rounding=via_x");
  const Problem backward = parse("backward:f32:5x769:residual=f32");
  NaiveBackend right;
  for (const Problem& problem : {sixteen, mixed, single, backward}) {
    EXPECT_EQ(fused_as_unfused(problem, right), "");
  }
  NaiveBackend exact(Mutation::exact_sum), truncated(Mutation::truncated_sum);
  EXPECT_NE(fused_as_unfused(sixteen, exact), "");
  EXPECT_NE(fused_as_unfused(sixteen, truncated), "");
  NaiveBackend of_x(Mutation::norm_of_x), by_residual(Mutation::order_by_residual);
  EXPECT_NE(fused_as_unfused(mixed, of_x), "");
  EXPECT_NE(fused_as_unfused(single, by_residual), "");
  NaiveBackend contracted(Mutation::fused_ds);
  EXPECT_EQ(Trial(backward).check(contracted), "") << "within the tolerance, but not the same bits";
  EXPECT_NE(fused_as_unfused(backward, contracted), "");
  EXPECT_NE(fused_as_unfused(parse("backward:bf16:5x7:residual=bf16"), right), "")
      << "has no counterpart, and must say so";
}

}  // namespace
}  // namespace fusednorm::testing
