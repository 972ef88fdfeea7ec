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

Problem random_problem(Generator& random) {
  static const char* const passes[] = {"forward", "backward", "backward_from_y"};
  const auto& dtypes = dtype_triples();
  Problem problem =
      parse(std::string(passes[pick(random, 0, 2)]) + ":" +
            dtypes[pick(random, 0, static_cast<std::int64_t>(dtypes.size()) - 1)] + ":1x1");
  const int most = test_scale() == Size::large ? 16 : 12;
  problem.cols = pick_size(random, most);
  problem.rows = pick_size(random, most);
  problem.rows = std::min(problem.rows, (std::int64_t{1} << most) / problem.cols + 1);
  if (one_in(random, 50)) problem.rows = 0;
  for (int array = 0; array < 3; ++array) {
    if (one_in(random, 3)) problem.stride[array] = problem.cols + pick(random, 0, 40);
    if (one_in(random, 2)) problem.offset[array] = pick(random, 0, 20);
  }
  if (problem.is_forward()) problem.stride[2] = problem.offset[2] = 0;
  problem.data = static_cast<Data>(pick(random, 0, static_cast<int>(Data::inf_row)));
  problem.dy = static_cast<Gradient>(pick(random, 0, static_cast<int>(Gradient::nan_row)));
  problem.gamma = static_cast<Gamma>(pick(random, 0, static_cast<int>(Gamma::zeros)));
  if (problem.from_y() && problem.gamma == Gamma::zeros) problem.gamma = Gamma::normal;
  problem.beta = one_in(random, 3) ? Beta::none : Beta::normal;
  // Squares about zero overflow where those about the mean do not.
  if (one_in(random, 4) && problem.data != Data::beyond) {
    problem.operation = Operation::rms_norm;
    problem.beta = Beta::none;
  }
  problem.eps = one_in(random, 3) ? 1e-12 : one_in(random, 3) ? 0.125 : 1e-5;
  if (one_in(random, 2)) {
    problem.out = {one_in(random, 2), one_in(random, 2), one_in(random, 2)};
    if (problem.is_forward()) problem.out[2] = true;
  }
  if (problem.operation == Operation::rms_norm) problem.out[problem.is_forward() ? 0 : 2] = false;
  if (one_in(random, 3)) {
    const bool same_size = size_of(problem.x_dtype) == size_of(problem.y_dtype);
    if (problem.is_forward() && same_size) {
      problem.in_place = InPlace::y_over_x;
      problem.stride[1] = problem.stride[0];
    } else if (!problem.is_forward() && problem.out[0] && same_size) {
      problem.in_place = one_in(random, 2) ? InPlace::dx_over_dy : InPlace::dx_over_source;
      problem.stride[2] = problem.stride[problem.in_place == InPlace::dx_over_dy ? 0 : 1];
    }
  }
  problem.seed = static_cast<std::uint64_t>(pick(random, 1, 1 << 30));
  return problem;
}

TEST(Random, Sweep) {
  const char* given = std::getenv("FUSEDNORM_TEST_SEED");
  const std::uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::uint64_t{std::random_device()()};
  Generator random(seed);
  const Backends backends = backends_under_test();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(15);
  int problems = 0;
  for (; problems < 2000 && std::chrono::steady_clock::now() < end && !HasFailure(); ++problems) {
    const Problem problem = random_problem(random);
    auto& backend = *backends[random() % backends.size()];
    if (backend.leaves_out(problem).empty()) {
      EXPECT_EQ(Trial(problem).check(backend), "")
          << "FUSEDNORM_TEST_SEED=" << seed << " repeats this sweep";
    }
  }
  std::printf("%d random problems, FUSEDNORM_TEST_SEED=%llu\n", problems,
              static_cast<unsigned long long>(seed));
  EXPECT_GT(problems, 20);
}

}  // namespace
}  // namespace fusednorm::testing
