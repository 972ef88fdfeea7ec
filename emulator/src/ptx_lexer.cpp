// SPDX-License-Identifier: Apache-2.0
// Splits PTX text into tokens, comments left out.
#include "ptx_lexer.h"

#include <cctype>

#include "ptx.h"

namespace fusednorm::emulator {
namespace {

bool starts_word(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '%' || c == '$' || c == '_' ||
         c == '.';
}

bool continues_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '$' || c == '_' || c == '.';
}

}  // namespace

std::vector<Token> tokenize_ptx(std::string_view text) {
  std::vector<Token> tokens;
  tokens.reserve(text.size() / 4);
  int line = 1;
  size_t at = 0;
  auto push = [&](Token::Kind kind, size_t begin, size_t end) {
    tokens.push_back({kind, line, text.substr(begin, end - begin)});
  };
  while (at < text.size()) {
    const char c = text[at];
    if (c == '\n') {
      ++line;
      ++at;
    } else if (c == '\0') {
      break;  // a fat binary pads the text with zeros
    } else if (std::isspace(static_cast<unsigned char>(c))) {
      ++at;
    } else if (text.compare(at, 2, "//") == 0) {
      while (at < text.size() && text[at] != '\n') ++at;
    } else if (text.compare(at, 2, "/*") == 0) {
      const size_t end = text.find("*/", at + 2);
      if (end == std::string_view::npos) throw PtxError(line, "a comment is not closed");
      for (; at < end + 2; ++at) line += text[at] == '\n';
    } else if (c == '"') {
      size_t end = at + 1;
      while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
      if (end >= text.size()) throw PtxError(line, "a string is not closed");
      push(Token::Kind::String, at + 1, end);
      at = end + 1;
    } else if (starts_word(c)) {
      size_t end = at + 1;
      for (;;) {
        while (end < text.size() && continues_word(text[end])) ++end;
        // "shared::cta" and "L2::128B" are one word; "label:" is not.
        if (text.compare(end, 2, "::") == 0 && end + 2 < text.size() &&
            continues_word(text[end + 2])) {
          end += 3;
        } else {
          break;
        }
      }
      push(Token::Kind::Word, at, end);
      at = end;
    } else if (std::isdigit(static_cast<unsigned char>(c))) {
      size_t end = at + 1;
      while (end < text.size() &&
             (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '.'))
        ++end;
      push(Token::Kind::Number, at, end);
      at = end;
    } else if (std::string_view("{}[]()<>,;:+-*|!=@~^&?/").find(c) != std::string_view::npos) {
      push(Token::Kind::Punctuation, at, at + 1);
      ++at;
    } else {
      throw PtxError(line, std::string("unexpected character '") + c + "'");
    }
  }
  tokens.push_back({Token::Kind::End, line, {}});
  return tokens;
}

}  // namespace fusednorm::emulator
