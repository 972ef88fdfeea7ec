// SPDX-License-Identifier: Apache-2.0
// Turns statements into Instructions: lays out registers, constants and variables, and inlines
// calls.
#include "decoder.h"

#include <algorithm>

#include "address_space.h"
#include "loads_in_flight.h"

namespace fusednorm::emulator {

const OpcodeTable& opcode_table() {
  static const OpcodeTable table = [] {
    OpcodeTable all;
    add_integer_opcodes(all);
    add_bit_opcodes(all);
    add_float_opcodes(all);
    add_approximate_opcodes(all);
    add_compare_opcodes(all);
    add_convert_opcodes(all);
    add_move_opcodes(all);
    add_memory_opcodes(all);
    add_atomic_opcodes(all);
    add_copy_opcodes(all);
    add_warp_opcodes(all);
    add_barrier_opcodes(all);
    add_mbarrier_opcodes(all);
    return all;
  }();
  return table;
}

Scope take_scope(Form& form) {
  const Scope scope = form.has("cta")       ? kScopeBlock
                      : form.has("cluster") ? kScopeCluster
                                            : kScopeDevice;
  form.ignore_one({"cta", "cluster", "gpu", "sys"});
  return scope;
}

Decoder::Decoder(const Module& module, const Function& kernel, const SymbolResolver& resolve,
                 uint32_t shared_base)
    : module_(module), kernel_(kernel), resolve_(resolve) {
  program_.shared_base = shared_base;
}

void Decoder::fail(const std::string& what) const {
  throw PtxError(statement_ ? statement_->line : kernel_.line,
                 what + (statement_ ? " (in '" + statement_->text() + "')" : ""));
}

uint32_t Decoder::allocate(uint32_t bytes, uint32_t align) {
  program_.register_bytes = (program_.register_bytes + align - 1) / align * align;
  const uint32_t offset = program_.register_bytes;
  program_.register_bytes += bytes;
  return offset;
}

Program Decoder::run() {
  program_.name = kernel_.name;
  program_.function = &kernel_;
  program_.module = &module_;
  // Static shared memory: module-level variables (any kernel may use them), then those of functions
  // as they come.
  uint64_t shared_end = 0;
  auto place_shared = [&](const Variable& variable) {
    if (variable.space != Space::Shared || shared_.count(variable.name) || variable.is_extern)
      return;
    shared_end = (shared_end + variable.align - 1) / variable.align * variable.align;
    shared_[variable.name] = program_.shared_base + shared_end;
    shared_end += variable.bytes;
  };
  std::vector<const Function*> reachable{&kernel_};
  for (size_t i = 0; i < reachable.size(); ++i)
    for (const Statement& statement : reachable[i]->body) {
      for (const Operand& operand : statement.operands) {
        const std::string& name = operand.name;
        if (name.empty()) continue;
        for (const Variable& variable : module_.variables)
          if (variable.name == name) place_shared(variable);
        const auto callee = module_.functions.find(name);
        if (callee != module_.functions.end() &&
            std::find(reachable.begin(), reachable.end(), &callee->second) == reachable.end())
          reachable.push_back(&callee->second);
      }
    }
  for (const Function* function : reachable)
    for (const Variable& variable : function->variables) place_shared(variable);
  program_.static_shared_bytes = static_cast<uint32_t>(shared_end);
  uint64_t dynamic = (shared_end + 15) / 16 * 16;
  for (const Variable& variable : module_.variables)
    if (variable.space == Space::Shared && variable.is_extern)
      dynamic = (dynamic + variable.align - 1) / variable.align * variable.align;
  for (const Variable& variable : module_.variables)
    if (variable.space == Space::Shared && variable.is_extern)
      shared_[variable.name] = program_.shared_base + dynamic;
  if (shared_end) program_.static_shared_bytes = static_cast<uint32_t>(dynamic);

  for (const Variable& parameter : kernel_.parameters) {
    uint32_t offset =
        (program_.parameter_bytes + parameter.align - 1) / parameter.align * parameter.align;
    program_.parameters.push_back({offset, static_cast<uint32_t>(parameter.bytes)});
    program_.parameter_bytes = offset + static_cast<uint32_t>(parameter.bytes);
  }
  decode_function(kernel_, {}, 0);
  Instruction end;  // falling off the end of a kernel is an exit
  end.flow = Flow::Exit;
  end.cost = 0;
  end.text = "exit";
  end.line = kernel_.body.empty() ? kernel_.line : kernel_.body.back().line;
  program_.code.push_back(end);
  program_.register_bytes = (program_.register_bytes + 511) / 512 * 512;
  find_reconvergence(program_.code);
  mark_loads(program_);
  return std::move(program_);
}

void Decoder::survey(const Statement& statement, FormLog& log) {
  Frame frame;
  frame.function = &kernel_;
  frame_ = &frame;
  log_ = &log;
  decode_statement(statement);
}

void Decoder::decode_function(const Function& function, std::map<std::string, ParamSlot> params,
                              int depth) {
  if (depth > 24) fail("calls nested more than 24 deep: recursion is not supported");
  Frame frame;
  frame.function = &function;
  frame.params = std::move(params);
  for (Type type : function.registers) {
    const uint32_t bytes = type == Type::Pred ? 4 : 32u * static_cast<uint32_t>(byte_size(type));
    frame.registers.push_back(allocate(bytes, std::min(bytes, 64u)));
  }
  for (const Variable& variable : function.variables) {
    if (variable.space == Space::Local) {
      program_.local_bytes =
          (program_.local_bytes + variable.align - 1) / variable.align * variable.align;
      frame.locals[variable.name] = program_.local_bytes;
      program_.local_bytes += static_cast<uint32_t>(variable.bytes);
    } else if (variable.space == Space::Param) {
      const uint32_t words = static_cast<uint32_t>((variable.bytes + 3) / 4);
      frame.params[variable.name] = {allocate(words * 128, 64), words * 4};
    }
  }
  Frame* const outer = frame_;
  const size_t first_fixup = fixups_.size();
  const size_t first_return = returns_.size();
  frame_ = &frame;
  depth_ = depth;
  for (const Statement& statement : function.body) {
    frame.statement_pc.push_back(static_cast<int>(program_.code.size()));
    decode_statement(statement);
    frame_ = &frame;
    depth_ = depth;
  }
  const uint32_t end = static_cast<uint32_t>(program_.code.size());
  frame.statement_pc.push_back(static_cast<int>(end));
  for (size_t i = first_fixup; i < fixups_.size(); ++i) {
    const Fixup& fixup = fixups_[i];
    const uint32_t target = static_cast<uint32_t>(frame.statement_pc[fixup.statement]);
    Instruction& instruction = program_.code[fixup.pc];
    (fixup.is_table ? instruction.table[fixup.table_index] : instruction.target) = target;
  }
  fixups_.resize(first_fixup);
  for (size_t i = first_return; i < returns_.size(); ++i) program_.code[returns_[i]].target = end;
  returns_.resize(first_return);
  frame_ = outer;
}

void Decoder::decode_statement(const Statement& statement) {
  statement_ = &statement;
  Instruction out;
  out.line = statement.line;
  out.location = statement.location;
  out.text = statement.text();
  if (statement.guard >= 0) {
    out.guard = register_offset(statement.guard);
    out.guard_negated = statement.guard_negated;
  }
  const std::string& opcode = statement.opcode[0];
  if (opcode == "call") {
    decode_call(statement, out);
    return;
  }
  if (opcode == "bra" || opcode == "brx") {
    decode_branch(statement, out);
    return;
  }
  Form form(statement, log_);
  if (opcode == "ret" || opcode == "exit") {
    if (opcode == "ret") form.ignore_one({"uni"});
    if (!form.all_taken()) form.unsupported();
    out.cost = 0;
    if (opcode == "ret" && depth_ > 0) {
      out.flow = Flow::Branch;
      returns_.push_back(static_cast<uint32_t>(program_.code.size()));
    } else {
      out.flow = Flow::Exit;
    }
    list_operands(statement, out);
    program_.code.push_back(std::move(out));
    return;
  }
  const auto found = opcode_table().find(opcode);
  if (found == opcode_table().end()) form.unsupported();
  found->second(*this, form, out);
  if (!form.all_taken()) form.unsupported("this combination of modifiers");
  list_registers(statement, out);
  list_operands(statement, out);
  program_.code.push_back(std::move(out));
}

// The registers of a statement for mark_loads. Only loads and moves tell what they read from what
// they write; any other use of a register, as its destination too, must wait for a load into it.
void Decoder::list_registers(const Statement& statement, Instruction& out) {
  const std::string& opcode = statement.opcode[0];
  if (opcode == "mov") out.in_flight |= kCarries;
  const bool load = (opcode == "ld" || opcode == "ldu") &&
                    (out.space == Space::Global || out.space == Space::Generic);
  if (load) out.in_flight |= kGlobalLoad;
  const size_t written = std::min<size_t>(load || opcode == "mov", statement.operands.size());
  out.loadable = static_cast<uint32_t>(program_.loadable.size());
  auto list = [&](const Operand& one, uint8_t& count) {
    if (one.reg < 0 || register_type(one.reg) == Type::Pred) return;
    program_.loadable.push_back(register_offset(one.reg));
    ++count;
  };
  auto list_all = [&](const Operand& operand, uint8_t& count) {
    list(operand, count);
    for (const Operand& one : operand.list) list(one, count);
  };
  for (size_t k = written; k < statement.operands.size(); ++k)
    list_all(statement.operands[k], out.reads);
  for (size_t k = 0; k < written; ++k) list_all(statement.operands[k], out.writes);
}

void Decoder::decode_branch(const Statement& statement, Instruction& out) {
  Form form(statement, log_);
  form.ignore_one({"uni"});
  if (statement.opcode[0] == "brx" && !form.take("idx")) form.unsupported();
  if (!form.all_taken()) form.unsupported();
  const Function& function = *frame_->function;
  const uint32_t pc = static_cast<uint32_t>(program_.code.size());
  auto find = [&](const std::string& name) {
    const int target = function.find_label(statement.scope, name);
    if (target < 0) fail("unknown label " + name);
    return target;
  };
  if (statement.opcode[0] == "bra") {
    if (operand_count() != 1 || operand(0).kind != Operand::Kind::Name) fail("expected a label");
    out.flow = Flow::Branch;
    fixups_.push_back({pc, find(operand(0).name), 0, false});
  } else {
    if (operand_count() != 2) fail("expected an index and a list of targets");
    out.flow = Flow::BranchTable;
    out.a = source(operand(0), Type::U32);
    const std::vector<std::string>* targets = nullptr;
    for (int scope = statement.scope; scope >= 0 && !targets;
         scope = function.scope_parent[scope]) {
      const auto known = function.branch_targets.find({scope, operand(1).name});
      if (known != function.branch_targets.end()) targets = &known->second;
    }
    if (!targets) fail("unknown branch targets " + operand(1).name);
    for (size_t i = 0; i < targets->size(); ++i) {
      fixups_.push_back({pc, find((*targets)[i]), i, true});
      out.table.push_back(0);
    }
  }
  list_operands(statement, out);
  program_.code.push_back(std::move(out));
}

void Decoder::decode_call(const Statement& statement, Instruction& out) {
  Form form(statement, log_);
  form.ignore_one({"uni"});
  if (!form.all_taken()) form.unsupported();
  std::vector<std::string> results, arguments;
  size_t at = 0;
  auto names = [&](std::vector<std::string>& list) {
    for (const Operand& item : operand(at).list) {
      if (item.kind != Operand::Kind::Name) fail("an argument of a call must be a .param variable");
      list.push_back(item.name);
    }
    ++at;
  };
  if (operand_count() > at && operand(at).kind == Operand::Kind::List) names(results);
  if (operand_count() <= at || operand(at).kind != Operand::Kind::Name)
    fail("indirect calls are not supported");
  const std::string callee_name = operand(at++).name;
  if (operand_count() > at && operand(at).kind == Operand::Kind::List) names(arguments);
  if (builtin_call(callee_name, arguments, results, out)) {
    program_.code.push_back(std::move(out));
    return;
  }
  const auto found = module_.functions.find(callee_name);
  if (found == module_.functions.end() || found->second.is_declaration)
    fail("the device function " + callee_name +
         " is not defined in this module (relocatable device code must be linked)");
  const Function& callee = found->second;
  if (callee.parameters.size() != arguments.size() || callee.results.size() != results.size())
    fail("wrong number of arguments in a call of " + callee_name);
  std::map<std::string, ParamSlot> params;
  auto bind = [&](const std::vector<Variable>& formals, const std::vector<std::string>& actuals) {
    for (size_t i = 0; i < formals.size(); ++i) {
      const ParamSlot* slot = param_slot(actuals[i]);
      if (!slot) fail("unknown argument " + actuals[i]);
      if (slot->bytes < formals[i].bytes)
        fail("argument " + actuals[i] + " of " + callee_name + " is too small");
      params[formals[i].name] = *slot;
    }
  };
  bind(callee.parameters, arguments);
  bind(callee.results, results);
  // The call itself is a branch to the next statement; a guard skips the whole body.
  const uint32_t pc = static_cast<uint32_t>(program_.code.size());
  out.flow = Flow::Branch;
  if (out.guard != kNone) out.guard_negated = !out.guard_negated;
  const bool guarded = out.guard != kNone;
  out.target = pc + 1;
  program_.code.push_back(std::move(out));
  decode_function(callee, std::move(params), depth_ + 1);
  if (guarded) program_.code[pc].target = static_cast<uint32_t>(program_.code.size());
}

bool Decoder::builtin_call(const std::string& name, const std::vector<std::string>& arguments,
                           const std::vector<std::string>& results, Instruction& out) {
  auto slot = [&](const std::string& param) {
    const ParamSlot* found = param_slot(param);
    if (!found) fail("unknown argument " + param);
    return found->offset;
  };
  if (name == "vprintf" && arguments.size() == 2 && results.size() == 1) {
    out.handler = execute_vprintf;
    out.a = slot(arguments[0]);
    out.b = slot(arguments[1]);
    out.dst = slot(results[0]);
    return true;
  }
  if (name == "__assertfail" && arguments.size() == 5) {
    out.handler = execute_assertfail;
    out.a = slot(arguments[0]);
    out.b = slot(arguments[1]);
    out.c = slot(arguments[2]);
    out.d = slot(arguments[3]);
    return true;
  }
  if (name == "malloc" || name == "free" || name.rfind("cudaCGGet", 0) == 0 ||
      name.rfind("cudaLaunchDevice", 0) == 0)
    fail("the device function " + name + " is not supported");
  return false;
}

Program decode_program(const Module& module, const Function& kernel, const SymbolResolver& resolve,
                       uint32_t shared_base) {
  return Decoder(module, kernel, resolve, shared_base).run();
}

}  // namespace fusednorm::emulator
