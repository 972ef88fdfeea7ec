// SPDX-License-Identifier: Apache-2.0
// Reads the command line of fusednorm-bench. --pass, --dtype, --shape and their like are put
// together as texts of the problem grammar, which alone says what is a problem.
#include "options.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>

#include "fusednorm/cpu.h"
#include "problems/shapes.h"

namespace fusednorm::bench {
namespace {

/// The words of --pass, --dtype and so on, as given.
struct Words {
  std::vector<std::string> passes, dtypes, shapes, rows, cols;
  std::string param_dtype, residual_dtype;
  bool residual = false;  ///< --op add_…
  std::string options;    ///< ":offset=1" and its like
};

std::vector<std::string> texts_of(Words words) {
  for (std::size_t i = 0; i < words.rows.size(); ++i) {
    words.shapes.push_back(words.rows[i] + "x" + words.cols[i]);
  }
  if (words.shapes.empty()) {
    for (const auto& shape : problems::listed_shapes("bench")) words.shapes.push_back(shape.name);
  }
  if (words.passes.empty()) words.passes = {"forward", "backward"};
  if (words.dtypes.empty()) words.dtypes = {"f32"};
  const std::string param = words.param_dtype.empty() ? "" : "/" + words.param_dtype;
  std::vector<std::string> texts;
  for (const std::string& dtype : words.dtypes) {
    for (const std::string& pass : words.passes) {
      for (const std::string& shape : words.shapes) {
        std::string text = pass;
        text.append(":").append(dtype).append(param).append(":").append(shape);
        if (words.residual) {
          const bool given = !words.residual_dtype.empty();
          text.append(":residual=").append(given ? words.residual_dtype : dtype);
        }
        texts.push_back(text + words.options);
      }
    }
  }
  return texts;
}

/// Takes an option's value; returns what was expected instead, or nothing.
using Reader = std::function<std::string(const std::string&)>;

std::map<std::string, Reader> readers_of(Words* words, Options* options) {
  const auto append = [](std::vector<std::string>* to) -> Reader {
    return [to](const std::string& text) { return to->push_back(text), ""; };
  };
  const auto word = [=](const std::string& key) -> Reader {
    return [words, key](const std::string& text) {
      return words->options += ":" + key + "=" + text, "";
    };
  };
  return {
      {"--pass", append(&words->passes)},
      {"--dtype", append(&words->dtypes)},
      {"--param-dtype", [=](const std::string& t) { return words->param_dtype = t, ""; }},
      {"--shape", append(&words->shapes)},
      {"--rows", append(&words->rows)},
      {"--cols", append(&words->cols)},
      {"--offset", word("offset")},
      {"--row-stride", word("stride")},
      {"--op",
       [=](const std::string& t) {
         words->residual = t.rfind("add_", 0) == 0;
         const std::string norm = words->residual ? t.substr(4) : t;
         words->options += ":op=" + norm;
         return norm == "layer_norm" || norm == "rms_norm"
                    ? ""
                    : "layer_norm, rms_norm, add_layer_norm or add_rms_norm";
       }},
      {"--residual-dtype", [=](const std::string& t) { return words->residual_dtype = t, ""; }},
      {"--threads",
       [=](const std::string& t) {
         options->threads = std::atoi(t.c_str());
         return options->threads > 0 ? "" : "a whole number, at least 1";
       }},
      {"--device",
       [=](const std::string& t) {
         options->device = t;
         return t == "cpu" || t == "cuda" ? "" : "cpu or cuda";
       }},
      {"--instruction-set",
       [=](const std::string& t) {
         std::string names;
         for (const cpu::InstructionSet& set : cpu::instruction_sets()) {
           if (set.name() == t) return options->instruction_set = t, std::string();
           names += (names.empty() ? "" : ", ") + set.name();
         }
         return "one that this build and machine have: " + names;
       }},
      {"--in-turns",
       [=](const std::string& t) {
         options->in_turns = t == "yes";
         return t == "yes" || t == "no" ? "" : "yes or no";
       }},
      {"--seconds",
       [=](const std::string& t) {
         options->seconds = std::atof(t.c_str());
         return options->seconds > 0 ? "" : "a number of seconds above zero";
       }},
      {"--json", [=](const std::string& t) { return options->json = t, ""; }},
  };
}

/// Empty, or a mistake that no option shows by itself. `texts` are the problems that were given;
/// `spelled` says whether --pass or its like were.
std::string mistake_of(const Words& words, const Options& options,
                       const std::vector<std::string>& texts, bool spelled) {
  if (options.device == "cuda" && (options.in_turns || !options.instruction_set.empty())) {
    return "--in-turns, --instruction-set: expected --device cpu";
  }
  if (words.rows.size() != words.cols.size()) {
    return "--rows was given " + std::to_string(words.rows.size()) + " times and --cols " +
           std::to_string(words.cols.size()) + " times: expected as many of each";
  }
  if (!words.residual && !words.residual_dtype.empty()) {
    return "--residual-dtype " + words.residual_dtype +
           ": expected --op add_layer_norm or --op add_rms_norm beside it";
  }
  if (spelled && !texts.empty()) {
    return texts[0] + ": expected problems, or --pass and its like, not both";
  }
  return "";
}

}  // namespace

std::string usage() {
  return "fusednorm-bench [options] [PROBLEM …]: a norm in GB/s and as a share of a copy measured\n"
         "in the same run.\n"
         "  PROBLEM                    as in backward:bf16/f32:8192x1024:offset=1; the grammar is\n"
         "                             in problems/problem.h. These spell problems, too:\n"
         "  --pass PASS                may be repeated; default forward and backward\n"
         "  --dtype DTYPE              f64, f32, f16 or bf16; may be repeated; default f32\n"
         "  --param-dtype DTYPE        of gamma and beta: f32 or the dtype; default the dtype\n"
         "  --shape ROWSxCOLS|NAME     may be repeated; default: problems/shapes.csv\n"
         "  --rows M --cols N          the same; repeat both for more\n"
         "  --offset ELEMENTS          moves every array off its alignment\n"
         "  --row-stride S             in elements, at least N\n"
         "  --op OPERATION             layer_norm, rms_norm, add_layer_norm or add_rms_norm, "
         "which\n"
         "                             add a residual; default layer_norm\n"
         "  --residual-dtype DTYPE     of the residual: f32 or the dtype; default the dtype\n"
         "and how to measure them:\n"
         "  --threads T                default: all\n"
         "  --device cpu|cuda          where to run\n"
         "  --instruction-set NAME     of the CPU, AVX2 say; default the best that it has\n"
         "  --in-turns yes|no          a round of each problem in turns, for ratios between them;\n"
         "                             default no: problem after problem\n"
         "  --seconds S                time to spend on each problem; default 0.6\n"
         "  --json FILE                also write the results there\n";
}

std::string parse(int count, char** arguments, Options* options) {
  Words words;
  std::vector<std::string> texts;
  const auto readers = readers_of(&words, options);
  bool spelled = false;  // by --pass and its like
  for (int i = 1; i < count; ++i) {
    const std::string name = arguments[i];
    if (name == "--help" || name == "-h") {
      options->help = true;
      return "";
    }
    if (name.rfind("--", 0) != 0) {
      texts.push_back(name);
      continue;
    }
    const auto reader = readers.find(name);
    if (reader == readers.end()) return name + ": unknown option; --help lists them";
    if (i + 1 == count) return name + ": expected a value after it";
    const std::string value = arguments[++i];
    if (const std::string expected = reader->second(value); !expected.empty()) {
      return name + " " + value + ": expected " + expected;
    }
    const char* const how[] = {"--threads",  "--device",  "--instruction-set",
                               "--in-turns", "--seconds", "--json"};
    spelled = spelled || std::find(std::begin(how), std::end(how), name) == std::end(how);
  }
  if (std::string mistake = mistake_of(words, *options, texts, spelled); !mistake.empty())
    return mistake;
  if (texts.empty()) texts = texts_of(words);
  for (const std::string& text : texts) {
    problems::Problem problem;
    std::string error;
    if (!problems::parse(text, &problem, &error)) return error;
    if (error = not_measured(problem, "fusednorm-bench"); !error.empty()) return error;
    options->problems.push_back(problem);
  }
  return "";
}

}  // namespace fusednorm::bench
