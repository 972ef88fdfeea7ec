// SPDX-License-Identifier: Apache-2.0
// The table of options. A new one is a line of kOptions; one that no reader here serves brings its
// own.
#include "problems/options.h"

#include <algorithm>
#include <vector>

#include "problems/words.h"

namespace fusednorm::problems {
namespace {

// The words of each enumeration, in the order of its values.
constexpr const char* kOperations[] = {"layer_norm", "rms_norm"};
constexpr const char* kRoundings[] = {"once", "via_x", "via_param"};
constexpr const char* kInPlace[] = {"none",
                                    "y_over_x",
                                    "sum_over_residual",
                                    "sum_over_x",
                                    "y_over_x+sum_over_residual",
                                    "dx_over_dy",
                                    "dx_over_source",
                                    "dx_over_ds",
                                    "dresidual_over_ds",
                                    "dresidual_over_source"};
constexpr std::size_t kForwardInPlace = 5;  // those of forward, "none" included
constexpr const char* kStarts[] = {"dy", "ds", "dy+ds"};
constexpr const char* kData[] = {"normal", "mean1000", "mean10000", "constant", "zeros",
                                 "tiny",   "huge",     "ramp",      "outlier",  "offset",
                                 "beyond", "nan_row",  "inf_row",   "brink",    "denormal"};
constexpr const char* kGradients[] = {"normal", "positive", "constant", "zeros", "nan_row"};
constexpr const char* kGammas[] = {"normal", "none", "zeros", "large", "minus_offset"};
constexpr const char* kBetas[] = {"normal", "none", "large"};

/// In the order of Problem::out.
std::vector<std::string> outputs_of(const Problem& problem) {
  if (problem.is_forward()) return {"mean", "rstd"};
  return {"dx", "dgamma", "dbeta", "dresidual"};
}

// How an option's value is read (what was expected in its place, or nothing) and printed. Each
// works on one member of Problem.

template <auto Member, const auto& Words>
struct Word {
  static std::string read(const std::string& text, Problem* problem) {
    return find_word(text, Words, &(problem->*Member)) ? "" : one_of(Words);
  }
  static std::string print(const Problem& problem) {
    return Words[static_cast<std::size_t>(problem.*Member)];
  }
};

template <auto Member>
struct PerArray {
  static std::string read(const std::string& text, Problem* problem) {
    const auto parts = split(text, ',');
    auto& values = problem->*Member;
    bool right = parts.size() <= values.size();
    for (std::size_t index = 0; index < values.size() && right; ++index) {
      right = parse_integer(parts[std::min(index, parts.size() - 1)], &values[index]);
    }
    return right ? "" : "one to five whole numbers, as in 1030,1040";
  }
  static std::string print(const Problem& problem) {
    const auto& values = problem.*Member;
    std::size_t count =
        problem.is_forward() ? (problem.has_residual ? 4 : 2) : (problem.has_residual ? 5 : 3);
    while (count > 1 && values[count - 1] == values[count - 2]) --count;
    std::vector<std::string> texts;
    for (std::size_t index = 0; index < count; ++index) {
      texts.push_back(std::to_string(values[index]));
    }
    return join(texts, ",");
  }
};

template <auto Member, bool negative>
struct Number {
  static std::string read(const std::string& text, Problem* problem) {
    const bool decimal = text.find_first_not_of("0123456789.eE+-") == std::string::npos;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, problem->*Member);
    const bool right =
        decimal && error == std::errc() && stop == end && (negative || text[0] != '-');
    return right ? "" : negative ? "a number, as in 1" : "a number of at least 0, as in 1e-5";
  }
  static std::string print(const Problem& problem) { return shortest(problem.*Member); }
};

template <auto Member>
struct Whole {
  static std::string read(const std::string& text, Problem* problem) {
    return parse_integer(text, &(problem->*Member)) ? "" : "a whole number";
  }
  static std::string print(const Problem& problem) { return std::to_string(problem.*Member); }
};

struct Residual {
  static std::string read(const std::string& text, Problem* problem) {
    problem->has_residual = text != "none";
    if (text == "none" || find_word(text, kDTypes, &problem->residual_dtype)) return "";
    return "one of none, " + join(kDTypes, ", ");
  }
  static std::string print(const Problem& problem) {
    return problem.has_residual ? name_of(problem.residual_dtype) : "none";
  }
};

struct Groups {
  static std::string read(const std::string& text, Problem* problem) {
    const auto parts = split(text, 'x');
    problem->rows_per_group = 1;
    const bool right = parts.size() <= 2 && parse_integer(parts[0], &problem->param_groups) &&
                       (parts.size() == 1 || parse_integer(parts[1], &problem->rows_per_group)) &&
                       problem->param_groups > 0 && problem->rows_per_group > 0;
    return right ? "" : "G or GxR, whole numbers of at least 1, as in 8x4";
  }
  static std::string print(const Problem& problem) {
    const std::string groups = std::to_string(problem.param_groups);
    return problem.rows_per_group == 1 ? groups
                                       : groups + "x" + std::to_string(problem.rows_per_group);
  }
};

struct Starts {
  static std::string read(const std::string& text, Problem* problem) {
    std::size_t index = 0;
    if (problem->is_forward()) return "a backward pass";
    if (!find_word(text, kStarts, &index)) return one_of(kStarts);
    problem->has_dy = index != 1;
    problem->has_ds = index != 0;
    return "";
  }
  static std::string print(const Problem& problem) {
    return kStarts[problem.has_dy ? (problem.has_ds ? 2 : 0) : 1];
  }
};

struct Outputs {
  static std::string read(const std::string& text, Problem* problem) {
    const auto names = outputs_of(*problem);
    problem->out = {};
    if (text == "none") return "";
    for (const std::string& word : split(text, '+')) {
      std::size_t index = 0;
      if (!find_word(word, names, &index)) return "none, or some of " + join(names, "+");
      problem->out[index] = true;
    }
    return "";
  }
  static std::string print(const Problem& problem) {
    const auto names = outputs_of(problem);
    std::vector<std::string> asked;
    for (std::size_t index = 0; index < names.size(); ++index) {
      if (problem.out[index]) asked.push_back(names[index]);
    }
    return asked.empty() ? "none" : join(asked, "+");
  }
};

struct Overwriting : Word<&Problem::in_place, kInPlace> {
  static std::string read(const std::string& text, Problem* problem) {
    std::vector<std::string> allowed = {kInPlace[0]};
    for (std::size_t index = 1; index < std::size(kInPlace); ++index) {
      if ((index < kForwardInPlace) == problem->is_forward()) allowed.push_back(kInPlace[index]);
    }
    std::size_t index = 0;
    if (!find_word(text, allowed, &index)) return one_of(allowed);
    return Word::read(text, problem);
  }
};

template <typename Value>
constexpr Option option(const char* key) {
  return {key, Value::read, Value::print};
}

}  // namespace

const std::array<Option, 18> kOptions = {{
    option<Word<&Problem::operation, kOperations>>("op"),
    option<Word<&Problem::rounding, kRoundings>>("rounding"),
    option<Number<&Problem::gamma_offset, true>>("gamma_offset"),
    option<Residual>("residual"),
    option<Groups>("groups"),
    option<Whole<&Problem::inner_rows>>("inner"),
    option<PerArray<&Problem::stride>>("stride"),
    option<PerArray<&Problem::outer>>("outer"),
    option<PerArray<&Problem::offset>>("offset"),
    option<Word<&Problem::data, kData>>("data"),
    option<Word<&Problem::dy, kGradients>>("dy"),
    option<Word<&Problem::gamma, kGammas>>("gamma"),
    option<Word<&Problem::beta, kBetas>>("beta"),
    option<Number<&Problem::eps, false>>("eps"),
    option<Starts>("grads"),
    option<Outputs>("out"),
    option<Overwriting>("in_place"),
    option<Whole<&Problem::seed>>("seed"),
}};

Beta default_beta(const Problem& problem) {
  return problem.operation == Operation::rms_norm ? Beta::none : Beta::normal;
}

bool default_ds(const Problem& problem) {
  return !problem.is_forward() && problem.has_residual;
}

std::array<bool, 4> default_out(const Problem& problem) {
  const bool rms_norm = problem.operation == Operation::rms_norm;
  if (problem.is_forward()) return {!rms_norm, true, true, false};
  return {true, true, !rms_norm || problem.beta != Beta::none, problem.has_dresidual()};
}

std::string default_of(const Option& option, const Problem& problem) {
  Problem plain;
  plain.pass = problem.pass;
  const std::string key = option.key;
  if (key == "beta") plain.beta = default_beta(problem);
  if (key == "grads") plain.has_ds = default_ds(problem);
  if (key == "out") plain.out = default_out(problem);
  return option.print(plain);
}

}  // namespace fusednorm::problems
