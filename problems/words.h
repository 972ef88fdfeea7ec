// SPDX-License-Identifier: Apache-2.0
// What the problem grammar does with words: splits and joins them, finds one in a list, reads and
// prints numbers.
#pragma once

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

namespace fusednorm::problems {

inline std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

template <typename Words>
std::string join(const Words& words, const std::string& separator) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : separator) + std::string(word);
  return text;
}

template <typename Words>
std::string one_of(const Words& words) {
  return "one of " + join(words, ", ");
}

template <typename Enumeration, typename Words>
bool find_word(const std::string& word, const Words& words, Enumeration* value) {
  for (std::size_t index = 0; index < std::size(words); ++index) {
    if (word == words[index]) {
      *value = static_cast<Enumeration>(index);
      return true;
    }
  }
  return false;
}

/// Digits alone: no sign, no space, nothing behind them.
template <typename Integer>
bool parse_integer(const std::string& text, Integer* value) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos) return false;
  return std::from_chars(text.data(), text.data() + text.size(), *value).ec == std::errc();
}

/// As few digits as give the same number back.
inline std::string shortest(double value) {
  char text[32];
  for (int digits = 6; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  return text;
}

}  // namespace fusednorm::problems
