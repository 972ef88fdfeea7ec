// SPDX-License-Identifier: Apache-2.0
// The problem grammar: what is printed can be parsed, and what is no problem is refused.
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "problems.h"
#include "problems/minimal_bytes.h"
#include "problems/shapes.h"

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

/// A line of problems/spellings.txt, which the Python parser is held against as well.
struct Spelling {
  std::string text, meaning;
  bool right;
};

std::string shape_names() {
  std::string names;
  for (const auto& shape : problems::listed_shapes()) {
    names += (names.empty() ? "" : ", ") + shape.name;
  }
  return names;
}

std::vector<Spelling> spellings() {
  std::ifstream file(FUSEDNORM_SPELLINGS);
  std::vector<Spelling> all;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const bool right = line.find(" => ") != std::string::npos;
    const std::size_t sign = line.find(right ? " => " : " !! ");
    std::string meaning = line.substr(sign + 4);
    if (const std::size_t at = meaning.find("{shapes}"); at != std::string::npos) {
      meaning.replace(at, 8, shape_names());
    }
    all.push_back({line.substr(0, sign), meaning, right});
  }
  return all;
}

TEST(Grammar, EverySpellingMeansWhatTheListSays) {
  std::size_t right = 0, wrong = 0;
  for (const auto& [text, meaning, is_right] : spellings()) {
    Problem problem;
    std::string error;
    EXPECT_EQ(problems::parse(text, &problem, &error), is_right) << text << ": " << error;
    if (is_right) {
      const problems::Bytes bytes = problems::minimal_bytes(problem);
      EXPECT_EQ(to_string(problem) + " | read " + std::to_string(bytes.read) + ", written " +
                    std::to_string(bytes.written),
                meaning)
          << text;
      EXPECT_EQ(to_string(problems::parse(to_string(problem))), to_string(problem));
    } else {
      EXPECT_EQ(error, meaning + "; in problem \"" + text + "\"");
    }
    ++(is_right ? right : wrong);
  }
  EXPECT_GT(right, 80u);
  EXPECT_GT(wrong, 50u);
}

// A tool that ignored a word would measure or count another problem than the one it names.
TEST(Grammar, AToolRefusesTheWordsThatItDoesNotHonour) {
  const auto refusal = [](const char* text) {
    return problems::not_honoured(parse(text), "a tool", {"offset", "gamma=none"});
  };
  EXPECT_EQ(refusal("forward:f32:3x5"), "");
  EXPECT_EQ(refusal("forward:f32:3x5:offset=1:gamma=none:data=normal"), "");
  EXPECT_EQ(refusal("forward:f32:3x5:offset=1:stride=8"),
            "stride=8: a tool takes no such problem; in problem "
            "\"forward:f32:3x5:stride=8:offset=1\"");
  EXPECT_NE(refusal("forward:f32:3x5:gamma=zeros"), "");
  EXPECT_NE(refusal("backward:f32:3x5:out=dx"), "");
}

TEST(Shapes, EveryListNamesSomeAndEveryNameIsAProblem) {
  const std::set<std::string> lists = {"bench", "quick", "peer", "cost", "width"};
  for (const std::string& list : lists) EXPECT_FALSE(problems::listed_shapes(list).empty()) << list;
  std::set<std::string> names;
  for (const auto& shape : problems::listed_shapes()) {
    EXPECT_TRUE(names.insert(shape.name).second) << shape.name << " is there twice";
    EXPECT_FALSE(shape.lists.empty()) << shape.name;
    for (const std::string& list : shape.lists) EXPECT_EQ(lists.count(list), 1u) << list;
    const Problem problem = parse("forward:f32:" + shape.name);
    EXPECT_EQ(problem.rows, shape.rows);
    EXPECT_EQ(problem.cols, shape.cols);
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
  EXPECT_EQ(patterns.size(), 15u);
}

}  // namespace
}  // namespace fusednorm::testing
