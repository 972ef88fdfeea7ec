// SPDX-License-Identifier: Apache-2.0
// The modifiers of one statement's opcode, as its decoder takes them.
#pragma once

#include <initializer_list>
#include <set>
#include <string>
#include <vector>

#include "ptx.h"

namespace fusednorm::emulator {

// What a decoder asked of a form; from this the forms it accepts can be listed (survey.cpp).
struct FormLog {
  std::set<std::string> asked;   // modifiers that make a difference
  std::set<std::string> advice;  // modifiers that make none
  std::set<std::string> taken_advice;
  bool wants_type = false;  // a type was asked for and there was none
  size_t left = 0;          // modifiers nobody has taken yet
};

// A form the emulator does not know, as opposed to a known one with wrong operands.
struct UnsupportedForm : PtxError {
  using PtxError::PtxError;
};

// The modifiers are ticked off one by one; what is left over at the end is unsupported.
class Form {
 public:
  explicit Form(const Statement& statement, FormLog* log = nullptr);
  const std::string& opcode() const { return statement_.opcode[0]; }
  const Statement& statement() const { return statement_; }

  bool take(const char* modifier);
  // Which of these is there (at most one is taken), -1 for none.
  int take_one(std::initializer_list<const char*> modifiers);
  // Advice to caches and the like: at most one of these, and it changes nothing here.
  void ignore_one(std::initializer_list<const char*> modifiers);
  bool has(const char* modifier) const;
  Type take_type();   // the next type from the left, None if there is none
  Type type() const;  // the same, but left there
  bool all_taken() const { return left_ == 0; }
  [[noreturn]] void unsupported(const std::string& why = "") const;

 private:
  int find(const char* modifier) const;
  int find_type() const;
  void tick_off(int part);

  const Statement& statement_;
  FormLog* log_;
  uint64_t left_ = 0;  // bit i: opcode part i is not taken
};

}  // namespace fusednorm::emulator
