// SPDX-License-Identifier: Apache-2.0
// The text of a PTX module as data: what the parser hands to the decoder.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace fusednorm::emulator {

enum class Type : uint8_t {
  None,
  Pred,
  B8,
  B16,
  B32,
  B64,
  B128,
  U8,
  U16,
  U32,
  U64,
  S8,
  S16,
  S32,
  S64,
  F16,
  F16X2,
  BF16,
  BF16X2,
  F32,
  F32X2,
  F64
};
int byte_size(Type type);                    // 0 for Pred and None
Type type_from_name(std::string_view name);  // without the dot; None if it is not a type

enum class Space : uint8_t { Generic, Param, Const, Global, Shared, Local };

// A .loc directive; `parent` is the place an inlined function was inlined at.
struct SourceLocation {
  int file = 0;
  int line = 0;
  int parent = -1;
};

struct Operand {
  enum class Kind : uint8_t { Register, Integer, Float, Name, Memory, List, Sink };
  Kind kind = Kind::Sink;
  bool negated = false;    // !%p
  int reg = -1;            // Register; Memory: base register or -1
  int second_reg = -1;     // the %p of %r|%p
  int64_t value = 0;       // Integer; Float: bits; Memory and Name: byte offset
  bool is_double = false;  // Float: 0d.. rather than 0f..
  std::string name;        // Name (symbol, label, special register); Memory: base symbol
  std::vector<Operand> list;
};

struct Statement {
  int line = 0;       // in the PTX text
  int location = -1;  // index into Module::locations
  int scope = 0;      // for labels
  int guard = -1;     // predicate register or -1
  bool guard_negated = false;
  std::vector<std::string> opcode;  // "ld", "global", "v4", "f32"
  std::vector<Operand> operands;
  std::string text() const;  // the opcode, dots and all
};

struct Variable {
  std::string name;
  Space space = Space::Global;
  Type type = Type::B8;
  uint32_t align = 1;
  uint64_t bytes = 0;
  bool is_extern = false;
  std::vector<uint8_t> initial;  // empty: zeros
  struct Address {
    uint64_t offset;
    std::string symbol;
    int64_t addend;
  };
  std::vector<Address> addresses;  // pointers inside `initial`
};

struct Label {
  std::string name;
  int scope;
  int statement;
};

struct Function {
  std::string name;
  bool is_entry = false;
  bool is_declaration = false;
  int line = 0;
  std::vector<Variable> parameters, results;
  std::vector<Variable> variables;  // .shared, .local, .param inside the body, names made unique
  std::vector<Type> registers;
  std::vector<std::string> register_names;
  std::vector<Statement> body;
  std::vector<Label> labels;
  std::map<std::pair<int, std::string>, std::vector<std::string>> branch_targets;
  std::vector<int> scope_parent;
  uint32_t max_threads = 0;  // .maxntid, product
  uint32_t required_threads[3] = {0, 0, 0};
  uint32_t required_cluster[3] = {0, 0, 0};
  uint32_t max_cluster_rank = 0;
  uint32_t min_blocks = 0;
  uint32_t max_registers = 0;

  int find_label(int scope, const std::string& label) const;  // -1 if there is none
};

struct Module {
  std::string version, target;
  std::vector<Variable> variables;
  std::map<std::string, Function> functions;
  std::map<int, std::string> files;
  std::vector<SourceLocation> locations;

  std::string describe_location(int location) const;  // "file:line", inlining included
};

// What is wrong with a PTX text, and on which line.
struct PtxError : std::runtime_error {
  PtxError(int line, const std::string& what);
  int line;
};

Module parse_ptx(std::string_view text);

}  // namespace fusednorm::emulator
