// SPDX-License-Identifier: Apache-2.0
// Every instruction form that the emulator knows, one at a time, against the same thing done in
// host C++; and that none of them is left out.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "forms.h"
#include "fusednorm_emulator.h"
#include "ptx_module.h"

namespace {

using Family = std::vector<Form> (*)();
using WarpFamily = std::vector<WarpForm> (*)();
constexpr Family kFamilies[] = {integer_forms, bit_forms,     float_forms, half_forms,
                                compare_forms, convert_forms, move_forms};
constexpr WarpFamily kWarpFamilies[] = {load_forms, store_forms, atomic_forms, warp_forms,
                                        async_forms};

template <class Forms>
void check_all(const Forms& forms) {
  ASSERT_FALSE(forms.empty());
  for (const auto& form : forms) check(form);
}
TEST(Instructions, Integers) {
  check_all(integer_forms());
}
TEST(Instructions, BitOperations) {
  check_all(bit_forms());
}
TEST(Instructions, Floats) {
  check_all(float_forms());
}
TEST(Instructions, Halves) {
  check_all(half_forms());
}
TEST(Instructions, Comparisons) {
  check_all(compare_forms());
}
TEST(Instructions, Conversions) {
  check_all(convert_forms());
}
TEST(Instructions, Moves) {
  check_all(move_forms());
}
TEST(Instructions, Loads) {
  check_all(load_forms());
}
TEST(Instructions, Stores) {
  check_all(store_forms());
}
TEST(Instructions, Atomics) {
  check_all(atomic_forms());
}
TEST(Instructions, WarpsAndBlocks) {
  check_all(warp_forms());
}

TEST(Instructions, AsynchronousCopies) {
  check_all(async_forms());
}

const char* const kTrap =
    ".version 8.7\n.target sm_75\n.address_size 64\n.visible .entry form()\n{\ntrap;\nret;\n}\n";
TEST(Instructions, Trap) {
  fusednorm_emulator_set_print_reports(0);
  PtxModule module(kTrap);
  ASSERT_EQ(module.launch("form", 1, 1, {}), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_NE(std::string(fusednorm_emulator_last_report()).find("trap"), std::string::npos);
  fusednorm_emulator_reset_errors();
  fusednorm_emulator_set_print_reports(1);
}

// The opcodes of the statements in a piece of PTX, modifiers and all.
std::vector<std::string> opcodes_of(const std::string& text) {
  std::vector<std::string> out;
  std::string statement;
  std::istringstream statements(text);
  while (std::getline(statements, statement, ';')) {
    std::istringstream words(statement);
    std::string word;
    // Guards, labels and braces come before the opcode; directives are none.
    while (words >> word)
      if (word != "{" && word != "}" && word[0] != '@' && word.back() != ':') break;
    if (!word.empty() && std::isalpha(static_cast<unsigned char>(word[0])) && word.back() != ':')
      out.push_back(word);
  }
  return out;
}

std::set<std::string> lines_of(const char* text) {
  std::set<std::string> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out.insert(line);
  return out;
}

// In the code around a load or a shuffle, arithmetic is a tool and not under test.
bool is_under_test(const std::string& opcode) {
  static const std::set<std::string> kTools = {"add", "sub", "mul",  "mad",  "mov",  "cvt",
                                               "shl", "shr", "and",  "or",   "xor",  "setp",
                                               "not", "min", "selp", "popc", "cvta", "rem"};
  return !kTools.count(opcode.substr(0, opcode.find('.')));
}

TEST(Instructions, EveryFormIsTested) {
  std::set<std::string> tested = lines_of(fusednorm_emulator_forms_of("trap"));
  auto add = [&](const std::string& opcode) {
    for (const std::string& form : lines_of(fusednorm_emulator_forms_of(opcode.c_str())))
      tested.insert(form);
  };
  for (Family family : kFamilies)
    for (const Form& form : family())
      for (const std::string& opcode : opcodes_of(form.text)) add(opcode);
  for (WarpFamily family : kWarpFamilies)
    for (const WarpForm& form : family())
      for (const std::string& opcode : opcodes_of(form.body))
        if (is_under_test(opcode)) add(opcode);
  const std::set<std::string> known = lines_of(fusednorm_emulator_forms());
  EXPECT_GT(known.size(), 5000u);
  std::string missing;
  int count = 0;
  for (const std::string& form : known)
    if (!tested.count(form) && ++count <= 200) missing += "  " + form + "\n";
  EXPECT_EQ(count, 0) << "forms the decoder accepts that no test executes:\n" << missing;
}

}  // namespace
