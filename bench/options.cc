// Reads the command line of fusednorm-bench.
#include "options.h"

#include <cstdlib>
#include <functional>
#include <map>

namespace fusednorm::bench {
namespace {

bool read_dtype(const std::string& text, DType* dtype) {
  for (const DType candidate : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    if (text == fusednorm::name_of(candidate)) {
      *dtype = candidate;
      return true;
    }
  }
  return false;
}

bool read_integer(const std::string& text, std::int64_t least, std::int64_t* value) {
  char* end = nullptr;
  *value = std::strtoll(text.c_str(), &end, 10);
  return !text.empty() && *end == '\0' && *value >= least;
}

bool read_shape(const std::string& text, Shape* shape) {
  const std::size_t cross = text.find('x');
  return cross != std::string::npos && read_integer(text.substr(0, cross), 1, &shape->rows) &&
         read_integer(text.substr(cross + 1), 1, &shape->cols);
}

}  // namespace

std::string usage() {
  return "fusednorm-bench: LayerNorm in GB/s and as a share of a copy measured in the same run.\n"
         "  --op layer_norm            the operation\n"
         "  --pass forward|backward    may be given twice; default both\n"
         "  --dtype f32|f64|f16|bf16   may be repeated; default f32\n"
         "  --param-dtype DTYPE        of gamma and beta: f32 or the dtype; default the dtype\n"
         "  --rows M --cols N          a shape; repeat both for more. --shape MxN says the same\n"
         "                             default: the list in bench/shapes.csv\n"
         "  --threads T                default: all\n"
         "  --offset ELEMENTS          moves every array off its alignment\n"
         "  --row-stride S             in elements, at least N\n"
         "  --device cpu|cuda          where to run\n"
         "  --seconds S                time to spend on each case; default 0.6\n"
         "  --json FILE                also write the results there\n";
}

std::string parse(int count, char** arguments, Options* options) {
  std::vector<std::int64_t> rows, cols;
  const auto integer = [](std::int64_t least, auto* to) {
    return [least, to](const std::string& text) -> std::string {
      std::int64_t value;
      if (!read_integer(text, least, &value))
        return "a whole number, at least " + std::to_string(least);
      *to = static_cast<std::remove_pointer_t<decltype(to)>>(value);
      return "";
    };
  };
  const auto append = [](std::vector<std::int64_t>* to) {
    return [to](const std::string& text) -> std::string {
      std::int64_t value;
      if (!read_integer(text, 1, &value)) return "a whole number, at least 1";
      to->push_back(value);
      return "";
    };
  };
  const std::map<std::string, std::function<std::string(const std::string&)>> readers = {
      {"--op", [](const std::string& t) { return t == "layer_norm" ? "" : "layer_norm"; }},
      {"--pass",
       [&](const std::string& t) {
         if (t != "forward" && t != "backward") return "forward or backward";
         options->passes.push_back(t == "forward" ? Pass::forward : Pass::backward);
         return "";
       }},
      {"--dtype",
       [&](const std::string& t) {
         DType dtype;
         if (!read_dtype(t, &dtype)) return "f64, f32, f16 or bf16";
         options->dtypes.push_back(dtype);
         return "";
       }},
      {"--param-dtype",
       [&](const std::string& t) {
         DType dtype;
         options->param_dtype = t;
         return read_dtype(t, &dtype) ? "" : "f64, f32, f16 or bf16";
       }},
      {"--rows", append(&rows)},
      {"--cols", append(&cols)},
      {"--shape",
       [&](const std::string& t) {
         Shape shape;
         if (!read_shape(t, &shape)) return "ROWSxCOLS, as in 4096x1024";
         options->shapes.push_back(shape);
         return "";
       }},
      {"--threads", integer(1, &options->threads)},
      {"--offset", integer(0, &options->offset)},
      {"--row-stride", integer(1, &options->row_stride)},
      {"--device",
       [&](const std::string& t) {
         options->device = t;
         return t == "cpu" || t == "cuda" ? "" : "cpu or cuda";
       }},
      {"--seconds",
       [&](const std::string& t) {
         options->seconds = std::atof(t.c_str());
         return options->seconds > 0 ? "" : "a number of seconds above zero";
       }},
      {"--json",
       [&](const std::string& t) {
         options->json = t;
         return "";
       }},
  };
  for (int i = 1; i < count; ++i) {
    const std::string name = arguments[i];
    if (name == "--help" || name == "-h") {
      options->help = true;
      return "";
    }
    const auto reader = readers.find(name);
    if (reader == readers.end()) return name + ": unknown option; --help lists them";
    if (i + 1 == count) return name + ": expected a value after it";
    const std::string value = arguments[++i];
    if (const std::string expected = reader->second(value); !expected.empty()) {
      return name + " " + value + ": expected " + expected;
    }
  }
  if (rows.size() != cols.size()) {
    return "--rows was given " + std::to_string(rows.size()) + " times and --cols " +
           std::to_string(cols.size()) + " times: expected as many of each";
  }
  for (std::size_t i = 0; i < rows.size(); ++i) options->shapes.push_back({rows[i], cols[i]});
  if (options->shapes.empty()) options->shapes = listed_shapes();
  if (options->passes.empty()) options->passes = {Pass::forward, Pass::backward};
  if (options->dtypes.empty()) options->dtypes = {DType::f32};
  for (const Shape& shape : options->shapes) {
    if (options->row_stride != 0 && options->row_stride < shape.cols) {
      return "--row-stride " + std::to_string(options->row_stride) + ": expected at least " +
             std::to_string(shape.cols) + " columns";
    }
  }
  return "";
}

}  // namespace fusednorm::bench
