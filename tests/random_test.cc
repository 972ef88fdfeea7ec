// SPDX-License-Identifier: Apache-2.0
// Problems that nobody thought of: a sweep whose every problem prints as a line of the grammar.
// FUSEDNORM_TEST_SEED repeats a sweep.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "harness.h"
#include "problems.h"

namespace fusednorm::testing {
namespace {

using Generator = std::mt19937_64;

std::int64_t pick(Generator& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

bool one_in(Generator& random, int chance) {
  return pick(random, 1, chance) == 1;
}

/// Small numbers often, large ones sometimes: 2^u with u uniform.
std::int64_t pick_size(Generator& random, int largest_log2) {
  const std::int64_t bits = pick(random, 0, largest_log2);
  return pick(random, 1, std::int64_t{1} << bits);
}

/// Rows and columns, strides, addresses, levels of rows and groups of parameters.
void pick_layout(Generator& random, Problem* problem) {
  const int most = test_scale() == Size::large ? 16 : 12;
  problem->cols = pick_size(random, most);
  problem->rows = pick_size(random, most);
  problem->rows = std::min(problem->rows, (std::int64_t{1} << most) / problem->cols + 1);
  if (one_in(random, 50)) problem->rows = 0;
  if (one_in(random, 4)) {
    problem->inner_rows = pick(random, 1, std::max<std::int64_t>(problem->rows, 1));
    problem->rows = problem->rows / problem->inner_rows * problem->inner_rows;
  }
  if (one_in(random, 4)) {
    problem->param_groups = pick(random, 1, std::min<std::int64_t>(problem->rows + 2, 40));
    problem->rows_per_group = pick(random, 1, 1 + problem->rows / problem->param_groups);
  }
  const std::int64_t outer_rows = problem->inner_rows > 0 ? problem->rows / problem->inner_rows : 1;
  for (std::size_t array = 0; array < problem->stride.size(); ++array) {
    std::int64_t& stride = problem->stride[array];
    if (one_in(random, 3)) stride = problem->cols + pick(random, 0, 40);
    if (one_in(random, 2)) problem->offset[array] = pick(random, 0, 20);
    if (problem->inner_rows == 0 || one_in(random, 3)) continue;
    std::int64_t& outer = problem->outer[array];
    if (one_in(random, 4)) {  // transposed
      outer = problem->cols + pick(random, 0, 9);
      stride = std::max<std::int64_t>(outer_rows, 1) * outer + pick(random, 0, 9);
    } else {
      const std::int64_t row = stride != packed ? stride : problem->cols;
      outer = problem->inner_rows * row + pick(random, 0, 40);
    }
  }
}

/// Places one output over an input where the contract allows it, with the input's strides.
void pick_in_place(Generator& random, Problem* problem) {
  const auto over = [&](InPlace in_place, std::size_t output, std::size_t input) {
    problem->in_place = in_place;
    problem->stride[output] = problem->stride[input];
    problem->outer[output] = problem->outer[input];
  };
  const bool y_as_x = size_of(problem->x_dtype) == size_of(problem->y_dtype);
  if (problem->is_forward()) {
    if (problem->has_residual && one_in(random, 2)) {
      over(InPlace::sum_over_residual, kSum, kResidual);
      if (y_as_x && one_in(random, 2)) over(InPlace::y_over_x_and_sum_over_residual, kY, kX);
    } else if (problem->has_residual && !problem->has_dresidual() && one_in(random, 2)) {
      over(InPlace::sum_over_x, kSum, kX);
    } else if (y_as_x) {
      over(InPlace::y_over_x, kY, kX);
    }
    return;
  }
  if (problem->out[3] && problem->has_ds && one_in(random, 2)) {
    over(InPlace::dresidual_over_ds, kDresidual, kDs);
  } else if (problem->out[0] && problem->has_ds && !problem->has_dresidual()) {
    over(InPlace::dx_over_ds, kDx, kDs);
  } else if (problem->out[0] && problem->has_dy && y_as_x) {
    const bool source_as_x = problem->from_y() || !problem->has_dresidual();
    one_in(random, 2) || !source_as_x ? over(InPlace::dx_over_dy, kDx, kDy)
                                      : over(InPlace::dx_over_source, kDx, kSource);
  }
}

void pick_residual(Generator& random, Problem* problem) {
  problem->has_residual = true;
  const bool sixteen_bits = size_of(problem->x_dtype) == 2;
  problem->residual_dtype = sixteen_bits && one_in(random, 2) ? DType::f32 : problem->x_dtype;
  if (problem->is_forward()) return;
  problem->has_ds = !one_in(random, 4);
  problem->has_dy = !problem->has_ds || !one_in(random, 6);
  problem->out[3] = problem->has_dresidual();
}

Problem random_problem(Generator& random) {
  static const char* const passes[] = {"forward", "backward", "backward_from_y"};
  const auto& dtypes = dtype_triples();
  Problem problem =
      parse(std::string(passes[pick(random, 0, 2)]) + ":" +
            dtypes[pick(random, 0, static_cast<std::int64_t>(dtypes.size()) - 1)] + ":1x1");
  pick_layout(random, &problem);
  problem.data = static_cast<Data>(pick(random, 0, static_cast<int>(Data::inf_row)));
  problem.dy = static_cast<Gradient>(pick(random, 0, static_cast<int>(Gradient::nan_row)));
  if (one_in(random, 4)) problem.gamma_offset = one_in(random, 2) ? 1 : -0.5;
  problem.gamma = static_cast<Gamma>(pick(random, 0, static_cast<int>(Gamma::zeros)));
  if (problem.gamma == Gamma::zeros && problem.from_y() && problem.gamma_offset == 0) {
    problem.gamma = Gamma::normal;
  }
  problem.beta = one_in(random, 3) ? Beta::none : Beta::normal;
  if (one_in(random, 4)) problem.rounding = static_cast<Rounding>(pick(random, 1, 2));
  // Squares about zero overflow where those about the mean do not.
  if (one_in(random, 3) && problem.data != Data::beyond) problem.operation = Operation::rms_norm;
  problem.eps = one_in(random, 3) ? 1e-12 : one_in(random, 3) ? 0.125 : 1e-5;
  if (one_in(random, 2)) {
    problem.out = {one_in(random, 2), one_in(random, 2), one_in(random, 2), false};
  }
  if (one_in(random, 3)) pick_residual(random, &problem);
  if (problem.is_forward() && problem.operation == Operation::rms_norm) problem.out[0] = false;
  if (problem.is_forward()) problem.out[2] = true;
  if (one_in(random, 3)) pick_in_place(random, &problem);
  problem.seed = static_cast<std::uint64_t>(pick(random, 1, 1 << 30));
  return parse(to_string(problem));
}

TEST(Random, Sweep) {
  const char* given = std::getenv("FUSEDNORM_TEST_SEED");
  const std::uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::uint64_t{std::random_device()()};
  Generator random(seed);
  const Backends backends = backends_under_test();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(15);
  int problems = 0, left_out = 0;
  for (; problems < 2000 && std::chrono::steady_clock::now() < end && !HasFailure(); ++problems) {
    const Problem problem = random_problem(random);
    auto& backend = *backends[random() % backends.size()];
    if (!backend.leaves_out(problem).empty()) {
      ++left_out;
      continue;
    }
    EXPECT_EQ(Trial(problem).check(backend), "")
        << "FUSEDNORM_TEST_SEED=" << seed << " repeats this sweep";
  }
  std::printf("%d random problems, %d of them left out, FUSEDNORM_TEST_SEED=%llu\n", problems,
              left_out, static_cast<unsigned long long>(seed));
  EXPECT_GT(problems - left_out, 20);
}

}  // namespace
}  // namespace fusednorm::testing
