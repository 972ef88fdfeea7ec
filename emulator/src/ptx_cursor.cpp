// SPDX-License-Identifier: Apache-2.0
// A place in the tokens of a PTX text: looking ahead, names and numbers.
#include "ptx_cursor.h"

#include <cstdlib>

namespace fusednorm::emulator {

const Token& Cursor::peek(int ahead) const {
  const size_t index = at_ + static_cast<size_t>(ahead);
  return tokens_[index < tokens_.size() ? index : tokens_.size() - 1];
}

const Token& Cursor::next() {
  return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_];
}

bool Cursor::accept(std::string_view text) {
  if (!peek().is(text)) return false;
  next();
  return true;
}

void Cursor::expect(std::string_view text) {
  if (!accept(text))
    fail("expected '" + std::string(text) + "' but found '" + std::string(peek().text) + "'");
}

void Cursor::skip_past(std::string_view text) {
  while (!accept(text)) {
    if (at_end()) fail("expected '" + std::string(text) + "' but the text ends");
    next();
  }
}

void Cursor::fail(const std::string& what) const {
  throw PtxError(peek().line, what);
}

std::string Cursor::word() {
  if (peek().kind != Token::Kind::Word)
    fail("expected a name but found '" + std::string(peek().text) + "'");
  return std::string(next().text);
}

int64_t Cursor::integer() {
  const bool minus = accept("-");
  if (peek().kind != Token::Kind::Number)
    fail("expected a number but found '" + std::string(peek().text) + "'");
  std::string digits(next().text);
  const uint64_t value =
      digits.size() > 2 && digits[0] == '0' && (digits[1] == 'b' || digits[1] == 'B')
          ? std::strtoull(digits.c_str() + 2, nullptr, 2)
          : std::strtoull(digits.c_str(), nullptr, 0);
  return static_cast<int64_t>(minus ? 0 - value : value);
}

Operand Cursor::number() {
  Operand out;
  const bool minus = accept("-");
  const std::string_view text = peek().text;
  if (text.size() > 2 && text[0] == '0' &&
      (text[1] == 'f' || text[1] == 'F' || text[1] == 'd' || text[1] == 'D')) {
    out.kind = Operand::Kind::Float;
    out.is_double = text[1] == 'd' || text[1] == 'D';
    if (text.size() != (out.is_double ? 18u : 10u))
      fail("malformed floating-point constant '" + std::string(text) + "'");
    out.value =
        static_cast<int64_t>(std::strtoull(std::string(text.substr(2)).c_str(), nullptr, 16));
    if (minus) out.value ^= out.is_double ? INT64_MIN : int64_t{1} << 31;
    next();
    return out;
  }
  out.kind = Operand::Kind::Integer;
  out.value = minus ? -integer() : integer();
  return out;
}

}  // namespace fusednorm::emulator
