// SPDX-License-Identifier: Apache-2.0
// fused = unfused, bit for bit, and the guarantees on problems of the family: what any backend must
// pass.
#include <gtest/gtest.h>

#include <cstdio>

#include "guarantees.h"
#include "problems.h"

namespace fusednorm::testing {
namespace {

/// Calls `check` for each problem of `rows` and each backend that takes it.
template <typename Check>
void on_every_backend(const std::vector<std::string>& rows, const Check& check) {
  const Backends backends = backends_under_test();
  ASSERT_FALSE(backends.empty());
  for (const std::string& row : rows) {
    for (const Problem& problem : expand({row, ""})) {
      for (const auto& backend : backends) {
        std::string why = backend->leaves_out(problem);
        if (size_of(problem) > test_scale()) why = "too large for FUSEDNORM_TEST_SCALE";
        if (why.empty()) {
          EXPECT_EQ(check(problem, *backend), "");
        } else {
          std::printf("left out %s: %s\n", to_string(problem).c_str(), why.c_str());
        }
      }
    }
  }
}

const std::string kNorms = ":op={layer_norm,rms_norm}";
const std::string kRoundings = ":rounding={once,via_x,via_param}";
// Widths of every kind of work: a few rows at a time, whole rows, chunks.
const std::string kShapes = "{37x7,33x128,5x769,3x4097}";

TEST(Fused, ForwardIsTheNormOfTheStoredSum) {
  on_every_backend(
      {"forward:f64:" + kShapes + ":residual=f64" + kRoundings + kNorms,
       "forward:{f32,f32/bf16,f32/bf16/bf16}:" + kShapes + ":residual=f32" + kRoundings + kNorms,
       "forward:{f16,f16/f32,f16/f32/f32}:" + kShapes + ":residual=f16" + kRoundings + kNorms,
       "forward:{bf16,bf16/f32,bf16/f32/f32}:" + kShapes + ":residual=bf16" + kRoundings + kNorms,
       "forward:bf16/f32:{2x40000,5x70001,1x300001}:residual=bf16" + kNorms,
       "forward:f32:5x769:residual=f32:data={mean1000,ramp,outlier,constant}",
       "forward:bf16:5x769:residual=bf16:data={mean1000,ramp,outlier,constant}"},
      fused_as_unfused);
}

TEST(Fused, ForwardBesideAnF32Residual) {
  on_every_backend(
      {"forward:{bf16,bf16/f32,f16,f16/f32}:" + kShapes + ":residual=f32" + kNorms,
       "forward:{bf16/f32/f32,f16/f32/f32}:" + kShapes + ":residual=f32" + kRoundings + kNorms,
       "forward:{bf16,bf16/f32,f16}:5x769:residual=f32:beta=none" + kRoundings + kNorms,
       "forward:bf16/f32:5x70001:residual=f32:op=rms_norm"},
      fused_as_unfused);
}

TEST(Fused, WhereverTheArraysAre) {
  on_every_backend(
      {"forward:{f32,bf16/f32}:5x769:residual=f32:offset=1,2,3,5",
       "forward:{f32,bf16}:24x64:residual=f32:inner=6:outer=640:groups=6:gamma_offset=1" + kNorms,
       "forward:f32:5x{100,4097}:residual=f32:in_place={sum_over_residual,sum_over_x,y_over_x,y_"
       "over_x+sum_over_residual}"},
      fused_as_unfused);
}

TEST(Fused, BackwardIsTheNormsGradientAndDs) {
  on_every_backend(
      {"{backward,backward_from_y}:f64:" + kShapes + ":residual=f64:grads={dy,dy+ds}" + kNorms,
       "{backward,backward_from_y}:{f32,f32/bf16}:" + kShapes + ":residual=f32:grads={dy,dy+ds}" +
           kNorms,
       "{backward,backward_from_y}:{f16,f16/f32}:" + kShapes + ":residual=f16:grads=dy" + kNorms,
       "backward:{bf16/f32,bf16/f32/f32}:" + kShapes + ":residual=bf16:grads=dy" + kNorms,
       "backward:f32:{2x40000,5x70001}:residual=f32:op=rms_norm",
       "backward:f32:24x64:residual=f32:inner=6:outer=640:groups=6:gamma_offset=1",
       "backward:f32:5x{100,4097}:residual=f32:in_place={dx_over_dy,dx_over_source,dx_over_ds}"},
      fused_as_unfused);
}

const std::vector<std::string> kFamily = {
    "forward:{f32,bf16/f32}:{33x64,5x4097}:op=rms_norm:beta=normal",
    "forward:{bf16,f16/f32}:{33x64,5x1000}:rounding={via_x,via_param}",
    "forward:{f32,bf16}:{33x64,5x1000}:residual=f32" + kNorms,
    "forward:{f32,bf16/f32}:24x{64,1000}:groups=5x2:gamma_offset=1:inner=6:outer=20000",
    "{backward,backward_from_y}:{f32,bf16/f32}:{33x64,5x1000}:residual=f32" + kNorms,
    "{backward,backward_from_y}:{f32,bf16}:24x64:groups=5x2:gamma_offset=1:inner=6:outer=700",
    "backward:bf16/f32:300x64:groups=7x3:op=rms_norm",
};

TEST(FamilyGuarantees, RunToRun) {
  on_every_backend(kFamily, [](const Problem& problem, Backend& backend) {
    return same_bits(problem, backend, backend);
  });
}

TEST(FamilyGuarantees, BatchInvariant) {
  on_every_backend(kFamily, [](const Problem& problem, Backend& backend) {
    const std::string alone = batch_invariant(problem, backend, backend, 1);
    return alone.empty() ? batch_invariant(problem, backend, backend, 5) : alone;
  });
}

TEST(FamilyGuarantees, WhateverTheOtherRowsHold) {
  on_every_backend({"forward:{f32,bf16}:6x64:residual=f32:groups=3",
                    "backward:{f32,bf16}:6x100:residual=f32:groups=3:inner=2:outer=300"},
                   [](const Problem& problem, Backend& backend) {
                     return batch_invariant(problem, backend, backend, 1, true);
                   });
}

}  // namespace
}  // namespace fusednorm::testing
