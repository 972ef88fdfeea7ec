// SPDX-License-Identifier: Apache-2.0
// What a sentence of an error says.
#pragma once

#include <cctype>
#include <string>

namespace fusednorm::testing {

/// True when `word` stands in `text` on its own: "x" is not in "expected".
inline bool mentions(const std::string& text, const std::string& word) {
  const auto part_of_a_word = [&](std::size_t at) {
    return at < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_');
  };
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    if ((at == 0 || !part_of_a_word(at - 1)) && !part_of_a_word(at + word.size())) {
      return true;
    }
  }
  return false;
}

}  // namespace fusednorm::testing
