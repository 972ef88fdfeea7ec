// SPDX-License-Identifier: Apache-2.0
// Lists the instruction forms that the decoder accepts. It asks the decoder itself: a statement of
// the bare opcode shows which modifiers and types the decoder looks for; each of them is added, and
// so on.
#include "survey.h"

#include <algorithm>
#include <deque>

#include "../include/fusednorm_emulator.h"
#include "decoder.h"

namespace fusednorm::emulator {
namespace {

constexpr const char* kTypes[] = {"pred", "b8",    "b16",  "b32",    "b64", "b128",  "u8",
                                  "u16",  "u32",   "u64",  "s8",     "s16", "s32",   "s64",
                                  "f16",  "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64"};

std::vector<std::string> split(const std::string& instruction) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= instruction.size();) {
    const size_t end = std::min(instruction.find('.', begin), instruction.size());
    parts.push_back(instruction.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

struct Survey {
  bool accepted = false;
  FormLog log;
};

Survey ask(const std::vector<std::string>& parts) {
  static const Module module;
  static const Function function = [] {
    Function empty;
    empty.scope_parent = {-1};
    return empty;
  }();
  const SymbolResolver resolve = [](const std::string&) { return uint64_t{0}; };
  Statement statement;
  statement.opcode = parts;
  Survey survey;
  try {
    Decoder(module, function, resolve).survey(statement, survey.log);
    survey.accepted = true;
  } catch (const UnsupportedForm&) {
  } catch (const PtxError&) {
    // The form was understood; what is missing are its operands.
    survey.accepted = survey.log.left == 0;
  }
  return survey;
}

std::string key_of(const std::vector<std::string>& parts, const FormLog& log) {
  std::vector<std::string> modifiers;
  std::string types;
  for (size_t k = 1; k < parts.size(); ++k) {
    if (log.taken_advice.count(parts[k])) continue;
    if (type_from_name(parts[k]) != Type::None) {
      types += " " + parts[k];
    } else {
      modifiers.push_back(parts[k]);
    }
  }
  std::sort(modifiers.begin(), modifiers.end());
  std::string key = parts[0];
  for (const std::string& modifier : modifiers) key += " " + modifier;
  return key + types;
}

std::vector<std::string> with(std::vector<std::string> parts, const std::string& more) {
  parts.push_back(more);
  return parts;
}

}  // namespace

std::set<std::string> forms_of(const std::string& instruction) {
  const std::vector<std::string> parts = split(instruction);
  const Survey survey = ask(parts);
  std::set<std::string> out;
  if (!survey.accepted) return out;
  out.insert(key_of(parts, survey.log));
  for (const std::string& advice : survey.log.taken_advice) out.insert(parts[0] + " ~" + advice);
  return out;
}

std::set<std::string> accepted_forms() {
  std::set<std::string> out, seen;
  std::deque<std::vector<std::string>> todo;
  for (const auto& [opcode, decode] : opcode_table()) todo.push_back({opcode});
  for (const char* opcode : {"bra", "brx", "call", "ret", "exit"}) todo.push_back({opcode});
  while (!todo.empty()) {
    const std::vector<std::string> parts = std::move(todo.front());
    todo.pop_front();
    const Survey survey = ask(parts);
    if (survey.accepted) {
      out.insert(key_of(parts, survey.log));
      for (const std::string& advice : survey.log.advice) out.insert(parts[0] + " ~" + advice);
    }
    // Modifiers already excluded by another stay excluded whatever is added.
    if (survey.log.left > 0) continue;
    auto add = [&](std::vector<std::string> longer) {
      if (seen.insert(key_of(longer, {})).second) todo.push_back(std::move(longer));
    };
    for (const std::string& modifier : survey.log.asked)
      if (std::find(parts.begin() + 1, parts.end(), modifier) == parts.end())
        add(with(parts, modifier));
    if (survey.log.wants_type)
      for (const char* type : kTypes) add(with(parts, type));
  }
  return out;
}

}  // namespace fusednorm::emulator

namespace {
const char* as_lines(const std::set<std::string>& forms) {
  static thread_local std::string text;
  text.clear();
  for (const std::string& form : forms) text += form + "\n";
  return text.c_str();
}
}  // namespace

extern "C" {
const char* fusednorm_emulator_forms(void) {
  return as_lines(fusednorm::emulator::accepted_forms());
}
const char* fusednorm_emulator_forms_of(const char* instruction) {
  return as_lines(fusednorm::emulator::forms_of(instruction));
}
}
