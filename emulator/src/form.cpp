// SPDX-License-Identifier: Apache-2.0
// The modifiers of one statement's opcode, as its decoder takes them.
#include "form.h"

namespace fusednorm::emulator {

Form::Form(const Statement& statement, FormLog* log) : statement_(statement), log_(log) {
  if (statement.opcode.size() > 60) unsupported();
  for (size_t i = 1; i < statement.opcode.size(); ++i) left_ |= 1ull << i;
  if (log_) log_->left = statement.opcode.size() - 1;
}

int Form::find(const char* modifier) const {
  for (size_t i = 1; i < statement_.opcode.size(); ++i)
    if ((left_ >> i & 1) && statement_.opcode[i] == modifier) return static_cast<int>(i);
  return -1;
}

int Form::find_type() const {
  for (size_t i = 1; i < statement_.opcode.size(); ++i)
    if ((left_ >> i & 1) && type_from_name(statement_.opcode[i]) != Type::None)
      return static_cast<int>(i);
  if (log_) log_->wants_type = true;
  return -1;
}

void Form::tick_off(int part) {
  left_ &= ~(1ull << part);
  if (log_) --log_->left;
}

bool Form::take(const char* modifier) {
  if (log_) log_->asked.insert(modifier);
  const int part = find(modifier);
  if (part >= 0) tick_off(part);
  return part >= 0;
}

int Form::take_one(std::initializer_list<const char*> modifiers) {
  int found = -1, index = 0;
  for (const char* modifier : modifiers) {
    if (log_) log_->asked.insert(modifier);
    if (found < 0 && find(modifier) >= 0) {
      tick_off(find(modifier));
      found = index;
    }
    ++index;
  }
  return found;
}

void Form::ignore_one(std::initializer_list<const char*> modifiers) {
  bool found = false;
  for (const char* modifier : modifiers) {
    if (log_) log_->advice.insert(modifier);
    if (found || find(modifier) < 0) continue;
    tick_off(find(modifier));
    if (log_) log_->taken_advice.insert(modifier);
    found = true;
  }
}

bool Form::has(const char* modifier) const {
  if (log_) log_->asked.insert(modifier);
  return find(modifier) >= 0;
}

Type Form::take_type() {
  const int part = find_type();
  if (part < 0) return Type::None;
  tick_off(part);
  return type_from_name(statement_.opcode[part]);
}

Type Form::type() const {
  const int part = find_type();
  return part < 0 ? Type::None : type_from_name(statement_.opcode[part]);
}

void Form::unsupported(const std::string& why) const {
  throw UnsupportedForm(statement_.line, "the emulator does not know the instruction '" +
                                             statement_.text() + "'" +
                                             (why.empty() ? "" : ": " + why));
}

}  // namespace fusednorm::emulator
