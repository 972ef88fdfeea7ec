// The problem grammar: printing and parsing.
#include "problem.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <vector>

namespace fusednorm::testing {
namespace {

// The words of each enumeration, in the order of its values.
const char* const kPasses[] = {"forward", "backward", "backward_from_y"};
const char* const kInPlace[] = {"none", "y_over_x", "dx_over_dy", "dx_over_source"};
const char* const kData[] = {"normal", "mean1000", "mean10000", "constant", "zeros",
                             "tiny",   "huge",     "ramp",      "outlier",  "offset",
                             "beyond", "nan_row",  "inf_row"};
const char* const kGradients[] = {"normal", "positive", "constant", "zeros", "nan_row"};
const char* const kGammas[] = {"normal", "none", "zeros", "large"};
const char* const kBetas[] = {"normal", "none", "large"};
const char* const kOperations[] = {"layer_norm", "rms_norm"};
const char* const kDTypes[] = {"f64", "f32", "f16", "bf16"};
const char* const kForwardOutputs[] = {"mean", "rstd"};
const char* const kBackwardOutputs[] = {"dx", "dgamma", "dbeta"};

template <typename Enumeration, std::size_t Count>
bool find_word(const std::string& word, const char* const (&words)[Count], Enumeration* value) {
  for (std::size_t index = 0; index < Count; ++index) {
    if (word == words[index]) {
      *value = static_cast<Enumeration>(index);
      return true;
    }
  }
  return false;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    parts.push_back(part);
  }
  return parts;
}

bool parse_integer(const std::string& text, std::int64_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_list(const std::string& text, std::array<std::int64_t, 3>* values) {
  const auto parts = split(text, ',');
  if (parts.empty() || parts.size() > 3) {
    return false;
  }
  for (std::size_t index = 0; index < 3; ++index) {
    if (!parse_integer(parts[index < parts.size() ? index : parts.size() - 1], &(*values)[index])) {
      return false;
    }
  }
  return true;
}

bool parse_dtypes(const std::string& text, Problem* problem) {
  const auto parts = split(text, '/');
  if (parts.empty() || parts.size() > 3 || !find_word(parts[0], kDTypes, &problem->x_dtype)) {
    return false;
  }
  problem->param_dtype = problem->y_dtype = problem->x_dtype;
  return (parts.size() < 2 || find_word(parts[1], kDTypes, &problem->param_dtype)) &&
         (parts.size() < 3 || find_word(parts[2], kDTypes, &problem->y_dtype));
}

bool parse_outputs(const std::string& text, Problem* problem) {
  problem->out = {false, false, false};
  if (text == "none") {
    return true;
  }
  for (const std::string& word : split(text, '+')) {
    int index = 0;
    if (!(problem->is_forward() ? find_word(word, kForwardOutputs, &index)
                                : find_word(word, kBackwardOutputs, &index))) {
      return false;
    }
    problem->out[index] = true;
  }
  return true;
}

bool parse_eps(const std::string& text, double* eps) {
  char* end = nullptr;
  *eps = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0';
}

bool parse_operation(const std::string& text, Problem* problem) {
  if (!find_word(text, kOperations, &problem->operation)) return false;
  if (problem->operation == Operation::rms_norm) {
    problem->beta = Beta::none;
    problem->out[problem->is_forward() ? 0 : 2] = false;
  }
  return true;
}

bool parse_option(const std::string& key, const std::string& value, Problem* problem) {
  std::int64_t number = 0;
  if (key == "stride") return parse_list(value, &problem->stride);
  if (key == "offset") return parse_list(value, &problem->offset);
  if (key == "data") return find_word(value, kData, &problem->data);
  if (key == "dy") return find_word(value, kGradients, &problem->dy);
  if (key == "gamma") return find_word(value, kGammas, &problem->gamma);
  if (key == "beta") return find_word(value, kBetas, &problem->beta);
  if (key == "operation") return parse_operation(value, problem);
  if (key == "eps") return parse_eps(value, &problem->eps);
  if (key == "out") return parse_outputs(value, problem);
  if (key == "in_place") return find_word(value, kInPlace, &problem->in_place);
  if (key == "seed" && parse_integer(value, &number)) {
    problem->seed = static_cast<std::uint64_t>(number);
    return true;
  }
  return false;
}

std::string join(const std::array<std::int64_t, 3>& values, int count) {
  std::string text = std::to_string(values[0]);
  for (int index = 1; index < count; ++index) {
    text += "," + std::to_string(values[index]);
  }
  return text;
}

template <typename Names>
std::string outputs_text(const Names& names, const std::array<bool, 3>& out) {
  std::string text;
  for (std::size_t index = 0; index < std::size(names); ++index) {
    if (out[index]) {
      text += (text.empty() ? "" : "+") + std::string(names[index]);
    }
  }
  return text.empty() ? "none" : text;
}

bool all_outputs(const Problem& problem) {
  return problem.out[0] && problem.out[1] && (problem.is_forward() || problem.out[2]);
}

}  // namespace

std::string to_string(const Problem& problem) {
  const Problem plain;
  const int arrays = problem.is_forward() ? 2 : 3;
  std::ostringstream text;
  text << kPasses[static_cast<int>(problem.pass)] << ':' << name_of(problem.x_dtype) << '/'
       << name_of(problem.param_dtype) << '/' << name_of(problem.y_dtype) << ':' << problem.rows
       << 'x' << problem.cols;
  if (problem.operation != plain.operation) text << ":operation=" << name_of(problem.operation);
  if (problem.stride != plain.stride) text << ":stride=" << join(problem.stride, arrays);
  if (problem.offset != plain.offset) text << ":offset=" << join(problem.offset, arrays);
  if (problem.data != plain.data) text << ":data=" << kData[static_cast<int>(problem.data)];
  if (problem.dy != plain.dy) text << ":dy=" << kGradients[static_cast<int>(problem.dy)];
  if (problem.gamma != plain.gamma) text << ":gamma=" << kGammas[static_cast<int>(problem.gamma)];
  if (problem.beta != plain.beta) text << ":beta=" << kBetas[static_cast<int>(problem.beta)];
  if (problem.eps != plain.eps) {
    text.precision(17);
    text << ":eps=" << problem.eps;
  }
  if (!all_outputs(problem)) {
    text << ":out="
         << (problem.is_forward() ? outputs_text(kForwardOutputs, problem.out)
                                  : outputs_text(kBackwardOutputs, problem.out));
  }
  if (problem.in_place != plain.in_place) {
    text << ":in_place=" << kInPlace[static_cast<int>(problem.in_place)];
  }
  if (problem.seed != plain.seed) text << ":seed=" << static_cast<std::int64_t>(problem.seed);
  return text.str();
}

bool parse(const std::string& text, Problem* problem, std::string* error) {
  *problem = Problem();
  const auto fields = split(text, ':');
  const auto fail = [&](const std::string& what) {
    *error = what + " in problem \"" + text + "\"; see tests/problem.h for the grammar";
    return false;
  };
  if (fields.size() < 3) return fail("expected pass:dtypes:ROWSxCOLS");
  if (!find_word(fields[0], kPasses, &problem->pass)) return fail("no such pass: " + fields[0]);
  if (!parse_dtypes(fields[1], problem)) return fail("bad dtypes: " + fields[1]);
  const std::size_t by = fields[2].find('x');
  if (by == std::string::npos || !parse_integer(fields[2].substr(0, by), &problem->rows) ||
      !parse_integer(fields[2].substr(by + 1), &problem->cols)) {
    return fail("bad shape: " + fields[2]);
  }
  for (std::size_t index = 3; index < fields.size(); ++index) {
    const std::size_t equals = fields[index].find('=');
    if (equals == std::string::npos ||
        !parse_option(fields[index].substr(0, equals), fields[index].substr(equals + 1), problem)) {
      return fail("bad option: " + fields[index]);
    }
  }
  return true;
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

ForwardProblem forward_problem(const Problem& problem) {
  ForwardProblem out;
  out.rows = problem.rows;
  out.cols = problem.cols;
  out.x_dtype = problem.x_dtype;
  out.y_dtype = problem.y_dtype;
  out.param_dtype = problem.param_dtype;
  out.has_gamma = problem.gamma != Gamma::none;
  out.has_beta = problem.beta != Beta::none;
  out.save_mean = problem.out[0];
  out.save_rstd = problem.out[1];
  out.eps = problem.eps;
  out.operation = problem.operation;
  out.x_row_stride = problem.stride[0];
  out.y_row_stride = problem.stride[1];
  return out;
}

BackwardProblem backward_problem(const Problem& problem) {
  BackwardProblem out;
  out.rows = problem.rows;
  out.cols = problem.cols;
  out.x_dtype = problem.x_dtype;
  out.y_dtype = problem.y_dtype;
  out.param_dtype = problem.param_dtype;
  out.source = problem.from_y() ? Source::y : Source::x;
  out.has_gamma = problem.gamma != Gamma::none;
  out.has_beta = problem.beta != Beta::none;
  out.want_dx = problem.out[0];
  out.want_dgamma = problem.out[1];
  out.want_dbeta = problem.out[2];
  out.dy_row_stride = problem.stride[0];
  out.source_row_stride = problem.stride[1];
  out.dx_row_stride = problem.stride[2];
  out.operation = problem.operation;
  return out;
}

Size size_of(const Problem& problem) {
  const std::int64_t elements = problem.rows * (problem.cols > 0 ? problem.cols : 1);
  return elements <= 1 << 13 ? Size::small : elements <= 1 << 18 ? Size::medium : Size::large;
}

Size test_scale() {
  const char* text = std::getenv("FUSEDNORM_TEST_SCALE");
  const std::string scale = text != nullptr ? text : "large";
  if (scale == "small") return Size::small;
  if (scale == "medium") return Size::medium;
  if (scale != "large") {
    std::fprintf(stderr, "FUSEDNORM_TEST_SCALE is \"%s\"; expected small, medium or large\n", text);
    std::abort();
  }
  return Size::large;
}

}  // namespace fusednorm::testing
