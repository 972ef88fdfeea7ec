// SPDX-License-Identifier: Apache-2.0
// The problem grammar: parsing and printing PASS:DTYPES:SHAPE and the options behind it
// (options.cc).
#include <cstdio>
#include <cstdlib>
#include <map>
#include <vector>

#include "problems/options.h"
#include "problems/problem.h"
#include "problems/shapes.h"
#include "problems/words.h"

namespace fusednorm::problems {
namespace {

/// In the order of Pass's values.
constexpr const char* kPasses[] = {"forward", "backward", "backward_from_y"};

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
  for (const Option& option : kOptions) {
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
  for (const Option& option : kOptions) {
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
  for (const Option& option : kOptions) {
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

std::string not_measured(const Problem& problem, const std::string& tool) {
  if (problem.rows < 1 || problem.cols < 1) {
    return std::to_string(problem.rows) + "x" + std::to_string(problem.cols) +
           ": expected at least one row and one column; in problem \"" + to_string(problem) + "\"";
  }
  return not_honoured(
      problem, tool,
      {"op", "rounding", "gamma_offset", "residual", "groups", "inner", "stride", "outer", "offset",
       "gamma=none", "beta=none", "beta=normal", "eps", "grads", "out"});
}

}  // namespace fusednorm::problems
