// SPDX-License-Identifier: Apache-2.0
// Parses PTX text (one module) into declarations and statements; knows the grammar, not the
// opcodes. Variables are in ptx_variables.cpp, bodies of functions in ptx_body.cpp.
#include "ptx_cursor.h"

namespace fusednorm::emulator {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : c_(text) {}

  Module parse() {
    while (!c_.at_end()) parse_top_level();
    if (module_.version.empty()) c_.fail("no .version directive: this is not a PTX module");
    return std::move(module_);
  }

 private:
  void parse_top_level() {
    const Token& token = c_.peek();
    if (token.is(".version")) {
      c_.next();
      module_.version = std::string(c_.next().text);
    } else if (token.is(".target")) {
      c_.next();
      module_.target = c_.word();
      while (c_.accept(",")) c_.word();
    } else if (token.is(".address_size")) {
      c_.next();
      if (c_.integer() != 64) c_.fail("only 64-bit PTX is supported");
    } else if (token.is(".file")) {
      parse_file(c_, module_);
    } else if (token.is(".loc")) {
      parse_location(c_, module_);
    } else if (token.is(".section")) {
      while (!c_.peek().is("{") && !c_.at_end()) c_.next();
      skip_braces();
    } else if (token.is(".pragma")) {
      c_.skip_past(";");
    } else {
      parse_declaration();
    }
  }

  void skip_braces() {
    int depth = 0;
    do {
      if (c_.peek().kind == Token::Kind::End) c_.fail("a '{' is not closed");
      if (c_.peek().is("{")) ++depth;
      if (c_.peek().is("}")) --depth;
      c_.next();
    } while (depth > 0);
  }

  void parse_declaration() {
    bool is_extern = false;
    for (;;) {
      if (c_.accept(".visible") || c_.accept(".weak") || c_.accept(".common")) continue;
      if (c_.accept(".extern")) {
        is_extern = true;
        continue;
      }
      break;
    }
    if (c_.accept(".entry")) {
      parse_function(true);
    } else if (c_.accept(".func")) {
      parse_function(false);
    } else if (space_ahead(c_)) {
      for (Variable& variable : parse_variables(c_, is_extern))
        module_.variables.push_back(std::move(variable));
    } else {
      c_.fail("unexpected '" + std::string(c_.peek().text) + "'");
    }
  }

  void parse_function(bool is_entry) {
    Function function;
    function.is_entry = is_entry;
    function.line = c_.peek().line;
    if (!is_entry && c_.accept("(")) parse_parameters(c_, function.results);
    function.name = c_.word();
    if (c_.accept("(")) parse_parameters(c_, function.parameters);
    for (;;) {
      if (c_.accept(".maxntid")) {
        uint32_t size[3] = {1, 1, 1};
        triple(size);
        function.max_threads = size[0] * size[1] * size[2];
      } else if (c_.accept(".reqntid")) {
        triple(function.required_threads);
      } else if (c_.accept(".minnctapersm")) {
        function.min_blocks = static_cast<uint32_t>(c_.integer());
      } else if (c_.accept(".maxnreg")) {
        function.max_registers = static_cast<uint32_t>(c_.integer());
      } else if (c_.accept(".reqnctapercluster")) {
        triple(function.required_cluster);
      } else if (c_.accept(".maxclusterrank")) {
        function.max_cluster_rank = static_cast<uint32_t>(c_.integer());
      } else if (c_.accept(".explicitcluster") || c_.accept(".noreturn") ||
                 c_.accept(".blocksareclusters")) {
      } else if (c_.accept(".attribute")) {
        c_.skip_past(")");
      } else if (c_.accept(".pragma")) {
        c_.skip_past(";");
      } else {
        break;
      }
    }
    function.is_declaration = c_.accept(";");
    if (!function.is_declaration) parse_body(c_, module_, function);
    const auto known = module_.functions.find(function.name);
    if (known == module_.functions.end() || known->second.is_declaration)
      module_.functions[function.name] = std::move(function);
  }

  void triple(uint32_t out[3]) {
    for (int i = 0; i < 3; ++i) out[i] = 1;
    int i = 0;
    do {
      if (i == 3) c_.fail("more than three dimensions");
      out[i++] = static_cast<uint32_t>(c_.integer());
    } while (c_.accept(","));
  }

  Cursor c_;
  Module module_;
};

}  // namespace

Module parse_ptx(std::string_view text) {
  return Parser(text).parse();
}

}  // namespace fusednorm::emulator
