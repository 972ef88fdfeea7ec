// SPDX-License-Identifier: Apache-2.0
// The problem grammar: parsing and printing, by one table of options.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <vector>

#include "problems/problem.h"
#include "problems/shapes.h"

namespace fusednorm::problems {
namespace {

// The words of each enumeration, in the order of its values.
constexpr const char* kPasses[] = {"forward", "backward", "backward_from_y"};
constexpr const char* kDTypes[] = {"f64", "f32", "f16", "bf16"};
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

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

template <typename Words>
std::string join(const Words& words, const std::string& separator) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : separator) + std::string(word);
  return text;
}

template <typename Words>
std::string one_of(const Words& words) {
  return "one of " + join(words, ", ");
}

template <typename Enumeration, typename Words>
bool find_word(const std::string& word, const Words& words, Enumeration* value) {
  for (std::size_t index = 0; index < std::size(words); ++index) {
    if (word == words[index]) {
      *value = static_cast<Enumeration>(index);
      return true;
    }
  }
  return false;
}

/// Digits alone: no sign, no space, nothing behind them.
template <typename Integer>
bool parse_integer(const std::string& text, Integer* value) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos) return false;
  return std::from_chars(text.data(), text.data() + text.size(), *value).ec == std::errc();
}

/// As few digits as give the same number back.
std::string shortest(double value) {
  char text[32];
  for (int digits = 6; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  return text;
}

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

struct Option {
  const char* key;
  std::string (*read)(const std::string& text, Problem* problem);
  std::string (*print)(const Problem& problem);
};

template <typename Value>
constexpr Option option(const char* key) {
  return {key, Value::read, Value::print};
}

/// Every option, in the order in which it is printed.
constexpr Option options[] = {
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
};

// Some defaults follow from other words.

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

/// The value that `option` has in a problem like this one that does not mention it.
std::string default_of(const Option& option, const Problem& problem) {
  Problem plain;
  plain.pass = problem.pass;
  const std::string key = option.key;
  if (key == "beta") plain.beta = default_beta(problem);
  if (key == "grads") plain.has_ds = default_ds(problem);
  if (key == "out") plain.out = default_out(problem);
  return option.print(plain);
}

/// x, x/param or x/param/y: the shortest that says it.
std::string dtypes_of(const Problem& problem) {
  std::string text = name_of(problem.x_dtype);
  const bool y_differs = problem.y_dtype != problem.x_dtype;
  if (y_differs || problem.param_dtype != problem.x_dtype) {
    text += std::string("/") + name_of(problem.param_dtype);
  }
  return y_differs ? text + "/" + name_of(problem.y_dtype) : text;
}

/// What an error says of a word: nothing, or "WORD: expected …".
std::string expected(const std::string& word, const std::string& what) {
  return what.empty() ? "" : (word.empty() ? "\"\"" : word) + ": expected " + what;
}

std::string parse_dtypes(const std::string& text, Problem* problem) {
  const auto parts = split(text, '/');
  if (parts.size() > 3) return expected(text, "x, x/param or x/param/y");
  std::array<DType, 3> dtypes{};
  for (std::size_t index = 0; index < parts.size(); ++index) {
    if (!find_word(parts[index], kDTypes, &dtypes[index])) {
      return expected(parts[index], one_of(kDTypes));
    }
  }
  problem->x_dtype = dtypes[0];
  problem->param_dtype = parts.size() > 1 ? dtypes[1] : dtypes[0];
  problem->y_dtype = parts.size() > 2 ? dtypes[2] : dtypes[0];
  return "";
}

std::string parse_shape(const std::string& text, Problem* problem) {
  std::vector<std::string> names;
  for (const Shape& shape : listed_shapes()) {
    if (shape.name == text) {
      problem->rows = shape.rows;
      problem->cols = shape.cols;
      return "";
    }
    names.push_back(shape.name);
  }
  const auto sizes = split(text, 'x');
  const bool right = sizes.size() == 2 && parse_integer(sizes[0], &problem->rows) &&
                     parse_integer(sizes[1], &problem->cols);
  return right ? "" : expected(text, "ROWSxCOLS, as in 4096x1024, or " + one_of(names));
}

/// The words of a problem's options, by their keys.
using Given = std::map<std::string, std::string>;

std::string parse_option(const std::string& text, Given* given, Problem* problem) {
  const std::size_t equals = text.find('=');
  const std::string key = text.substr(0, equals);
  std::vector<std::string> keys;
  for (const Option& option : options) {
    keys.push_back(option.key);
    if (key != option.key) continue;
    if (!given->emplace(key, text).second) return expected(text, key + "= once");
    if (equals == std::string::npos) return expected(text, key + "=VALUE");
    return expected(text, option.read(text.substr(equals + 1), problem));
  }
  return expected(key, one_of(keys));
}

/// Words that mean something only beside others.
std::string check_together(const Given& given, const Problem& problem) {
  const InPlace in_place = problem.in_place;
  const bool over_sum = in_place == InPlace::sum_over_residual || in_place == InPlace::sum_over_x ||
                        in_place == InPlace::y_over_x_and_sum_over_residual;
  const bool over_ds = in_place == InPlace::dx_over_ds || in_place == InPlace::dresidual_over_ds;
  const bool dresidual =
      in_place == InPlace::dresidual_over_ds || in_place == InPlace::dresidual_over_source;
  const char* const other_dtype = "residual= of another dtype than x beside it";
  const struct {
    const char* key;
    bool broken;
    const char* what;
  } rules[] = {
      {"outer", problem.inner_rows == 0, "inner= beside it"},
      {"grads", problem.has_ds && !problem.has_residual, "residual= beside it"},
      {"out", !problem.is_forward() && problem.out[3] && !problem.has_dresidual(), other_dtype},
      {"in_place", over_sum && !problem.has_residual, "residual= beside it"},
      {"in_place", in_place == InPlace::dx_over_dy && !problem.has_dy, "grads= with dy beside it"},
      {"in_place", over_ds && !problem.has_ds, "grads= with ds beside it"},
      {"in_place", dresidual && !problem.has_dresidual(), other_dtype},
  };
  for (const auto& rule : rules) {
    const auto word = given.find(rule.key);
    if (word != given.end() && rule.broken) return expected(word->second, rule.what);
  }
  return "";
}

std::string parse_fields(const std::string& text, Problem* problem) {
  const auto fields = split(text, ':');
  if (fields.size() < 3) return expected(text, "PASS:DTYPES:SHAPE");
  if (!find_word(fields[0], kPasses, &problem->pass)) return expected(fields[0], one_of(kPasses));
  std::string error = parse_dtypes(fields[1], problem);
  if (error.empty()) error = parse_shape(fields[2], problem);
  Given given;
  for (std::size_t index = 3; index < fields.size() && error.empty(); ++index) {
    error = parse_option(fields[index], &given, problem);
  }
  if (!error.empty()) return error;
  if (given.count("beta") == 0) problem->beta = default_beta(*problem);
  if (given.count("grads") == 0) problem->has_ds = default_ds(*problem);
  if (given.count("out") == 0) problem->out = default_out(*problem);
  if (problem->is_forward() && problem->operation == Operation::rms_norm) problem->out[0] = false;
  return check_together(given, *problem);
}

}  // namespace

std::string to_string(Pass pass) {
  return kPasses[static_cast<std::size_t>(pass)];
}

std::string to_string(const Problem& problem) {
  std::string text = to_string(problem.pass) + ":" + dtypes_of(problem) + ":" +
                     std::to_string(problem.rows) + "x" + std::to_string(problem.cols);
  for (const Option& option : options) {
    const std::string value = option.print(problem);
    if (value != default_of(option, problem)) text += std::string(":") + option.key + "=" + value;
  }
  return text;
}

bool parse(const std::string& text, Problem* problem, std::string* error) {
  *problem = Problem();
  *error = parse_fields(text, problem);
  if (error->empty()) return true;
  *error += "; in problem \"" + text + "\"";
  return false;
}

Problem parse(const std::string& text) {
  Problem problem;
  std::string error;
  if (!parse(text, &problem, &error)) {
    std::fprintf(stderr, "%s\n", error.c_str());
    std::abort();
  }
  return problem;
}

std::string not_honoured(const Problem& problem, const std::string& tool,
                         std::initializer_list<const char*> honoured) {
  for (const Option& option : options) {
    const std::string word = option.key + ("=" + option.print(problem));
    bool known = option.print(problem) == default_of(option, problem);
    for (const std::string name : honoured) known = known || name == option.key || name == word;
    if (!known) {
      return word + ": " + tool + " takes no such problem; in problem \"" + to_string(problem) +
             "\"";
    }
  }
  return "";
}

}  // namespace fusednorm::problems
