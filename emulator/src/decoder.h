// SPDX-License-Identifier: Apache-2.0
// Turns statements into Instructions: operand slots, and one function a family of opcodes.
#pragma once

#include <map>
#include <string>

#include "form.h"
#include "order.h"
#include "program.h"

namespace fusednorm::emulator {

// Storage of a .param variable between a call and its callee: words of 32 lanes.
struct ParamSlot {
  uint32_t offset = 0;
  uint32_t bytes = 0;
};

class Decoder {
 public:
  Decoder(const Module& module, const Function& kernel, const SymbolResolver& resolve,
          uint32_t shared_base = 0);
  Program run();
  // Decodes one statement by itself, and tells what was asked of its form.
  void survey(const Statement& statement, FormLog& log);

  // ---- operands; `statement` is the one being decoded
  const Operand& operand(size_t index) const;
  size_t operand_count() const;
  uint32_t destination(const Operand& operand, Type type);  // a register of exactly this size
  uint32_t source(const Operand& operand,
                  Type type);  // register, constant, special register or address
  uint32_t source_any(const Operand& operand, int& register_bytes,
                      Type type);  // register may be wider
  uint32_t destination_any(const Operand& operand, int& register_bytes, int at_least);
  uint32_t predicate_destination(const Operand& operand);
  uint32_t predicate_source(const Operand& operand, bool& negated);
  uint32_t register_offset(int reg) const;
  Type register_type(int reg) const;
  uint32_t scratch(int bytes);
  uint32_t carry_predicate();  // the carry flags of the lanes
  uint32_t constant(uint64_t bits, int bytes, uint64_t high = 0);
  // [base+offset]: fills a (or kNone for an absolute address) and immediate.
  void address(const Operand& operand, Instruction& out);
  bool symbol_address(const std::string& name, uint64_t& address, Space& space);
  const ParamSlot* param_slot(const std::string& name) const;
  bool kernel_parameter(const std::string& name, uint32_t& offset) const;
  [[noreturn]] void fail(const std::string& what) const;

 private:
  struct Frame {
    const Function* function;
    std::vector<uint32_t> registers;
    std::map<std::string, uint32_t> locals;
    std::map<std::string, ParamSlot> params;
    std::vector<int> statement_pc;
    std::string path;
  };
  struct Fixup {
    uint32_t pc;
    int statement;
    size_t table_index;
    bool is_table;
  };

  void decode_function(const Function& function, std::map<std::string, ParamSlot> params,
                       int depth);
  void decode_statement(const Statement& statement);
  void list_registers(const Statement& statement, Instruction& out);
  void list_operands(const Statement& statement, Instruction& out);
  void decode_call(const Statement& statement, Instruction& out);
  void decode_branch(const Statement& statement, Instruction& out);
  bool builtin_call(const std::string& name, const std::vector<std::string>& arguments,
                    const std::vector<std::string>& results, Instruction& out);
  uint32_t allocate(uint32_t bytes, uint32_t align);
  uint32_t special(const std::string& name, int bytes);

  const Module& module_;
  const Function& kernel_;
  const SymbolResolver& resolve_;
  Program program_;
  Frame* frame_ = nullptr;
  const Statement* statement_ = nullptr;
  std::map<std::string, uint64_t> shared_;  // offsets of shared variables
  std::map<std::pair<uint64_t, int>, uint32_t> constants_;
  std::map<std::string, uint32_t> specials_;
  std::vector<Fixup> fixups_;
  std::vector<uint32_t> returns_;  // branches to the end of the function being inlined
  int depth_ = 0;
  uint32_t carry_ = kNone;
  FormLog* log_ = nullptr;
};

using DecodeFunction = void (*)(Decoder&, Form&, Instruction&);

// The scope of a strong access, the device unless said otherwise. It matters to the search for
// races only, so a form is one form with any scope.
Scope take_scope(Form& form);

// Opcode -> decoder; each execute_*.cpp adds its family.
using OpcodeTable = std::map<std::string, DecodeFunction>;
const OpcodeTable& opcode_table();
void add_integer_opcodes(OpcodeTable& table);
void add_bit_opcodes(OpcodeTable& table);
void add_float_opcodes(OpcodeTable& table);
void add_approximate_opcodes(OpcodeTable& table);
void add_compare_opcodes(OpcodeTable& table);
void add_convert_opcodes(OpcodeTable& table);
void add_move_opcodes(OpcodeTable& table);
void add_memory_opcodes(OpcodeTable& table);
void add_atomic_opcodes(OpcodeTable& table);
void add_copy_opcodes(OpcodeTable& table);
void add_warp_opcodes(OpcodeTable& table);
void add_barrier_opcodes(OpcodeTable& table);
void add_mbarrier_opcodes(OpcodeTable& table);
// cp.async.bulk and st.async, which share their opcodes with copies and stores.
void decode_bulk_copy(Decoder& decoder, Form& form, Instruction& out);
void decode_async_store(Decoder& decoder, Form& form, Instruction& out);

// Handlers of calls into the runtime of the device.
void execute_vprintf(Warp&, const Instruction&, uint32_t active);
void execute_assertfail(Warp&, const Instruction&, uint32_t active);

}  // namespace fusednorm::emulator
