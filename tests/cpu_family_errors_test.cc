// SPDX-License-Identifier: Apache-2.0
// Bad input to the CPU backend in the fields of the family: rounding, gamma_offset, residual,
// groups and two levels of rows.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "bad_input.h"

namespace fusednorm::testing {
namespace {

/// x of bf16 beside an f32 residual, so that every array of the family exists.
struct ResidualForwardCall : ForwardCall {
  ResidualForwardCall() {
    problem.x_dtype = problem.y_dtype = DType::bf16;
    problem.has_residual = true;
    buffers.residual = array(10);
    buffers.sum = array(11);
  }
};

struct ResidualBackwardCall : BackwardCall {
  ResidualBackwardCall() {
    problem.x_dtype = problem.y_dtype = DType::bf16;
    problem.has_residual = problem.has_ds = problem.want_dresidual = true;
    buffers.ds = array(10);
    buffers.dresidual = array(11);
  }
};

/// What both passes refuse of the family's fields.
template <typename Call>
std::vector<BadInput<Call>> bad_family_fields() {
  return {
      {"no such rounding",
       [](Call& c) { c.problem.rounding = static_cast<Rounding>(3); },
       {"rounding", "3", "once", "via_x", "via_param"}},
      {"gamma_offset is NaN",
       [](Call& c) { c.problem.gamma_offset = std::nan(""); },
       {"gamma_offset", "nan", "finite"}},
      {"gamma_offset is infinite",
       [](Call& c) { c.problem.gamma_offset = -std::numeric_limits<double>::infinity(); },
       {"gamma_offset", "-inf", "finite"}},
      {"no groups", [](Call& c) { c.problem.param_groups = 0; }, {"param_groups", "0", "one"}},
      {"negative groups", [](Call& c) { c.problem.param_groups = -4; }, {"param_groups", "-4"}},
      {"groups of no rows",
       [](Call& c) { c.problem.rows_per_group = 0; },
       {"rows_per_group", "0", "one"}},
      {"a table beyond memory",
       [](Call& c) { c.problem.param_groups = std::int64_t{1} << 60; },
       {"param_groups", "1152921504606846976", "cols", "8"}},
      {"negative inner_rows", [](Call& c) { c.problem.inner_rows = -1; }, {"inner_rows", "-1"}},
      {"inner_rows that divide no rows",
       [](Call& c) { c.problem.inner_rows = 2; },
       {"inner_rows", "2", "rows", "3"}},
      {"no such residual_dtype",
       [](Call& c) { c.problem.residual_dtype = static_cast<DType>(17); },
       {"residual_dtype", "17"}},
      {"f16 residual of bf16 x",
       [](Call& c) { c.problem.residual_dtype = DType::f16; },
       {"residual_dtype", "f16", "f32", "x_dtype", "bf16"}},
      {"f64 residual of bf16 x",
       [](Call& c) { c.problem.residual_dtype = DType::f64; },
       {"residual_dtype", "f64", "f32", "x_dtype", "bf16"}},
      {"bf16 residual of f32 x",
       [](Call& c) {
         c.problem.x_dtype = c.problem.y_dtype = DType::f32;
         c.problem.residual_dtype = DType::bf16;
       },
       {"residual_dtype", "bf16", "x_dtype", "f32"}},
      {"f32 residual of f64 x",
       [](Call& c) {
         c.problem.x_dtype = c.problem.y_dtype = c.problem.param_dtype = DType::f64;
         c.problem.residual_dtype = DType::f32;
       },
       {"residual_dtype", "f32", "x_dtype", "f64"}},
  };
}

/// The row and outer stride of one array.
template <typename Problem>
struct StrideFields {
  std::string array;
  std::int64_t Problem::*row;
  std::int64_t Problem::*outer;
};

/// Each array's strides, one after the other: rows that reach into each other, or out of memory.
template <typename Call, typename Problem>
std::vector<BadInput<Call>> bad_strides(const std::vector<StrideFields<Problem>>& arrays) {
  std::vector<BadInput<Call>> inputs;
  for (const auto& [array, row, outer] : arrays) {
    const auto row_stride = row, outer_stride = outer;
    const std::string row_name = array + "_row_stride", outer_name = array + "_outer_stride";
    inputs.push_back({"a row stride below cols",
                      [=](Call& c) { c.problem.*row_stride = 7; },
                      {row_name, "7", "cols", "8"}});
    inputs.push_back({"an outer stride inside the inner rows",
                      [=](Call& c) {
                        c.problem.rows = 6;
                        c.problem.inner_rows = 3;
                        c.problem.*row_stride = 10;
                        c.problem.*outer_stride = 27;
                      },
                      {outer_name, "27", "28", "inner_rows", "3"}});
    inputs.push_back({"a transposed array whose outer rows overlap",
                      [=](Call& c) {
                        c.problem.rows = 6;
                        c.problem.inner_rows = 2;
                        c.problem.*row_stride = 100;
                        c.problem.*outer_stride = 7;
                      },
                      {outer_name, "7", row_name, "100"}});
    inputs.push_back({"a transposed array whose inner rows overlap",
                      [=](Call& c) {
                        c.problem.rows = 6;
                        c.problem.inner_rows = 2;
                        c.problem.*row_stride = 23;
                        c.problem.*outer_stride = 8;
                      },
                      {outer_name, "8", row_name, "23"}});
    inputs.push_back({"a negative outer stride",
                      [=](Call& c) {
                        c.problem.inner_rows = 1;
                        c.problem.*outer_stride = -8;
                      },
                      {outer_name, "-8"}});
    inputs.push_back({"outer rows beyond memory",
                      [=](Call& c) {
                        c.problem.inner_rows = 1;
                        c.problem.*outer_stride = std::int64_t{1} << 61;
                      },
                      {outer_name, "2305843009213693952", "rows", "3"}});
    inputs.push_back({"inner rows beyond memory",
                      [=](Call& c) {
                        c.problem.rows = 6;
                        c.problem.inner_rows = 3;
                        c.problem.*row_stride = std::int64_t{1} << 60;
                        c.problem.*outer_stride = 8;
                      },
                      {row_name, "1152921504606846976"}});
  }
  return inputs;
}

TEST(FamilyErrors, ForwardProblem) {
  using Call = ResidualForwardCall;
  expect_only_refused(bad_family_fields<Call>());
  using Problem = ForwardProblem;
  expect_only_refused(bad_strides<Call, Problem>(
      {{"x", &Problem::x_row_stride, &Problem::x_outer_stride},
       {"y", &Problem::y_row_stride, &Problem::y_outer_stride},
       {"residual", &Problem::residual_row_stride, &Problem::residual_outer_stride},
       {"sum", &Problem::sum_row_stride, &Problem::sum_outer_stride}}));
}

TEST(FamilyErrors, BackwardProblem) {
  using Call = ResidualBackwardCall;
  expect_only_refused(bad_family_fields<Call>());
  using Problem = BackwardProblem;
  expect_only_refused(bad_strides<Call, Problem>(
      {{"dy", &Problem::dy_row_stride, &Problem::dy_outer_stride},
       {"source", &Problem::source_row_stride, &Problem::source_outer_stride},
       {"dx", &Problem::dx_row_stride, &Problem::dx_outer_stride},
       {"ds", &Problem::ds_row_stride, &Problem::ds_outer_stride},
       {"dresidual", &Problem::dresidual_row_stride, &Problem::dresidual_outer_stride}}));
  expect_only_refused<Call>({
      {"ds without a residual",
       [](Call& c) { c.problem.has_residual = false; },
       {"has_ds", "true", "has_residual", "false"}},
      {"no gradient at all",
       [](Call& c) { c.problem.has_dy = c.problem.has_ds = false; },
       {"has_dy", "false", "has_ds"}},
      {"dresidual of the dtype of dx",
       [](Call& c) { c.problem.residual_dtype = DType::bf16; },
       {"want_dresidual", "true", "residual_dtype", "bf16", "x_dtype"}},
      {"dresidual without a residual",
       [](Call& c) { c.problem.has_residual = c.problem.has_ds = false; },
       {"want_dresidual", "true", "residual_dtype", "none"}},
  });
}

TEST(FamilyErrors, Buffers) {
  using Forward = ResidualForwardCall;
  expect_only_refused<Forward>({
      {"null residual", [](Forward& c) { c.buffers.residual = nullptr; }, {"residual", "null"}},
      {"null sum", [](Forward& c) { c.buffers.sum = nullptr; }, {"sum", "null"}},
      {"misaligned residual",
       [](Forward& c) { c.buffers.residual = off_by_a_byte(c.buffers.residual); },
       {"residual", "address", "4"}},
      {"misaligned sum",
       [](Forward& c) { c.buffers.sum = off_by_a_byte(c.buffers.sum); },
       {"sum", "address", "4"}},
  });
  using Backward = ResidualBackwardCall;
  expect_only_refused<Backward>({
      {"null ds", [](Backward& c) { c.buffers.ds = nullptr; }, {"ds", "null"}},
      {"null dresidual", [](Backward& c) { c.buffers.dresidual = nullptr; }, {"dresidual", "null"}},
      {"null ds without dy",
       [](Backward& c) {
         c.problem.has_dy = false;
         c.buffers.ds = nullptr;
       },
       {"ds", "null"}},
      {"misaligned ds",
       [](Backward& c) { c.buffers.ds = off_by_a_byte(c.buffers.ds); },
       {"ds", "address", "4"}},
      {"misaligned dresidual",
       [](Backward& c) { c.buffers.dresidual = off_by_a_byte(c.buffers.dresidual); },
       {"dresidual", "address", "4"}},
  });
}

}  // namespace
}  // namespace fusednorm::testing
