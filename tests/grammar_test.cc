// The problem grammar: what is printed can be parsed, and what is no problem is refused.
#include <gtest/gtest.h>

#include <set>

#include "problems.h"

namespace fusednorm::testing {
namespace {

TEST(Grammar, EveryProblemOfTheTableSurvivesTheRoundTrip) {
  std::size_t count = 0;
  for (const TableRow& row : problem_table()) {
    EXPECT_FALSE(row.why.empty()) << row.problems;
    for (const Problem& problem : expand(row)) {
      const std::string text = to_string(problem);
      EXPECT_EQ(to_string(parse(text)), text);
      ++count;
    }
  }
  EXPECT_GT(count, 2000u);
}

TEST(Grammar, EveryOptionIsKept) {
  const std::string text =
      "backward_from_y:bf16/f32/f32:8192x1024:stride=1030,1040,1050:offset=1,2,3:data=outlier:"
      "dy=positive:gamma=none:beta=large:eps=0.5:out=dx+dbeta:in_place=dx_over_source:seed=99";
  EXPECT_EQ(to_string(parse(text)), text);
  EXPECT_EQ(to_string(parse("forward:bf16/f32:3x4:offset=2")),
            "forward:bf16/f32/bf16:3x4:offset=2,2");
}

TEST(Grammar, WhatIsNoProblemIsRefused) {
  for (const char* text :
       {"", "forward", "forward:f32", "sideways:f32:1x1", "forward:f8:1x1", "forward:f32:1",
        "forward:f32:1x", "forward:f32:1x1:stride", "forward:f32:1x1:stride=a",
        "forward:f32:1x1:stride=1,2,3,4", "forward:f32:1x1:data=strange", "forward:f32:1x1:eps=x",
        "forward:f32:1x1:out=dx", "backward:f32:1x1:out=mean", "forward:f32:1x1:colour=red"}) {
    Problem problem;
    std::string error;
    EXPECT_FALSE(parse(text, &problem, &error)) << text;
    EXPECT_NE(error, "");
  }
}

// Slow devices take the small problems alone: those must still hold every pass, dtype triple and
// pattern.
TEST(Grammar, TheSmallProblemsCoverEveryKind) {
  std::set<std::string> kinds, patterns;
  for (const TableRow& row : problem_table()) {
    for (const Problem& problem : expand(row)) {
      if (size_of(problem) == Size::small) {
        const std::string text = to_string(problem);
        kinds.insert(text.substr(0, text.find(':', text.find(':') + 1)));
        patterns.insert(std::to_string(static_cast<int>(problem.data)));
      }
    }
  }
  EXPECT_EQ(kinds.size(), 3 * dtype_triples().size());
  EXPECT_EQ(patterns.size(), 13u);
}

}  // namespace
}  // namespace fusednorm::testing
