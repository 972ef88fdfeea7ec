// SPDX-License-Identifier: Apache-2.0
// Splits PTX text into tokens, comments left out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fusednorm::emulator {

struct Token {
  enum class Kind : unsigned char { Word, Number, String, Punctuation, End };
  Kind kind = Kind::End;
  int line = 0;
  std::string_view text;
  bool is(std::string_view other) const { return text == other && kind != Kind::String; }
};

std::vector<Token> tokenize_ptx(std::string_view text);

}  // namespace fusednorm::emulator
