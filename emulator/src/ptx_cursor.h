// SPDX-License-Identifier: Apache-2.0
// A place in the tokens of a PTX text, and what parsers of its parts share.
#pragma once

#include <map>

#include "ptx.h"
#include "ptx_lexer.h"

namespace fusednorm::emulator {

class Cursor {
 public:
  explicit Cursor(std::string_view text) : tokens_(tokenize_ptx(text)) {}
  const Token& peek(int ahead = 0) const;
  const Token& next();
  bool at_end() const { return peek().kind == Token::Kind::End; }
  bool accept(std::string_view text);
  void expect(std::string_view text);
  std::string word();
  int64_t integer();
  Operand number();                       // integer or floating-point
  void skip_past(std::string_view text);  // an error if it never comes
  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

// ---- ptx_variables.cpp
bool space_ahead(const Cursor& cursor);
// .space [.align n] [.attribute(..)] .type name[dims] [= initial], ...;   (the ';' included)
std::vector<Variable> parse_variables(Cursor& cursor, bool is_extern);
void parse_parameters(Cursor& cursor, std::vector<Variable>& out);  // up to the ')'

// ---- ptx_body.cpp: where a statement comes from, and a function's statements up to the '}'.
void parse_file(Cursor& cursor, Module& module);
int parse_location(Cursor& cursor, Module& module);  // its index in Module::locations
void parse_body(Cursor& cursor, Module& module, Function& function);

}  // namespace fusednorm::emulator
