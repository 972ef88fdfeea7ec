// SPDX-License-Identifier: Apache-2.0
// Operands of statements as offsets into the register file: registers, constants, special
// registers, addresses.
#include <algorithm>
#include <set>

#include "address_space.h"
#include "decoder.h"

namespace fusednorm::emulator {

const Operand& Decoder::operand(size_t index) const {
  if (index >= statement_->operands.size())
    fail("operand " + std::to_string(index + 1) + " is missing");
  return statement_->operands[index];
}

size_t Decoder::operand_count() const {
  return statement_->operands.size();
}

uint32_t Decoder::register_offset(int reg) const {
  return frame_->registers[reg];
}

Type Decoder::register_type(int reg) const {
  return frame_->function->registers[reg];
}

uint32_t Decoder::scratch(int bytes) {
  return allocate(32u * static_cast<uint32_t>(bytes), 64);
}

uint32_t Decoder::carry_predicate() {
  if (carry_ == kNone) carry_ = allocate(4, 4);
  return carry_;
}

uint32_t Decoder::constant(uint64_t bits, int bytes, uint64_t high) {
  if (bytes < 8) bits &= (1ull << (8 * bytes)) - 1;
  const auto key = std::make_pair(bits, bytes);
  if (bytes <= 8) {
    const auto known = constants_.find(key);
    if (known != constants_.end()) return known->second;
  }
  const uint32_t offset = scratch(bytes);
  program_.constants.push_back({offset, static_cast<uint8_t>(bytes), bits, high});
  if (bytes <= 8) constants_[key] = offset;
  return offset;
}

uint32_t Decoder::destination(const Operand& operand, Type type) {
  if (operand.kind == Operand::Kind::Sink) return scratch(byte_size(type));
  if (operand.kind != Operand::Kind::Register) fail("expected a register as destination");
  const Type have = register_type(operand.reg);
  if (byte_size(have) != byte_size(type)) fail("register " + operand.name + " has the wrong size");
  return register_offset(operand.reg);
}

uint32_t Decoder::destination_any(const Operand& operand, int& register_bytes, int at_least) {
  if (operand.kind == Operand::Kind::Sink) {
    register_bytes = at_least;
    return scratch(at_least);
  }
  if (operand.kind != Operand::Kind::Register) fail("expected a register as destination");
  register_bytes = byte_size(register_type(operand.reg));
  if (register_bytes < at_least) fail("register " + operand.name + " is too small");
  return register_offset(operand.reg);
}

uint32_t Decoder::source(const Operand& operand, Type type) {
  int bytes = 0;
  const uint32_t offset = source_any(operand, bytes, type);
  if (bytes != byte_size(type)) fail("register " + operand.name + " has the wrong size");
  return offset;
}

uint32_t Decoder::source_any(const Operand& operand, int& register_bytes, Type type) {
  register_bytes = byte_size(type);
  switch (operand.kind) {
    case Operand::Kind::Register:
      register_bytes = byte_size(register_type(operand.reg));
      if (register_bytes < byte_size(type)) fail("register " + operand.name + " is too small");
      return register_offset(operand.reg);
    case Operand::Kind::Integer:
      return constant(static_cast<uint64_t>(operand.value), register_bytes);
    case Operand::Kind::Float: {
      uint64_t bits = static_cast<uint64_t>(operand.value);
      if (operand.is_double != (type == Type::F64) && (type == Type::F64 || type == Type::F32)) {
        union {
          uint32_t u;
          float f;
        } single;
        union {
          uint64_t u;
          double f;
        } twice;
        if (operand.is_double) {
          twice.u = bits;
          single.f = static_cast<float>(twice.f);
          bits = single.u;
        } else {
          single.u = static_cast<uint32_t>(bits);
          twice.f = single.f;
          bits = twice.u;
        }
      }
      return constant(bits, register_bytes);
    }
    case Operand::Kind::Name: {
      if (operand.name[0] == '%') return special(operand.name, register_bytes);
      uint64_t address = 0;
      Space space;
      if (!symbol_address(operand.name, address, space)) fail("unknown symbol " + operand.name);
      return constant(address + static_cast<uint64_t>(operand.value), register_bytes);
    }
    default:
      fail("unexpected kind of operand");
  }
}

uint32_t Decoder::predicate_destination(const Operand& operand) {
  if (operand.kind == Operand::Kind::Sink) return allocate(4, 4);
  if (operand.kind != Operand::Kind::Register || register_type(operand.reg) != Type::Pred)
    fail("expected a predicate");
  return register_offset(operand.reg);
}

uint32_t Decoder::predicate_source(const Operand& operand, bool& negated) {
  negated = operand.negated;
  if (operand.kind == Operand::Kind::Integer) {
    const uint32_t offset = allocate(4, 4);
    program_.constants.push_back({offset, 0, operand.value ? 0xffffffffu : 0u, 0});
    return offset;
  }
  if (operand.kind != Operand::Kind::Register || register_type(operand.reg) != Type::Pred)
    fail("expected a predicate");
  return register_offset(operand.reg);
}

const ParamSlot* Decoder::param_slot(const std::string& name) const {
  const auto found = frame_->params.find(name);
  return found == frame_->params.end() ? nullptr : &found->second;
}

bool Decoder::kernel_parameter(const std::string& name, uint32_t& offset) const {
  if (depth_ > 0) return false;
  for (size_t i = 0; i < kernel_.parameters.size(); ++i)
    if (kernel_.parameters[i].name == name) {
      offset = program_.parameters[i].offset;
      return true;
    }
  return false;
}

bool Decoder::symbol_address(const std::string& name, uint64_t& address, Space& space) {
  const auto shared = shared_.find(name);
  if (shared != shared_.end()) {
    address = shared->second;
    space = Space::Shared;
    return true;
  }
  const auto local = frame_->locals.find(name);
  if (local != frame_->locals.end()) {
    address = local->second;
    space = Space::Local;
    return true;
  }
  uint32_t offset = 0;
  if (kernel_parameter(name, offset)) {
    address = offset;
    space = Space::Param;
    return true;
  }
  if (param_slot(name))
    fail("taking the address of the parameter " + name + " of a device function is not supported");
  address = resolve_(name);
  space = Space::Global;
  if (!address && module_.functions.count(name))
    fail("taking the address of the function " + name + " is not supported");
  return address != 0;
}

void Decoder::address(const Operand& operand, Instruction& out) {
  if (operand.kind != Operand::Kind::Memory) fail("expected an address in brackets");
  out.immediate = operand.value;
  if (operand.reg >= 0) {
    const int bytes = byte_size(register_type(operand.reg));
    if (bytes != 4 && bytes != 8) fail("an address needs a 32- or 64-bit register");
    out.a = register_offset(operand.reg);
    out.flags =
        static_cast<uint8_t>(bytes == 4 ? out.flags | 0x80 : out.flags);  // see execute_memory.h
  } else {
    uint64_t base = 0;
    Space space = out.space;
    if (!operand.name.empty()) {
      if (!symbol_address(operand.name, base, space)) fail("unknown symbol " + operand.name);
      if (out.space == Space::Generic && space == Space::Shared) base += kSharedWindow;
      if (out.space == Space::Generic && space == Space::Local) base += kLocalWindow;
    }
    out.a = constant(base, 8);
  }
}

uint32_t Decoder::special(const std::string& name, int bytes) {
  static const std::map<std::string, Special> kNames = {
      {"%tid.x", Special::TidX},
      {"%tid.y", Special::TidY},
      {"%tid.z", Special::TidZ},
      {"%ntid.x", Special::NtidX},
      {"%ntid.y", Special::NtidY},
      {"%ntid.z", Special::NtidZ},
      {"%ctaid.x", Special::CtaidX},
      {"%ctaid.y", Special::CtaidY},
      {"%ctaid.z", Special::CtaidZ},
      {"%nctaid.x", Special::NctaidX},
      {"%nctaid.y", Special::NctaidY},
      {"%nctaid.z", Special::NctaidZ},
      {"%laneid", Special::LaneId},
      {"%warpid", Special::WarpId},
      {"%nwarpid", Special::NwarpId},
      {"%smid", Special::SmId},
      {"%nsmid", Special::NsmId},
      {"%gridid", Special::GridId},
      {"%lanemask_eq", Special::LanemaskEq},
      {"%lanemask_le", Special::LanemaskLe},
      {"%lanemask_lt", Special::LanemaskLt},
      {"%lanemask_ge", Special::LanemaskGe},
      {"%lanemask_gt", Special::LanemaskGt},
      {"%clusterid.x", Special::ClusterIdX},
      {"%clusterid.y", Special::ClusterIdY},
      {"%clusterid.z", Special::ClusterIdZ},
      {"%nclusterid.x", Special::NclusterIdX},
      {"%nclusterid.y", Special::NclusterIdY},
      {"%nclusterid.z", Special::NclusterIdZ},
      {"%cluster_ctaid.x", Special::ClusterCtaidX},
      {"%cluster_ctaid.y", Special::ClusterCtaidY},
      {"%cluster_ctaid.z", Special::ClusterCtaidZ},
      {"%cluster_nctaid.x", Special::ClusterNctaidX},
      {"%cluster_nctaid.y", Special::ClusterNctaidY},
      {"%cluster_nctaid.z", Special::ClusterNctaidZ},
      {"%cluster_ctarank", Special::ClusterCtarank},
      {"%cluster_nctarank", Special::ClusterNctarank},
      {"%is_explicit_cluster", Special::IsExplicitCluster},
      {"%dynamic_smem_size", Special::DynamicSharedBytes},
      {"%total_smem_size", Special::TotalSharedBytes},
      {"%envreg1", Special::Envreg1},
      {"%envreg2", Special::Envreg2},
      {"%envreg0", Special::EnvregZero}};
  const std::string key = name + (bytes == 8 ? "/8" : bytes == 0 ? "/p" : "/4");
  const auto known = specials_.find(key);
  if (known != specials_.end()) return known->second;
  const auto found = kNames.find(name);
  if (found == kNames.end()) fail("the emulator does not know the special register " + name);
  const uint32_t offset = bytes == 0 ? allocate(4, 4) : scratch(bytes);
  program_.specials.push_back({found->second, offset, static_cast<uint8_t>(bytes)});
  specials_[key] = offset;
  return offset;
}

// Every register of a statement, for traces. A statement under a guard keeps its destination where
// that is false: it reads it too.
void Decoder::list_operands(const Statement& statement, Instruction& out) {
  static const std::set<std::string> without_result = {
      "st",   "red",   "bar", "barrier", "bra",  "brx",      "exit",           "ret",
      "trap", "fence", "cp",  "membar",  "call", "prefetch", "griddepcontrol", "nanosleep"};
  const std::string& opcode = statement.opcode[0];
  const auto has = [&](const char* word) {
    return std::find(statement.opcode.begin(), statement.opcode.end(), word) !=
           statement.opcode.end();
  };
  const bool quiet_mbarrier =
      opcode == "mbarrier" &&
      (has("init") || has("inval") || (has("expect_tx") && !has("arrive")) || has("complete_tx"));
  const bool reduces = (opcode == "bar" || opcode == "barrier") && has("red");
  const size_t written =
      (without_result.count(opcode) && !reduces) || quiet_mbarrier || statement.operands.empty()
          ? 0
          : 1;
  out.operands = static_cast<uint32_t>(program_.operands.size());
  const auto list = [&](const Operand& operand, uint8_t& count) {
    for (const int reg : {operand.reg, operand.second_reg}) {
      if (reg < 0) continue;
      program_.operands.push_back(register_offset(reg));
      ++count;
    }
  };
  const auto list_all = [&](const Operand& operand, uint8_t& count) {
    list(operand, count);
    for (const Operand& one : operand.list) list(one, count);
  };
  for (size_t k = written; k < statement.operands.size(); ++k)
    list_all(statement.operands[k], out.operand_reads);
  if (statement.guard >= 0) {
    program_.operands.push_back(register_offset(statement.guard));
    ++out.operand_reads;
    for (size_t k = 0; k < written; ++k) list_all(statement.operands[k], out.operand_reads);
  }
  for (size_t k = 0; k < written; ++k) list_all(statement.operands[k], out.operand_writes);
}

}  // namespace fusednorm::emulator
